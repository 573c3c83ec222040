//! Which status and words each failure has. The dialect of the route then writes its envelope.

use axum::Json;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use frank_api::{ApiError, DIALECTS, Dialect, ErrorKind, error_body};
use frank_chat::TemplateError;
use frank_engine::SubmitError;

/// The response for `error` on a route.
pub(crate) fn response(path: &str, error: &ApiError) -> Response {
    let envelope = DIALECTS
        .iter()
        .find(|dialect| owns(dialect, path))
        .map_or(error_body as fn(_) -> _, |d| d.error);
    let status =
        StatusCode::from_u16(error.kind.status()).expect("each kind has a status of three digits");
    let mut response = (status, Json(envelope(error))).into_response();
    match error.kind {
        ErrorKind::Unavailable | ErrorKind::RateLimited => {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        ErrorKind::Authentication => {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        _ => {}
    }
    response
}

/// Whether a path is that of a dialect, or of something under it.
fn owns(dialect: &Dialect, path: &str) -> bool {
    let rest = path.strip_prefix(dialect.path);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// This key has as many requests as it may.
pub(crate) fn key_is_busy(limit: usize) -> ApiError {
    let message =
        format!("this key may have {limit} requests at once, and has them: wait for one to end");
    ApiError::new(ErrorKind::RateLimited, message).with_code("rate_limit_exceeded")
}

/// The engine did not take a request for so many choices.
pub(crate) fn not_submitted(error: &SubmitError, n_choices: usize) -> ApiError {
    let message = error.to_string();
    match error {
        // They could only be taken while little else runs or waits.
        SubmitError::QueueFull { limit } if n_choices > *limit && n_choices > 1 => {
            let message = format!(
                "n must be at most {limit} here, not {n_choices}: so many requests may wait"
            );
            ApiError::invalid("n", message)
        }
        SubmitError::QueueFull { .. } => {
            ApiError::new(ErrorKind::Unavailable, message).with_code("queue_full")
        }
        SubmitError::ShuttingDown => shutting_down(),
        SubmitError::PromptTooLong { .. } => {
            ApiError::new(ErrorKind::InvalidRequest, message).with_code("context_length_exceeded")
        }
        SubmitError::EmptyPrompt | SubmitError::UnknownToken { .. } => {
            ApiError::invalid("prompt", message)
        }
        SubmitError::NoTokens => ApiError::invalid("max_tokens", message),
    }
}

/// A text is longer than all tokens of the context can be.
pub(crate) fn text_too_long(bytes: usize, n_ctx: usize) -> ApiError {
    let message = format!(
        "the prompt has {bytes} bytes of text, the context holds {n_ctx} tokens with the answer"
    );
    ApiError::new(ErrorKind::InvalidRequest, message).with_code("context_length_exceeded")
}

/// The chat template gave no prompt.
pub(crate) fn not_rendered(error: &TemplateError) -> ApiError {
    match error {
        TemplateError::EngineFailed
        | TemplateError::NoThread(_)
        | TemplateError::SourceTooLong { .. }
        | TemplateError::Syntax { .. } => {
            tracing::error!(%error, "the chat template cannot be used");
            ApiError::new(ErrorKind::Internal, error.to_string())
        }
        TemplateError::Raised(_)
        | TemplateError::TooMuchWork
        | TemplateError::TooDeep
        | TemplateError::OutputTooLong { .. }
        | TemplateError::Failed { .. }
        | TemplateError::Overtime
        | TemplateError::NoGuard
        | TemplateError::UnguardableControl { .. } => {
            ApiError::invalid("messages", error.to_string()).with_code("chat_template_refused")
        }
    }
}

/// The model has no chat template, or one that cannot be used.
pub(crate) fn no_template() -> ApiError {
    let message = "this model has no chat template that can be used: use /v1/completions, or start the server with \
                   --chat-template FILE";
    ApiError::new(ErrorKind::InvalidRequest, message).with_code("no_chat_template")
}

pub(crate) fn loading() -> ApiError {
    ApiError::new(ErrorKind::Unavailable, "the model is being loaded").with_code("loading")
}

pub(crate) fn shutting_down() -> ApiError {
    ApiError::new(ErrorKind::Unavailable, "the server is shutting down").with_code("shutting_down")
}

/// Something of ours broke. The log has the details, the client gets none.
pub(crate) fn internal() -> ApiError {
    ApiError::new(ErrorKind::Internal, "the server failed to answer this request; its log says why")
}

pub(crate) fn unauthorized() -> ApiError {
    let message = "an API key is needed: Authorization: Bearer KEY, or x-api-key: KEY";
    ApiError::new(ErrorKind::Authentication, message).with_code("invalid_api_key")
}
