//! The table of dialects: where each listens, how it reads a request and how it writes an answer.

mod completions;
mod openai;
mod openai_chat;

use serde_json::Value;

use crate::error::ApiError;
use crate::reply::{Answer, ReplyHead, ReplyStream};
use crate::request::ApiRequest;

/// One way in which clients talk to the endpoint.
#[derive(Debug)]
pub struct Dialect {
    /// Names its transcripts: `tests/transcripts/<name>/`.
    pub name: &'static str,
    /// Where clients post to.
    pub path: &'static str,
    /// What ids of its replies start with.
    pub id_prefix: &'static str,
    /// Reads the body of a request.
    pub parse: fn(&[u8]) -> Result<ApiRequest, ApiError>,
    /// Begins a reply in frames, with token counts at its end or without.
    pub stream: fn(ReplyHead, usage: bool) -> Box<dyn ReplyStream>,
    /// A reply in one piece.
    pub whole: fn(&ReplyHead, &Answer) -> Value,
    /// The envelope of an error.
    pub error: fn(&ApiError) -> Value,
}

/// Every dialect.
pub static DIALECTS: &[Dialect] = &[openai_chat::DIALECT, completions::DIALECT];

/// The envelope of an error on a path that no dialect owns.
#[must_use]
pub fn error_body(error: &ApiError) -> Value {
    openai::error(error)
}
