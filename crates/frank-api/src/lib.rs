//! Client dialects: what clients send becomes one request type, and one kind of event becomes what they expect.
//! Never opens a socket, waits, or knows the engine.

mod dialects;
mod error;
mod event;
mod fields;
mod json;
mod models;
mod reply;
mod request;
mod sampling;
mod tokenize;

pub use dialects::{DIALECTS, Dialect, error_body};
pub use error::{ApiError, ErrorKind};
pub use event::{Alternative, Delta, Event, FinishReason, Timings, TokenLogprob, Totals, Usage};
pub use models::{ModelCard, model_body, models_body};
pub use reply::{Answer, Choice, Frame, ReplyHead, ReplyStream};
pub use request::{
    AnswerFormat, AnswerOptions, ApiRequest, ChatRequest, CompletionPrompt, CompletionRequest,
    Delivery, FormatRule,
};
pub use sampling::{BiasTarget, DryOverrides, LogitBias, SamplingOverrides, Stage};
pub use tokenize::{DetokenizeRequest, TokenizeRequest, detokenize_body, tokenize_body};
