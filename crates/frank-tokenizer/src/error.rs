//! Why a file's tokenizer cannot be used.

use frank_gguf::GgufError;

/// Texts longer than this many characters are cut in error texts, so that a hostile one stays on one line.
const TEXT_CHARS_MAX: usize = 96;

/// A tokenizer that cannot be made from a file's metadata.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// A key of the wrong type, or out of range.
    #[error(transparent)]
    Metadata(#[from] GgufError),
    /// A key that the tokenizer needs.
    #[error("key {key:?} is missing")]
    MissingKey {
        /// The key.
        key: &'static str,
    },
    /// `tokenizer.ggml.model` names an algorithm that is not here.
    #[error("tokenizer.ggml.model is {model:?}; known: {known}")]
    UnknownModel {
        /// What the file says.
        model: String,
        /// The names that are known.
        known: String,
    },
    /// `tokenizer.ggml.pre` names a splitting that is not here.
    #[error("tokenizer.ggml.pre is {pre:?}; known: {known}")]
    UnknownPre {
        /// What the file says.
        pre: String,
        /// The names that are known.
        known: String,
    },
    /// A vocabulary of no tokens.
    #[error("the vocabulary is empty")]
    NoTokens,
    /// A list that 32-bit ids cannot count.
    #[error("key {key:?} has {count} entries, more than 32-bit ids can count")]
    TooMany {
        /// The key of the list.
        key: &'static str,
        /// Its length.
        count: usize,
    },
    /// A list that should be as long as the vocabulary.
    #[error("key {key:?} has {got} entries, but the vocabulary has {want} tokens")]
    Length {
        /// The key of the list.
        key: &'static str,
        /// Its length.
        got: usize,
        /// Tokens of the vocabulary.
        want: usize,
    },
    /// Two tokens of one text.
    #[error("tokens {first} and {second} have the same text {text:?}")]
    DuplicateToken {
        /// The text.
        text: String,
        /// The lower id.
        first: u32,
        /// The higher id.
        second: u32,
    },
    /// A token type that does not exist.
    #[error("token {token_id} has type {kind}, which does not exist")]
    TokenKind {
        /// The token.
        token_id: u32,
        /// The type in the file.
        kind: i32,
    },
    /// A token that is typed as a byte and does not say which.
    #[error(
        "token {token_id} is typed as a byte, but its text {text:?} is none of <0x00> to <0xFF>"
    )]
    ByteForm {
        /// The token.
        token_id: u32,
        /// Its text.
        text: String,
    },
    /// A score that cannot be compared.
    #[error("token {token_id} has no number as its score")]
    ScoreNotANumber {
        /// The token.
        token_id: u32,
    },
    /// A vocabulary with texts that it cannot turn into tokens.
    #[error("no token stands for byte {byte:#04x}, and none for what is unknown")]
    NoFallback {
        /// The lowest byte without a token.
        byte: u8,
    },
    /// A token that is longer than any real one.
    #[error("token {token_id} has a text of {bytes} bytes, at most {max} are allowed")]
    TooLong {
        /// The token.
        token_id: u32,
        /// Bytes of its text.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// A key that names a token beyond the vocabulary.
    #[error("key {key:?} is {token_id}, but the vocabulary has {n_vocab} tokens")]
    TokenId {
        /// The key.
        key: &'static str,
        /// The id in the file.
        token_id: u64,
        /// Tokens of the vocabulary.
        n_vocab: usize,
    },
    /// A control or user-defined token longer than any real one.
    #[error("special token {token_id} has a text of {bytes} bytes, at most {max} are allowed")]
    SpecialTooLong {
        /// The token.
        token_id: u32,
        /// Bytes of its text.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// A merge without a space between its two pieces.
    #[error("merge number {index} {merge:?} is not two pieces with a space between them")]
    MergeForm {
        /// Position in the list, from 0.
        index: usize,
        /// The merge in the file.
        merge: String,
    },
    /// A merge of or to a piece that text cannot have.
    #[error("merge number {index} {merge:?}: {piece:?} is not a text token of the vocabulary")]
    MergePiece {
        /// Position in the list, from 0.
        index: usize,
        /// The merge in the file.
        merge: String,
        /// The piece at fault: the left, the right or the joined one.
        piece: String,
    },
}

/// A text from the file as error texts carry it. They print it with `{:?}`, which also escapes control characters.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
