//! Why a grammar is refused, and why an answer cannot be kept to one.

use thiserror::Error;

/// Why a grammar cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GrammarError {
    /// A part is larger than the limits allow.
    #[error("the grammar has {got} {what}, {max} may be used")]
    TooLarge {
        /// What was counted.
        what: &'static str,
        /// How many there are; where counting stopped at the limit, one more than that.
        got: usize,
        /// The limit.
        max: usize,
    },
    /// Parts are nested deeper than the limits allow.
    #[error("the grammar is nested deeper than {max} levels at {place}")]
    TooDeep {
        /// A JSON pointer, or line and column.
        place: String,
        /// The limit.
        max: usize,
    },
    /// A keyword of a JSON schema cannot be honoured.
    #[error("the schema keyword {keyword} at {pointer} is not supported")]
    UnsupportedKeyword {
        /// The keyword.
        keyword: String,
        /// The JSON pointer of the schema that has it.
        pointer: String,
    },
    /// A keyword of a JSON schema has a value that it cannot have here.
    #[error("the schema at {pointer}: {what}")]
    BadKeyword {
        /// The JSON pointer of the keyword.
        pointer: String,
        /// What is wrong with it.
        what: String,
    },
    /// A GBNF text that is not well-formed.
    #[error("the grammar at line {line}, column {column}: {what}")]
    Gbnf {
        /// From 1.
        line: usize,
        /// In characters, from 1.
        column: usize,
        /// What is wrong there.
        what: String,
    },
    /// The parts are well-formed and cannot be followed together.
    #[error("the grammar cannot be used: {0}")]
    Unusable(String),
    /// The vocabulary of the model is beyond what masks can be made for.
    #[error("the vocabulary has {got} bytes of text, masks are made for {max} at most")]
    Vocabulary {
        /// Bytes of all tokens.
        got: usize,
        /// The limit.
        max: usize,
    },
}

/// Why an answer cannot go on under its grammar.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct MatchError(pub(crate) String);
