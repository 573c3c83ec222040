//! What a fetch takes and reports: expectation, progress, interruption and errors. Never moves a byte.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use frank_os::{OsError, free_disk};

use crate::digest::Sha256;
use crate::sources::pip::PipError;

/// What the caller knows about a file before it is fetched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Expected {
    /// Size of the file in bytes.
    pub bytes: Option<u64>,
    /// Digest of the file.
    pub sha256: Option<Sha256>,
}

/// One report of how far a fetch is. The first one comes before anything else happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub stage: Stage,
    /// Bytes done in this stage.
    pub bytes: u64,
    /// Bytes of the whole stage, where they are known. For [`Stage::Download`] it is the size of the file, while
    /// the packages that carry it are compressed and so end a little below it.
    pub total: Option<u64>,
}

/// The stages of a fetch, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Another process is fetching the same payload.
    Wait,
    /// A file that is already there is hashed.
    Check,
    /// Bytes come in.
    Download,
    /// The file is taken out of what came in, and hashed.
    Unpack,
}

/// Why a fetch did not end with a verified file.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// A path that leads nowhere.
    #[error("{}: no such file", path.display())]
    NotFound {
        /// The path as given.
        path: PathBuf,
    },
    /// A reference that may stand for several files, which only a pull brings.
    #[error("{reference} is pulled, not fetched as one file")]
    NotOneFile {
        /// The reference.
        reference: String,
    },
    /// The reference and the caller want different digests.
    #[error("the reference says sha256 {reference}, {expected} expected")]
    Contradiction {
        /// Digest in the reference.
        reference: Sha256,
        /// Digest that the caller expects.
        expected: Sha256,
    },
    /// The store holds another payload under this name.
    #[error("the store holds `{name}` from {held}, not from {wanted}")]
    NameTaken {
        /// Name of the payload.
        name: String,
        /// Source of the payload that is there.
        held: String,
        /// Source that was asked for.
        wanted: String,
    },
    /// There is no folder for the store.
    #[error("neither XDG_DATA_HOME nor HOME is set, so the model store has no place")]
    NoDataHome,
    /// The drive is too small.
    #[error("{}: {need} bytes needed, {free} bytes free", path.display())]
    DiskFull {
        /// Folder on that drive.
        path: PathBuf,
        /// Bytes that the fetch needs at its peak.
        need: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The operating system does not say how large the drive is, or a file is none, or is not what it was.
    #[error(transparent)]
    Os(#[from] OsError),
    /// A file could not be read, written or renamed.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// What was being done, as a verb.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The Python package could not be fetched or unpacked.
    #[error(transparent)]
    Pip(#[from] PipError),
    /// The size is not the expected one.
    #[error("{file}: {got} bytes, {want} expected")]
    Size {
        /// Name of the file.
        file: String,
        /// Its size in bytes.
        got: u64,
        /// The expected size in bytes.
        want: u64,
    },
    /// The digest is not the expected one.
    #[error("{file}: sha256 {got}, {want} expected")]
    Sha256 {
        /// Name of the file.
        file: String,
        /// Its digest.
        got: Sha256,
        /// The expected digest.
        want: Sha256,
    },
    /// The interrupt flag was raised.
    #[error("interrupted")]
    Interrupted,
}

/// The kinds of failure that a command line tells apart by its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// What was asked for makes no sense: exit code 2.
    Input,
    /// It makes sense, and must not be done as things are: exit code 3.
    Refused,
    /// It could not be done: exit code 1.
    Failed,
    /// It was done, and the bytes are not the right ones: exit code 4.
    Verification,
    /// The user stopped it: exit code 130.
    Interrupted,
}

impl FetchError {
    /// The kind of this failure.
    pub fn kind(&self) -> FailureKind {
        match self {
            FetchError::NotFound { .. }
            | FetchError::NotOneFile { .. }
            | FetchError::Contradiction { .. }
            | FetchError::NameTaken { .. } => FailureKind::Input,
            FetchError::Os(OsError::NotAFile { .. }) => FailureKind::Input,
            FetchError::Size { .. }
            | FetchError::Sha256 { .. }
            | FetchError::Os(OsError::Changed { .. }) => FailureKind::Verification,
            FetchError::Interrupted => FailureKind::Interrupted,
            FetchError::NoDataHome
            | FetchError::DiskFull { .. }
            | FetchError::Os(_)
            | FetchError::Io { .. }
            | FetchError::Pip(_) => FailureKind::Failed,
        }
    }

    /// A word for programs.
    pub fn reason(&self) -> &'static str {
        match self {
            FetchError::NotFound { .. } => "no_such_file",
            FetchError::NotOneFile { .. } => "reference",
            FetchError::Contradiction { .. } => "contradiction",
            FetchError::NameTaken { .. } => "name_taken",
            FetchError::NoDataHome => "no_data_home",
            FetchError::DiskFull { .. } => "disk_full",
            FetchError::Os(OsError::NotAFile { .. }) => "not_a_file",
            FetchError::Os(OsError::Changed { .. }) => "changed",
            FetchError::Os(_) | FetchError::Io { .. } => "io",
            FetchError::Pip(_) if self.is_gone() => "not_found",
            FetchError::Pip(_) => "pip",
            FetchError::Size { .. } => "size",
            FetchError::Sha256 { .. } => "sha256",
            FetchError::Interrupted => "interrupted",
        }
    }

    /// Whether the source answered, and no longer has (or never had) what the reference names.
    pub fn is_gone(&self) -> bool {
        let gone = |error: &PipError| {
            matches!(error, PipError::PackageGone { .. } | PipError::VersionGone { .. })
        };
        matches!(self, FetchError::Pip(error) if gone(error))
    }

    /// The way out, where there is one that always applies.
    pub fn hint(&self) -> Option<String> {
        match self {
            FetchError::Pip(error) => error.hint(),
            FetchError::NameTaken { name, .. } => Some(format!(
                "add `;name=FILE` to the reference, or remove `{name}` from the store"
            )),
            FetchError::NoDataHome => {
                Some("set XDG_DATA_HOME to a folder with room for models".to_owned())
            }
            FetchError::DiskFull { need, free, .. } => Some(format!(
                "free {} bytes there, or set XDG_DATA_HOME to a folder on a larger drive",
                need - free
            )),
            FetchError::NotFound { .. }
            | FetchError::NotOneFile { .. }
            | FetchError::Contradiction { .. }
            | FetchError::Os(_)
            | FetchError::Io { .. }
            | FetchError::Size { .. }
            | FetchError::Sha256 { .. }
            | FetchError::Interrupted => None,
        }
    }

    /// For `map_err`: wraps what the operating system said about `path`.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FetchError {
        move |source| FetchError::Io { doing, path: path.to_owned(), source }
    }
}

impl Expected {
    /// Refuses a file whose size or digest is not as expected; the size is looked at first.
    pub(crate) fn check(&self, file: &str, bytes: u64, sha256: Sha256) -> Result<(), FetchError> {
        self.check_bytes(file, bytes)?;
        match self.sha256 {
            Some(want) if want != sha256 => {
                Err(FetchError::Sha256 { file: file.to_owned(), got: sha256, want })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn check_bytes(&self, file: &str, bytes: u64) -> Result<(), FetchError> {
        match self.bytes {
            Some(want) if want != bytes => {
                Err(FetchError::Size { file: file.to_owned(), got: bytes, want })
            }
            _ => Ok(()),
        }
    }

    /// Adds the digest that stands in a reference.
    pub(crate) fn with_reference(self, sha256: Option<Sha256>) -> Result<Expected, FetchError> {
        match (sha256, self.sha256) {
            (Some(reference), Some(expected)) if reference != expected => {
                Err(FetchError::Contradiction { reference, expected })
            }
            _ => Ok(Expected { sha256: self.sha256.or(sha256), ..self }),
        }
    }
}

/// Refuses to begin what the drive of `folder` has no room for, and returns how many bytes are free.
pub(crate) fn check_room(folder: &Path, need: u64) -> Result<u64, FetchError> {
    let free = free_disk(folder)?;
    if need > free {
        return Err(FetchError::DiskFull { path: folder.to_owned(), need, free });
    }
    Ok(free)
}

/// Who looks on while a fetch runs: the progress callback and the interrupt flag.
#[derive(Clone, Copy)]
pub(crate) struct Watch<'a> {
    pub(crate) progress: &'a dyn Fn(Progress),
    pub(crate) interrupt: Option<&'a AtomicBool>,
}

impl Watch<'_> {
    /// Reports progress, unless the fetch was interrupted.
    pub(crate) fn report(
        &self,
        stage: Stage,
        bytes: u64,
        total: Option<u64>,
    ) -> Result<(), FetchError> {
        if self.interrupt.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return Err(FetchError::Interrupted);
        }
        (self.progress)(Progress { stage, bytes, total });
        Ok(())
    }
}
