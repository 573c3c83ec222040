//! What an answer is made of while it grows. Every dialect writes the same events in its own way.

use crate::error::ApiError;

/// One step of an answer: any number of `Text`, then one `Finished` or `Failed`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// More of the answer; whole characters.
    Text(String),
    /// The answer is whole.
    Finished {
        /// Why it ended.
        reason: FinishReason,
        /// Tokens that it took.
        usage: Usage,
    },
    /// The answer cannot be continued.
    Failed(ApiError),
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended it, or a stop text appeared.
    Stop,
    /// The token limit or the end of the context was reached.
    Length,
}

/// Tokens that a request took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Tokens generated.
    pub completion_tokens: u64,
}
