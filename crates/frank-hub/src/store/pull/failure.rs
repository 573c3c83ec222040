//! Why a pull ended without its payload: the step, the file and the reason. Never prints anything.

use std::fmt;

use super::manifest::ManifestMismatch;
use super::step::Step;
use crate::fetch::{FailureKind, FetchError};
use crate::listing::{ChooseError, JoinError};
use crate::model_file::OpenError;
use crate::reference::ReferenceError;
use crate::sources::ListError;
use crate::store::StoreError;
use crate::transfer::TransferError;

/// A pull that ended early.
#[derive(Debug)]
pub struct PullError {
    /// The step that failed.
    pub step: Step,
    /// Name of the file in the store, where it was about one.
    pub file: Option<String>,
    /// Why.
    pub failure: Box<PullFailure>,
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum PullFailure {
    /// The source does not say what it has.
    #[error(transparent)]
    List(#[from] ListError),
    /// What is wanted is not there, or several things are.
    #[error(transparent)]
    Choose(#[from] ChooseError),
    /// The bytes did not come, or are not the right ones.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// Something on this machine stands in the way.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The store does not have it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The reference that a payload came from is none.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// Fragments that must not be joined.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// `frank.lock` and the source disagree.
    #[error("frank.lock and {from} disagree: {}", listed(mismatches))]
    ManifestMismatch {
        /// The source.
        from: String,
        /// What they disagree about.
        mismatches: Vec<ManifestMismatch>,
    },
    /// The source no longer has files that are not here either.
    #[error("the source no longer has {}, and no good copy is here", files.join(", "))]
    UpstreamGone {
        /// Their names.
        files: Vec<String>,
    },
    /// A file that says it is a model is none, and no digest vouches for it.
    #[error(
        "it is not a GGUF file, and the source declares no digest that would say it should be like this"
    )]
    NotGguf,
    /// A model that ends too early by its own header, or goes on behind its end, and no digest vouches for it.
    #[error("the source declares no digest, and the model is not what its own header says: {0}")]
    NotWhole(#[source] OpenError),
    /// A name whose source is pulled under another name.
    #[error("the payload `{name}` came from {from}, which is pulled as `{payload}`")]
    OtherPayload {
        /// The name as given.
        name: String,
        /// Its source.
        from: String,
        /// The name that the source leads to.
        payload: String,
    },
    /// Nothing says where a payload came from.
    #[error("nothing says where the payload `{name}` came from")]
    NoSource {
        /// Its name.
        name: String,
    },
}

impl PullFailure {
    /// Whether the source answered, and does not have what is wanted.
    pub(super) fn is_absence(&self) -> bool {
        match self {
            PullFailure::Choose(error) => error.is_absence(),
            PullFailure::UpstreamGone { .. } => true,
            _ => false,
        }
    }
}

/// What pins are said to disagree with where they were compared with what is here, and with no source.
pub(super) fn place_here(payload: &str) -> String {
    format!("the payload `{payload}`")
}

fn listed(mismatches: &[ManifestMismatch]) -> String {
    let told: Vec<String> = mismatches.iter().map(ManifestMismatch::to_string).collect();
    told.join("; ")
}

impl PullError {
    /// For `map_err`: a failure of `step` that is about no file alone.
    pub(super) fn at(step: Step) -> impl FnOnce(PullFailure) -> PullError {
        move |failure| PullError { step, file: None, failure: Box::new(failure) }
    }

    /// For `map_err`: a failure of `step` with one file.
    pub(super) fn of<E: Into<PullFailure>>(step: Step, file: &str) -> impl FnOnce(E) -> PullError {
        move |failure| PullError {
            step,
            file: Some(file.to_owned()),
            failure: Box::new(failure.into()),
        }
    }

    /// A fetch of `file` in one go failed at the step that its error is about.
    pub(super) fn of_fetch(error: FetchError, file: &str) -> PullError {
        let step = match &error {
            FetchError::Size { .. } | FetchError::Sha256 { .. } => Step::Verify,
            FetchError::DiskFull { .. } | FetchError::Os(_) => Step::Room,
            FetchError::NameTaken { .. } | FetchError::Contradiction { .. } => Step::Held,
            _ => Step::Transfer,
        };
        PullError::of(step, file)(error)
    }

    /// The kind of this failure.
    pub fn kind(&self) -> FailureKind {
        match &*self.failure {
            PullFailure::List(error) => error.kind(),
            PullFailure::Transfer(error) => error.kind(),
            PullFailure::Fetch(error) => error.kind(),
            PullFailure::Store(error) => error.kind(),
            PullFailure::UpstreamGone { .. } => FailureKind::Failed,
            PullFailure::ManifestMismatch { .. }
            | PullFailure::Join(_)
            | PullFailure::NotGguf
            | PullFailure::NotWhole(_) => FailureKind::Verification,
            PullFailure::Choose(_)
            | PullFailure::Reference(_)
            | PullFailure::NoSource { .. }
            | PullFailure::OtherPayload { .. } => FailureKind::Input,
        }
    }

    /// A word for programs.
    pub fn reason(&self) -> &'static str {
        match &*self.failure {
            PullFailure::Transfer(TransferError::Http(error)) if error.lacks_token() => "no_token",
            PullFailure::List(error) => error.reason(),
            PullFailure::Transfer(error) => error.reason(),
            PullFailure::Fetch(error) => error.reason(),
            PullFailure::Store(error) => error.reason(),
            PullFailure::Choose(error) => error.reason(),
            PullFailure::Reference(_) => "reference",
            PullFailure::Join(_) => "join",
            PullFailure::ManifestMismatch { .. } => "manifest_mismatch",
            PullFailure::UpstreamGone { .. } => "upstream_gone",
            PullFailure::NotGguf => "not_gguf",
            PullFailure::NotWhole(_) => "not_whole",
            PullFailure::NoSource { .. } => "no_source",
            PullFailure::OtherPayload { .. } => "other_payload",
        }
    }

    /// The way out, where there is one that always applies.
    pub fn hint(&self) -> Option<String> {
        let text = match &*self.failure {
            PullFailure::List(ListError::Http(error)) => return error.hint(),
            PullFailure::List(error) => return error.hint(),
            PullFailure::Transfer(error) => return error.hint(),
            PullFailure::Fetch(error) => return error.hint(),
            PullFailure::Store(error) => return error.hint(),
            PullFailure::Choose(error) => {
                error.hint().unwrap_or("`frank pull --list` shows all that the source has")
            }
            PullFailure::ManifestMismatch { .. } => {
                "the files here are left as they are; correct frank.lock, or let `--refresh` write it anew"
            }
            PullFailure::UpstreamGone { .. } => {
                "pull an older revision with `@REVISION`, or what the source has now after `frank rm`"
            }
            PullFailure::NotWhole(_) => {
                "what came is not kept; ask whoever publishes it for its digest, with which (`#sha256=`) it is taken as it is"
            }
            PullFailure::NotGguf => "look at what the address gives in a browser",
            PullFailure::Reference(_) | PullFailure::NoSource { .. } => {
                "name the source: `frank pull REFERENCE`"
            }
            PullFailure::OtherPayload { from, payload, .. } => {
                return Some(format!("`frank pull {from}` brings `{payload}`"));
            }
            PullFailure::Join(_) => return None,
        };
        Some(text.to_owned())
    }
}

impl fmt::Display for PullError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(out, "pull failed at {}, {file}: {}", self.step, self.failure),
            None => write!(out, "pull failed at {}: {}", self.step, self.failure),
        }
    }
}

impl std::error::Error for PullError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.failure)
    }
}
