//! Why a file was not brought. Never decides whether to try again.

use std::io;
use std::path::{Path, PathBuf};

use frank_os::OsError;

use crate::digest::Digest;
use crate::fetch::FailureKind;
use crate::http::HttpError;

/// Why a file was not brought.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The source could not be asked, or refused.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The file at the source has another size than declared.
    #[error("{url}: {got} bytes, {want} expected")]
    Size {
        /// The URL.
        url: String,
        /// Bytes it has.
        got: u64,
        /// Bytes that were declared.
        want: u64,
    },
    /// Nobody says how large the file is.
    #[error("{url}: the server does not say how large the file is")]
    SizeUnknown {
        /// The URL.
        url: String,
    },
    /// More bytes than any drive has.
    #[error("the segments are larger together than any file can be")]
    TooLarge,
    /// The bytes do not have the declared digest, and bringing them again did not help.
    #[error("{url}: {} {got}, {want} expected", want.kind())]
    Digest {
        /// The URL.
        url: String,
        /// Digest of the bytes.
        got: Digest,
        /// The declared digest, of the same kind.
        want: Digest,
    },
    /// The file at the source is another one than was listed, or changed again and again.
    #[error("{url}: changed at its source")]
    Changed {
        /// The URL.
        url: String,
    },
    /// An answer to a request for a range that is none.
    #[error("{url}: {why}")]
    Range {
        /// The URL.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The drive is too small.
    #[error("{}: {need} bytes needed, {free} bytes free", path.display())]
    DiskFull {
        /// Folder on that drive.
        path: PathBuf,
        /// Bytes that are still to be written.
        need: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The operating system refused something about a file.
    #[error(transparent)]
    Os(#[from] OsError),
    /// A file could not be read or written.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// What was being done, as a verb.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

impl TransferError {
    /// One word that says which kind of failure it is: `http`, `auth`, `not_found`, `size`, `sha256`, `git_sha1`,
    /// `changed`, `range`, `disk_full`, `io` or `interrupted`.
    pub fn reason(&self) -> &'static str {
        match self {
            TransferError::Http(error) => error.reason(),
            TransferError::Size { .. }
            | TransferError::SizeUnknown { .. }
            | TransferError::TooLarge => "size",
            TransferError::Digest { want, .. } => want.kind(),
            TransferError::Changed { .. } => "changed",
            TransferError::Range { .. } => "range",
            TransferError::DiskFull { .. } => "disk_full",
            TransferError::Os(_) | TransferError::Io { .. } => "io",
        }
    }

    /// The kind of this failure, by which a command line chooses its exit code.
    pub fn kind(&self) -> FailureKind {
        match self {
            TransferError::Http(HttpError::Interrupted) => FailureKind::Interrupted,
            TransferError::Http(HttpError::Token { .. }) => FailureKind::Input,
            TransferError::Size { .. }
            | TransferError::Digest { .. }
            | TransferError::Changed { .. } => FailureKind::Verification,
            TransferError::Http(_)
            | TransferError::SizeUnknown { .. }
            | TransferError::TooLarge
            | TransferError::Range { .. }
            | TransferError::DiskFull { .. }
            | TransferError::Os(_)
            | TransferError::Io { .. } => FailureKind::Failed,
        }
    }

    /// The way out, where there is one that always applies.
    pub fn hint(&self) -> Option<String> {
        match self {
            TransferError::Http(error) => error.hint(),
            TransferError::DiskFull { need, free, .. } => Some(format!(
                "free {} bytes there, or set XDG_DATA_HOME to a folder on a larger drive",
                need.saturating_sub(*free)
            )),
            TransferError::Changed { .. } => {
                Some("pull again: the new state of the source is listed then".to_owned())
            }
            TransferError::Size { .. }
            | TransferError::SizeUnknown { .. }
            | TransferError::TooLarge
            | TransferError::Digest { .. }
            | TransferError::Range { .. }
            | TransferError::Os(_)
            | TransferError::Io { .. } => None,
        }
    }

    /// For `map_err`: wraps what the operating system said about `path`.
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TransferError {
        move |source| TransferError::Io { doing, path: path.to_owned(), source }
    }
}
