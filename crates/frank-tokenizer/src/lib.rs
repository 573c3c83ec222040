//! Tokenizers from GGUF metadata, and incremental detokenizing.
//!
//! The vocabulary in a file is input from a stranger, and so is the text: a file whose parts do not fit together is
//! refused with a reason, no text takes more than O(n log n), and the text of a message never becomes a control token.

mod bpe;
mod byte_alphabet;
mod detokenize;
mod error;
mod joints;
mod pre;
mod special;
mod spm;
mod text_index;
mod tokenizer;
mod unicode;
mod vocab;

pub use detokenize::Detokenizer;
pub use error::TokenizerError;
pub use special::Specials;
pub use tokenizer::Tokenizer;
