//! What a client asks for, in no vendor's words.

use frank_chat::Conversation;

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
    /// Texts that end the answer and are not part of it; none is empty.
    pub stop: Vec<String>,
    /// Whether only the token limit and stop texts end the answer.
    pub ignore_end: bool,
    /// How the client wants it delivered.
    pub delivery: Delivery,
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

/// Sampling settings that a client gave; each is in the range that its name allows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SamplingOverrides {
    /// 0 to 2; 0 is the most likely token.
    pub temperature: Option<f32>,
    /// 0 is off.
    pub top_k: Option<u32>,
    /// 0 to 1.
    pub top_p: Option<f32>,
    /// 0 to 1.
    pub min_p: Option<f32>,
    /// Above 0; 1 is off.
    pub repeat_penalty: Option<f32>,
    /// Tokens that the penalties look back on.
    pub repeat_last_n: Option<u32>,
    /// -2 to 2; 0 is off.
    pub presence_penalty: Option<f32>,
    /// -2 to 2; 0 is off.
    pub frequency_penalty: Option<f32>,
    /// Makes the draw repeatable.
    pub seed: Option<u64>,
}
