//! What a client is told when it gets no answer.

use thiserror::Error;

/// Whose fault it is, as far as HTTP tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request cannot be honoured as it is.
    InvalidRequest,
    /// No key, or a wrong one.
    Authentication,
    /// The `Host` or `Origin` is not one that may ask.
    Forbidden,
    /// No such route or model.
    NotFound,
    /// The route does not answer this method.
    MethodNotAllowed,
    /// The client took too long to send its request.
    RequestTimeout,
    /// The body is too long.
    PayloadTooLarge,
    /// The body is not declared as JSON.
    UnsupportedMediaType,
    /// This key has as many requests running as it may.
    RateLimited,
    /// The server's own failure.
    Internal,
    /// Not now: loading, full, or ending.
    Unavailable,
}

impl ErrorKind {
    /// The HTTP status.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::InvalidRequest => 400,
            Self::Authentication => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::RequestTimeout => 408,
            Self::PayloadTooLarge => 413,
            Self::UnsupportedMediaType => 415,
            Self::RateLimited => 429,
            Self::Internal => 500,
            Self::Unavailable => 503,
        }
    }
}

/// Why there is no answer, before a dialect puts it into its envelope.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct ApiError {
    /// Whose fault it is.
    pub kind: ErrorKind,
    /// For the person who reads the client's log.
    pub message: String,
    /// The parameter at fault, as a path: `messages[2].content`.
    pub param: Option<String>,
    /// A fixed word that programs can branch on.
    pub code: Option<&'static str>,
}

/// Bytes of a message at most. Messages quote what clients sent, and that can be a body of many megabytes.
const MESSAGE_BYTES_MAX: usize = 1000;

/// Bytes of the path of a parameter at most, for the same reason.
const PARAM_BYTES_MAX: usize = 200;

impl ApiError {
    /// An error that no single parameter caused. A long message is cut.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: cut(message.into(), MESSAGE_BYTES_MAX), param: None, code: None }
    }

    /// A 400 about one parameter.
    pub fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        let param = Some(cut(param.into(), PARAM_BYTES_MAX));
        Self { param, ..Self::new(ErrorKind::InvalidRequest, message) }
    }

    /// The same error with a code.
    #[must_use]
    pub fn with_code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }
}

/// `text`, with an ellipsis for what is beyond `bytes_max`.
fn cut(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_sent_comes_back_cut() {
        let error = ApiError::invalid("é".repeat(1_000_000), "é".repeat(1_000_000));
        assert_eq!(error.message.len(), MESSAGE_BYTES_MAX + "…".len());
        assert_eq!(error.param.map(|param| param.len()), Some(PARAM_BYTES_MAX + "…".len()));
        assert_eq!(ApiError::new(ErrorKind::Internal, "short").message, "short");
    }
}
