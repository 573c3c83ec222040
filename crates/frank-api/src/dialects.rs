//! The table of dialects: where each listens, how it reads a request and how it writes an answer.

mod completions;
pub(crate) mod messages;
mod openai;
mod openai_chat;
mod responses;

use serde_json::Value;

pub use self::responses::deleted_body;
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
    /// What ids of its tool calls start with.
    pub call_id_prefix: &'static str,
    /// Where clients ask how many tokens a request would have.
    pub count: Option<CountRoute>,
    /// Whether answers can be stored, read again and deleted at `path/{id}`.
    pub stores: bool,
}

/// Where clients ask how many tokens a request would have.
#[derive(Clone, Copy, Debug)]
pub struct CountRoute {
    /// Where they post to.
    pub path: &'static str,
    /// Reads the body, which is that of a request for an answer or less.
    pub parse: fn(&[u8]) -> Result<ApiRequest, ApiError>,
    /// The reply, from the tokens of the prompt.
    pub body: fn(u64) -> Value,
}

/// Every dialect.
pub static DIALECTS: &[Dialect] =
    &[openai_chat::DIALECT, completions::DIALECT, messages::DIALECT, responses::DIALECT];

/// The envelope of an error on a path that no dialect owns.
#[must_use]
pub fn error_body(error: &ApiError) -> Value {
    openai::error(error)
}
