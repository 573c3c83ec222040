//! The bodies of `/tokenize` and `/detokenize`.

use serde_json::{Value, json};

use crate::error::ApiError;
use crate::fields::{Fields, token_ids};
use crate::json;

/// A text whose tokens a client wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenizeRequest {
    /// The text.
    pub content: String,
    /// Whether BOS and EOS are added where the model wants them.
    pub add_special: bool,
    /// Whether control tokens in the text are read as such.
    pub parse_special: bool,
}

impl TokenizeRequest {
    /// Reads a body.
    ///
    /// # Errors
    /// A 400 that names the mistake.
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let mut fields = Fields::of_body(json::parse(body)?)?;
        let content = fields.required_string("content")?;
        let add_special = fields.bool("add_special")?.unwrap_or(false);
        let parse_special = fields.bool("parse_special")?.unwrap_or(true);
        fields.refuse_unless("with_pieces", " or send false", |value| value == false)?;
        fields.finish()?;
        Ok(Self { content, add_special, parse_special })
    }
}

/// Token ids whose text a client wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetokenizeRequest {
    /// The ids, in or out of the vocabulary.
    pub tokens: Vec<u32>,
}

impl DetokenizeRequest {
    /// Reads a body.
    ///
    /// # Errors
    /// A 400 that names the mistake.
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let mut fields = Fields::of_body(json::parse(body)?)?;
        let items = fields.required_list("tokens")?;
        fields.finish()?;
        Ok(Self { tokens: token_ids(&items, "tokens")? })
    }
}

/// The answer to [`TokenizeRequest`].
#[must_use]
pub fn tokenize_body(tokens: &[u32]) -> Value {
    json!({"tokens": tokens})
}

/// The answer to [`DetokenizeRequest`].
#[must_use]
pub fn detokenize_body(content: &str) -> Value {
    json!({"content": content})
}
