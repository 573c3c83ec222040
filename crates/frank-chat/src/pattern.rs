//! What text may look like, for whoever keeps a model to it. Says nothing about tokens, except that some texts are
//! control tokens.

use serde_json::Value;

/// A form of text. A model that is kept to it can write nothing else.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Exactly this text, spelled in ordinary tokens. Where the vocabulary has a control token of this text, that token
    /// and nothing else.
    Literal(String),
    /// JSON that a schema describes. White space between its parts is free within narrow bounds.
    Json(Value),
    /// Any text in which none of `markers` stands. It may be empty.
    TextWithout {
        /// Texts or control tokens; none is empty.
        markers: Vec<String>,
    },
    /// Any text up to the first `end`, and `end` itself.
    TextThrough {
        /// A text or a control token; not empty.
        end: String,
    },
    /// White space, at most a few characters; may be nothing.
    Space,
    /// One after the other.
    Sequence(Vec<Pattern>),
    /// One of several; there is at least one.
    OneOf(Vec<Pattern>),
    /// This or nothing.
    Optional(Box<Pattern>),
    /// This once or any number of times in a row.
    Repeated(Box<Pattern>),
}

impl Pattern {
    /// Exactly `text`.
    pub fn literal(text: impl Into<String>) -> Self {
        Self::Literal(text.into())
    }

    /// Exactly these texts one after the other.
    pub(crate) fn literals(texts: &[&str]) -> Vec<Self> {
        texts.iter().map(|text| Self::literal(*text)).collect()
    }
}
