//! What a client asks for, in no vendor's words.

use frank_chat::Conversation;
use serde_json::Value;

use crate::sampling::SamplingOverrides;

/// A parsed request of any dialect.
#[derive(Clone, Debug, PartialEq)]
pub enum ApiRequest {
    /// Answer a conversation.
    Chat(ChatRequest),
    /// Continue a text.
    Completion(CompletionRequest),
}

impl ApiRequest {
    /// How to answer, whatever is asked.
    #[must_use]
    pub fn options(&self) -> &AnswerOptions {
        match self {
            Self::Chat(request) => &request.options,
            Self::Completion(request) => &request.options,
        }
    }
}

/// A conversation to answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatRequest {
    /// At least one message.
    pub conversation: Conversation,
    /// How to answer.
    pub options: AnswerOptions,
}

/// A text to continue.
#[derive(Clone, Debug, PartialEq)]
pub struct CompletionRequest {
    /// What to continue.
    pub prompt: CompletionPrompt,
    /// How to continue it.
    pub options: AnswerOptions,
}

/// The two forms of a text to continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompletionPrompt {
    /// Text; control tokens in it are text too.
    Text(String),
    /// Token ids as they are, nothing added.
    Tokens(Vec<u32>),
}

/// How to answer. What a client left out is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnswerOptions {
    /// The model that the client named.
    pub model: Option<String>,
    /// How to draw tokens.
    pub sampling: SamplingOverrides,
    /// Tokens at most, at least 1.
    pub max_tokens: Option<u64>,
    /// Neither an end token nor a stop text ends the answer before so many tokens; not above `max_tokens`.
    pub min_tokens: u64,
    /// Texts that end the answer and are not part of it; none is empty.
    pub stop: Vec<String>,
    /// Whether only the token limit and stop texts end the answer.
    pub ignore_end: bool,
    /// Answers that are wanted, at least 1.
    pub n_choices: Option<u32>,
    /// Reports the log probability of each token, and of this many of the most likely ones beside it.
    pub n_logprobs: Option<u32>,
    /// What the answer must look like.
    pub format: Option<FormatRule>,
    /// Whether the prompt may be taken from the prefix cache and kept in it.
    pub use_cache: Option<bool>,
    /// How the client wants it delivered.
    pub delivery: Delivery,
}

/// What an answer must look like, and which parameter said so.
#[derive(Clone, Debug, PartialEq)]
pub struct FormatRule {
    /// The rule.
    pub format: AnswerFormat,
    /// The parameter, as a path.
    pub param: &'static str,
}

/// The forms that an answer can be kept to.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerFormat {
    /// Any JSON object.
    JsonObject,
    /// JSON that a JSON schema describes. The schema is as the client sent it.
    JsonSchema(Value),
    /// Text that a grammar in GBNF describes. It is as the client sent it.
    Gbnf(String),
}

/// How an answer reaches the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// In one piece.
    #[default]
    Whole,
    /// As it grows.
    Stream {
        /// Whether the token counts follow at the end.
        usage: bool,
    },
}
