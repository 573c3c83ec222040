//! Client dialects: what clients send becomes one request type, and one kind of event becomes what they expect.
//! Never opens a socket, waits, or knows the engine.

mod dialects;
mod error;
mod event;
mod fields;
mod json;
mod models;
mod openapi;
mod reply;
mod request;
mod sampling;
mod tokenize;

pub use dialects::{CountRoute, DIALECTS, Dialect, deleted_body, error_body};
pub use error::{ApiError, ErrorKind};
pub use event::{Alternative, Delta, Event, FinishReason, Timings, TokenLogprob, Totals, Usage};
pub use models::{ModelCard, anthropic_model_body, anthropic_models_body, model_body, models_body};
pub use openapi::openapi_document;
pub use reply::{Answer, Call, Choice, Frame, Part, ReplyHead, ReplyStream, Run};
pub use request::{
    AnswerFormat, AnswerOptions, ApiRequest, ChatRequest, CompletionPrompt, CompletionRequest,
    Delivery, FormatRule, ToolChoice,
};
pub use sampling::{BiasTarget, DryOverrides, LogitBias, SamplingOverrides, Stage};
pub use tokenize::{DetokenizeRequest, TokenizeRequest, detokenize_body, tokenize_body};
