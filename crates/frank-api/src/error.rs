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

impl ApiError {
    /// An error that no single parameter caused.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), param: None, code: None }
    }

    /// A 400 about one parameter.
    pub fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..Self::new(ErrorKind::InvalidRequest, message) }
    }

    /// The same error with a code.
    #[must_use]
    pub fn with_code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }
}
