//! What a caller hands to the engine and what it gets back. Never holds text or vendor words.

use async_channel::Receiver;
use thiserror::Error;

/// One prompt to continue.
#[derive(Debug, Clone)]
pub struct Request {
    /// Token ids of the prompt, BOS included where the model wants one; at least one.
    pub prompt: Vec<u32>,
    /// Tokens to generate at most, at least 1. Clamped to what the context leaves after the prompt.
    pub max_tokens: usize,
    /// How a token is drawn from the logits.
    pub sampling: SamplingParams,
    /// Tokens that end the answer. They are not sent and not counted. Empty: only `max_tokens` ends it.
    pub end_tokens: Vec<u32>,
}

/// How a token is drawn from the logits, in this order: penalties, top-k, top-p, min-p, temperature, draw.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingParams {
    /// 0 takes the most likely token (the lowest id of equals); otherwise logits are divided by it.
    pub temperature: f32,
    /// Keep this many most likely tokens; 0 keeps all.
    pub top_k: u32,
    /// Keep the fewest most likely tokens whose probabilities reach this sum; 1 keeps all.
    pub top_p: f32,
    /// Keep tokens at least this fraction as likely as the most likely one; 0 keeps all.
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of tokens seen in the last `repeat_last_n`; 1 is off.
    pub repeat_penalty: f32,
    /// How many of the last tokens (prompt and answer) the three penalties look at.
    pub repeat_last_n: usize,
    /// Subtracted from the logit of each token seen; 0 is off.
    pub presence_penalty: f32,
    /// Subtracted from the logit of each token seen, times how often it was seen; 0 is off.
    pub frequency_penalty: f32,
    /// Makes the draw repeatable whatever runs beside it; `None` draws a seed.
    pub seed: Option<u64>,
}

impl Default for SamplingParams {
    /// Plain sampling from the model's own distribution.
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repeat_penalty: 1.0,
            repeat_last_n: 64,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            seed: None,
        }
    }
}

impl SamplingParams {
    /// The most likely token each time.
    #[must_use]
    pub fn greedy() -> Self {
        Self { temperature: 0.0, ..Self::default() }
    }
}

/// What a running request reports, in order: any number of `Token`, then one `Finished` or `Failed`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineEvent {
    /// The next token of the answer.
    Token(u32),
    /// The answer is whole.
    Finished(FinishReason, Usage),
    /// The answer cannot be continued; the reason is for the log and the client.
    Failed(String),
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// The model wrote one of the request's end tokens.
    Stop,
    /// `max_tokens` or the end of the context was reached.
    Length,
}

/// Tokens that a request took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
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
