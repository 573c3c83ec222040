//! What an answer is made of while it grows. Every dialect writes the same events in its own way.

use crate::error::ApiError;

/// One step of an answer: `Started`, then for each choice what it is made of and one `Finished`, mixed with those of the
/// others. The last `Finished` has the totals. A `Failed` ends all, and may come at any time.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The prompt is being read; nothing was generated yet.
    Started(Usage),
    /// More of what the model thinks. Comes before text and calls of its choice, mostly.
    Reasoning {
        /// Which choice, from 0.
        choice: u32,
        /// Whole characters, at least one.
        text: String,
    },
    /// More of a choice.
    Delta(Delta),
    /// A choice calls a tool. Fragments of its arguments follow.
    ToolCall {
        /// Which choice, from 0.
        choice: u32,
        /// Which of the choice's calls, from 0 and rising.
        index: u32,
        /// Names the call.
        id: String,
        /// Name of the tool.
        name: String,
    },
    /// More of the arguments of a call. Joined they are exactly the arguments, a JSON object unless the answer is cut off
    /// in it.
    ToolArguments {
        /// Which choice, from 0.
        choice: u32,
        /// Which of the choice's calls: the last that began.
        index: u32,
        /// Whole characters, at least one.
        fragment: String,
    },
    /// A choice is whole.
    Finished {
        /// Which, from 0.
        choice: u32,
        /// Why it ended.
        reason: FinishReason,
        /// The stop text that ended it, where one did.
        stop_text: Option<String>,
        /// What all choices took together, once all are whole.
        totals: Option<Totals>,
    },
    /// The answer cannot be continued.
    Failed(ApiError),
}

impl Event {
    /// Whether no other event follows.
    #[must_use]
    pub fn is_last(&self) -> bool {
        match self {
            Self::Finished { totals, .. } => totals.is_some(),
            Self::Failed(_) => true,
            Self::Started(_)
            | Self::Reasoning { .. }
            | Self::Delta(_)
            | Self::ToolCall { .. }
            | Self::ToolArguments { .. } => false,
        }
    }
}

/// More of a choice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delta {
    /// Which choice, from 0.
    pub choice: u32,
    /// Whole characters; may be empty.
    pub text: String,
    /// The tokens that begin in `text`, where the client asked for them.
    pub logprobs: Option<Vec<TokenLogprob>>,
}

/// How likely a token of an answer was.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprob {
    /// The token and its log probability.
    pub token: Alternative,
    /// Characters of the choice before it.
    pub text_offset: u64,
    /// The most likely tokens at its place, the most likely first.
    pub top: Vec<Alternative>,
}

/// A token and how likely it was.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    /// What it stands for; may be a part of a character, or nothing.
    pub bytes: Vec<u8>,
    /// Natural logarithm of its probability by the model alone.
    pub logprob: f32,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended it, or a stop text appeared.
    Stop,
    /// The token limit or the end of the context was reached.
    Length,
    /// The model called tools and waits for their results.
    ToolCalls,
}

/// What an answer took, all choices together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Tokens.
    pub usage: Usage,
    /// Time.
    pub timings: Timings,
}

/// Tokens that a request took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Of these, tokens that were taken from the prefix cache for the first choice.
    pub cached_tokens: u64,
    /// Tokens generated, of all choices.
    pub completion_tokens: u64,
    /// Of these, tokens of what the model thought.
    pub reasoning_tokens: u64,
}

/// Time that a request took, without what it waited for a place.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Timings {
    /// Milliseconds until the first token.
    pub prompt_ms: f64,
    /// Milliseconds from the first token to the last.
    pub completion_ms: f64,
}
