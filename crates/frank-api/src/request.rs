//! What a client asks for, in no vendor's words.

use frank_chat::{Conversation, Message};
use serde_json::Value;

use crate::sampling::SamplingOverrides;

/// A parsed request of any dialect.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "there is one of a request, and most are chats")]
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

    /// The same, when nothing else of the request is needed any more.
    #[must_use]
    pub fn into_options(self) -> AnswerOptions {
        match self {
            Self::Chat(request) => request.options,
            Self::Completion(request) => request.options,
        }
    }
}

/// A conversation to answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatRequest {
    /// At least one message, unless it goes on after `previous`. Its tools are those that the answer may call.
    pub conversation: Conversation,
    /// How many of its first messages hold for this answer alone, so that a conversation which goes on after it does not
    /// have them.
    pub n_instructions: usize,
    /// Whether the answer calls tools.
    pub tool_choice: ToolChoice,
    /// Whether it may call several.
    pub parallel_tool_calls: bool,
    /// Tokens of thought at most, after which the answer follows.
    pub thinking_budget: Option<u64>,
    /// The stored answer after which the conversation goes on.
    pub previous: Option<String>,
    /// Whether the answer is to be stored, so that a conversation can go on after it.
    pub store: bool,
    /// How to answer.
    pub options: AnswerOptions,
}

impl ChatRequest {
    /// A request for an answer to `conversation`, with tools as the model likes.
    #[must_use]
    pub fn new(conversation: Conversation, options: AnswerOptions) -> Self {
        Self {
            conversation,
            n_instructions: 0,
            tool_choice: ToolChoice::Auto,
            parallel_tool_calls: true,
            thinking_budget: None,
            previous: None,
            store: false,
            options,
        }
    }

    /// What was said, without what holds for this answer alone.
    #[must_use]
    pub fn said(&self) -> &[Message] {
        &self.conversation.messages[self.n_instructions.min(self.conversation.messages.len())..]
    }

    /// The request with `earlier` messages before what it says, behind what holds for this answer alone.
    #[must_use]
    pub fn after(mut self, earlier: Vec<Message>) -> Self {
        let place = self.n_instructions.min(self.conversation.messages.len());
        self.conversation.messages.splice(place..place, earlier);
        self
    }
}

/// Whether an answer calls tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// As the model likes.
    #[default]
    Auto,
    /// It calls none.
    None,
    /// It calls at least one.
    Required,
    /// It calls the tool of this name, which is one of the conversation's.
    Named(String),
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
    /// What was left out of the request though the client sent it, one sentence each; told in a header.
    pub warnings: Vec<String>,
    /// What the dialect repeats in its reply. Nobody else reads it.
    pub echo: Value,
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
