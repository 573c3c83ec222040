//! The two shapes of a reply: a stream of frames, or one body.

use serde_json::Value;

use crate::event::{Event, FinishReason, TokenLogprob, Totals};

/// What every part of a reply repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyHead {
    /// Identifies the reply, with the dialect's prefix.
    pub id: String,
    /// Seconds since 1970.
    pub created: u64,
    /// The model's name as it is served.
    pub model: String,
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// At least one.
    pub choices: Vec<Choice>,
    /// What they took together.
    pub totals: Totals,
}

/// One of several answers to the same request.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Its text.
    pub text: String,
    /// Its tokens, where the client asked for them.
    pub logprobs: Option<Vec<TokenLogprob>>,
    /// Why it ended.
    pub reason: FinishReason,
}

/// One server-sent event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Name of the event, where the dialect has names.
    pub event: Option<&'static str>,
    /// One line of data.
    pub data: String,
}

impl Frame {
    /// A frame without a name.
    pub(crate) fn json(data: &Value) -> Self {
        Self { event: None, data: data.to_string() }
    }

    /// The frame that says that no other follows.
    pub(crate) fn done() -> Self {
        Self { event: None, data: "[DONE]".to_owned() }
    }
}

/// Writes an answer as a dialect's frames.
pub trait ReplyStream: Send {
    /// Frames before the first event.
    fn start(&mut self) -> Vec<Frame>;

    /// Frames for an event. Those of the last event end the stream.
    fn event(&mut self, event: &Event) -> Vec<Frame>;
}
