//! Behaviour of tokenizers at their border: a file's metadata and text in, tokens and text out.

mod bounds;
mod detokenizing;
mod hostile_files;
mod o200k;
mod oracle;
mod prompts;
mod round_trips;
mod spm;
mod vectors;
mod vocabulary;

use std::fs::File;
use std::path::Path;

use frank_gguf::{Array, Header, Metadata, Value};
use frank_tokenizer::Tokenizer;

/// The metadata of a model file.
fn metadata_of(path: &Path) -> Metadata {
    let mut file = File::open(path).expect("the model file can be opened");
    let file_bytes = file.metadata().expect("an open file has a size").len();
    Header::read(&mut file, file_bytes).expect("the model file is well-formed").metadata
}

fn tokenizer_of(path: &Path) -> Tokenizer {
    Tokenizer::from_metadata(&metadata_of(path)).expect("the model file has a tokenizer")
}

/// Token types of the format.
const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const BYTE: i32 = 6;

/// The tokenizer keys of a small byte-level vocabulary: the 256 bytes (token id = byte), then the given tokens.
#[derive(Clone)]
struct Keys(Vec<(String, Value)>);

impl Keys {
    fn new(more: &[(&str, i32)], merges: &[&str]) -> Keys {
        let texts =
            (0..=255).map(spell).chain(more.iter().map(|token| token.0.to_owned())).collect();
        let kinds = [NORMAL; 256].into_iter().chain(more.iter().map(|token| token.1)).collect();
        Keys(Vec::new())
            .with("tokenizer.ggml.model", "gpt2")
            .with("tokenizer.ggml.pre", "gpt-2")
            .with("tokenizer.ggml.tokens", Array::String(texts))
            .with("tokenizer.ggml.token_type", Array::I32(kinds))
            .with(
                "tokenizer.ggml.merges",
                Array::String(merges.iter().map(|&merge| merge.to_owned()).collect()),
            )
    }

    /// A small vocabulary of SentencePiece: `<unk>`, `<s>`, `</s>`, the 256 bytes, then the given tokens with scores.
    fn spm(more: &[(&str, f32, i32)]) -> Keys {
        let first = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL)];
        let first = first.map(|(text, kind)| (text.to_owned(), 0.0, kind));
        let bytes = (0..=255u8).map(|byte| (format!("<0x{byte:02X}>"), 0.0, BYTE));
        let more = more.iter().map(|&(text, score, kind)| (text.to_owned(), score, kind));
        let tokens: Vec<(String, f32, i32)> = first.into_iter().chain(bytes).chain(more).collect();
        let texts = tokens.iter().map(|token| token.0.clone()).collect();
        Keys(Vec::new())
            .with("tokenizer.ggml.model", "llama")
            .with("tokenizer.ggml.tokens", Array::String(texts))
            .with("tokenizer.ggml.scores", Array::F32(tokens.iter().map(|token| token.1).collect()))
            .with(
                "tokenizer.ggml.token_type",
                Array::I32(tokens.iter().map(|token| token.2).collect()),
            )
            .with("tokenizer.ggml.bos_token_id", 1u32)
            .with("tokenizer.ggml.eos_token_id", 2u32)
    }

    /// Sets a key.
    fn with(self, key: &str, value: impl Into<Value>) -> Keys {
        let mut keys = self.without(key);
        keys.0.push((key.to_owned(), value.into()));
        keys
    }

    fn without(mut self, key: &str) -> Keys {
        self.0.retain(|entry| entry.0 != key);
        self
    }

    fn metadata(&self) -> Metadata {
        Metadata::new(self.0.clone()).expect("every key is set once")
    }

    fn tokenizer(&self) -> Tokenizer {
        Tokenizer::from_metadata(&self.metadata()).expect("a well-formed vocabulary")
    }
}

/// A byte in GPT-2's alphabet.
fn spell(byte: u8) -> String {
    let printable = |byte: &u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let c = if printable(&byte) {
        char::from(byte)
    } else {
        let nth = (0..byte).filter(|byte| !printable(byte)).count() as u32;
        char::from_u32(0x100 + nth).expect("U+0100 to U+0143 are characters")
    };
    c.to_string()
}

/// The bytes of a text as tokens of [`Keys`].
fn bytes(text: &str) -> Vec<u32> {
    text.bytes().map(u32::from).collect()
}
