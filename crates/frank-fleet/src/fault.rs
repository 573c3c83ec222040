//! What is wrong with a fleet, and the way out.

use std::fmt;

use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It is done all the same, and told.
    Warning,
    /// Nothing is done.
    Error,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// How bad it is.
    pub severity: Severity,
    /// A fixed word that programs can branch on, as `unknown_option`.
    pub code: &'static str,
    /// What it is about, as a path in `frank.toml`: `endpoints.chat.options.spec-type`.
    pub place: String,
    /// One sentence.
    pub message: String,
    /// The way out, where there is one.
    pub hint: Option<String>,
}

impl Fault {
    /// An error at `place`.
    pub fn error(code: &'static str, place: impl Into<String>, message: impl Into<String>) -> Self {
        let (place, message) = (place.into(), message.into());
        Self { severity: Severity::Error, code, place, message, hint: None }
    }

    /// A warning about `place`.
    pub fn warning(
        code: &'static str,
        place: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, place, message) }
    }

    /// Whether nothing is done because of it.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// The same with the way out.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}
