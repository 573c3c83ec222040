//! Why a pull ended early: the error of the command, and the same as facts for programs. Never prints.

use frank_hub::frank_lock::FrankLockError;
use frank_hub::http::TokenError;
use frank_hub::store::{PullError, Step, StoreError, VerifyError};
use frank_hub::{FailureKind, ListError, Reference, ReferenceError, printable};
use serde::Serialize;

use crate::report::{Failure, known};

/// The step before the source is asked: command line, `frank.lock`, token, store.
pub(crate) const BEGIN: &str = "begin";

/// What `--json` says as `failed`.
#[derive(Debug, Serialize)]
pub(crate) struct FailedPull {
    /// What was pulled; `null` where it is about none of the references.
    pub(crate) reference: Option<String>,
    pub(crate) step: String,
    pub(crate) file: Option<String>,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

/// The end of a command that pulls, lists or verifies.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) facts: Box<FailedPull>,
    error: anyhow::Error,
}

impl Ended {
    /// A pull that failed.
    pub(crate) fn pull(reference: &Reference, error: PullError) -> Self {
        let facts = Box::new(FailedPull {
            reference: Some(shown(reference)),
            step: error.step.to_string(),
            file: error.file.clone(),
            reason: error.reason(),
            message: error.failure.to_string(),
            hint: error.hint(),
        });
        let (kind, hint) = (error.kind(), error.hint());
        Self { facts, error: known(error, kind, hint) }
    }

    /// A source that does not say what it has.
    pub(crate) fn list(reference: &Reference, error: ListError) -> Self {
        let hint = match &error {
            ListError::Http(error) => error.hint(),
            error => error.hint(),
        };
        let (reason, kind) = (error.reason(), error.kind());
        Self::known(Step::List.to_string(), reason, error, kind, hint).about(reference)
    }

    /// What the store refused at this step.
    pub(crate) fn store(step: String, error: StoreError) -> Self {
        let (reason, kind, hint) = (error.reason(), error.kind(), error.hint());
        Self::known(step, reason, error, kind, hint)
    }

    /// A payload that could not be read to its end.
    pub(crate) fn verify(error: VerifyError) -> Self {
        match error {
            VerifyError::Store(error) => Self::store(Step::Verify.to_string(), error),
            VerifyError::Fetch(error) => {
                let (reason, kind) = (error.reason(), error.kind());
                Self::known(Step::Verify.to_string(), reason, error, kind, None)
            }
        }
    }

    /// A `frank.lock` that cannot be read, or written.
    pub(crate) fn lock(step: String, error: FrankLockError) -> Self {
        let (reason, kind) = (error.reason(), error.kind());
        let hint = error.hint().map(str::to_owned);
        Self::known(step, reason, error, kind, hint)
    }

    /// A text that is no reference.
    pub(crate) fn reference(text: &str, error: ReferenceError) -> Self {
        let mut ended = Self::known(BEGIN.to_owned(), "reference", error, FailureKind::Input, None);
        ended.facts.reference = Some(printable(text).to_owned());
        ended
    }

    /// A token that cannot be used, or an address of the hub that is none.
    pub(crate) fn token(error: TokenError) -> Self {
        let reason = match &error {
            TokenError::BadEndpoint => "endpoint",
            TokenError::Unreadable { .. } | TokenError::NoToken { .. } => "token",
        };
        Self::known(BEGIN.to_owned(), reason, error, FailureKind::Input, None)
    }

    /// Something before the source is asked.
    pub(crate) fn begin(reason: &'static str, error: anyhow::Error) -> Self {
        Self { facts: FailedPull::new(BEGIN.to_owned(), reason, error.to_string(), None), error }
    }

    /// A failure in the program's own words.
    pub(crate) fn told(step: String, reason: &'static str, failure: Failure) -> Self {
        let hint = failure.hints().first().cloned();
        let facts = FailedPull::new(step, reason, failure.to_string(), hint);
        Self { facts, error: failure.into() }
    }

    /// The same, said of `reference`.
    pub(crate) fn about(mut self, reference: &Reference) -> Self {
        self.facts.reference = Some(shown(reference));
        self
    }

    fn known<E>(
        step: String,
        reason: &'static str,
        error: E,
        kind: FailureKind,
        hint: Option<String>,
    ) -> Self
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        let facts = FailedPull::new(step, reason, error.to_string(), hint.clone());
        Self { facts, error: known(error, kind, hint) }
    }
}

impl From<Ended> for anyhow::Error {
    fn from(ended: Ended) -> Self {
        ended.error
    }
}

impl FailedPull {
    fn new(step: String, reason: &'static str, message: String, hint: Option<String>) -> Box<Self> {
        Box::new(Self { reference: None, step, file: None, reason, message, hint })
    }
}

/// The reference as it may be printed: without what signs a request.
fn shown(reference: &Reference) -> String {
    match reference {
        Reference::Url(url) => url.source(),
        other => other.to_string(),
    }
}
