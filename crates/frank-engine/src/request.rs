//! What a caller hands to the engine and what it gets back. Never holds text or vendor words.

use async_channel::Receiver;
use thiserror::Error;

use crate::constraint::Constraint;
use crate::sampling::SamplingParams;

/// One prompt to continue.
#[derive(Debug, Default)]
pub struct Request {
    /// Token ids of the prompt, BOS included where the model wants one; at least one.
    pub prompt: Vec<u32>,
    /// Tokens to generate at most, at least 1. Clamped to what the context leaves after the prompt.
    pub max_tokens: usize,
    /// How a token is drawn from the logits.
    pub sampling: SamplingParams,
    /// Tokens that end the answer. They are not sent and not counted. Empty: only `max_tokens` ends it.
    pub end_tokens: Vec<u32>,
    /// No end token is drawn before the answer has so many tokens.
    pub min_tokens: usize,
    /// Reports the log probability of each token, and of this many of the most likely ones beside it.
    pub n_logprobs: Option<usize>,
    /// What the answer must look like.
    pub constraint: Option<Box<dyn Constraint>>,
    /// Whose cached prefixes the request may read and add to; `None` neither reads nor adds.
    pub cache_scope: Option<CacheScope>,
}

/// Requests of one scope share cached prefixes; no other sees them, not even by how fast they answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheScope(pub [u8; 32]);

/// What a running request reports, in order: one `Started`, any number of `Token`, then one `Finished` or `Failed`. Only
/// `Failed` may come without `Started`.
#[derive(Debug, Clone, PartialEq)]
pub enum EngineEvent {
    /// The request has its place.
    Started {
        /// Tokens of the prompt whose keys and values were taken from the prefix cache.
        cached_tokens: usize,
    },
    /// The next token of the answer.
    Token(Token),
    /// The answer is whole.
    Finished(FinishReason, Usage),
    /// The answer cannot be continued; the reason is for the log and the client.
    Failed(String),
}

/// A token of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Token {
    /// Its id.
    pub token_id: u32,
    /// As [`Request::n_logprobs`] asks.
    pub logprobs: Option<Box<TokenLogprobs>>,
}

impl Token {
    /// A token without log probabilities.
    #[must_use]
    pub fn plain(token_id: u32) -> Self {
        Self { token_id, logprobs: None }
    }
}

/// Log probabilities at the place of a token, of the model's own distribution: before any sampling setting.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprobs {
    /// Of the token that was drawn.
    pub logprob: f32,
    /// Token ids with their log probabilities, the most likely first.
    pub top: Vec<(u32, f32)>,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// The model wrote one of the request's end tokens, or the constraint allows nothing more.
    Stop,
    /// `max_tokens` or the end of the context was reached.
    Length,
}

/// Tokens that a request took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Of these, tokens taken from the prefix cache.
    pub cached_tokens: usize,
    /// Tokens sent as [`EngineEvent::Token`].
    pub completion_tokens: usize,
}

/// Why a request was not taken. Nothing was queued then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SubmitError {
    /// As many requests wait as may wait.
    #[error("the queue is full: {limit} requests wait")]
    QueueFull {
        /// The bound of the queue.
        limit: usize,
    },
    /// The prompt leaves no room for one token.
    #[error("the prompt has {n_prompt} tokens, the context holds {n_ctx} with the answer")]
    PromptTooLong {
        /// Tokens of the prompt.
        n_prompt: usize,
        /// Tokens of a request's context.
        n_ctx: usize,
    },
    /// The prompt holds no token.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// `max_tokens` is 0.
    #[error("no token was asked for")]
    NoTokens,
    /// A token id is not in the vocabulary.
    #[error("token id {token_id} is not below the vocabulary size {n_vocab}")]
    UnknownToken {
        /// The id that was given.
        token_id: u32,
        /// Tokens in the vocabulary.
        n_vocab: usize,
    },
    /// The engine is ending and takes no new request.
    #[error("the engine is shutting down")]
    ShuttingDown,
}

/// The answer to one request as it grows. Dropping it cancels the request within one step.
#[derive(Debug)]
pub struct Generation {
    pub(crate) events: Receiver<EngineEvent>,
}

impl Generation {
    /// The next event; `None` after the last one, or when the engine has ended.
    pub async fn next(&mut self) -> Option<EngineEvent> {
        self.events.recv().await.ok()
    }

    /// As [`Generation::next`], for a thread that may wait.
    pub fn next_blocking(&mut self) -> Option<EngineEvent> {
        self.events.recv_blocking().ok()
    }
}
