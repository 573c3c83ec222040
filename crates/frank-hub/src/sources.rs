//! Where payloads come from: one file per source. Never decides where a payload belongs.

mod file;
mod hub;
mod listed;
pub(crate) mod pip;
mod url;

use std::io;
use std::path::PathBuf;

use ::url::Url;
use frank_os::OsError;

use crate::fetch::FailureKind;
use crate::http::{Client, Delay, HttpError};
use crate::listing::{GluedSplit, Listing};
use crate::reference::Reference;

pub(crate) use file::file_source;

/// Why a source could not say what it has.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The hub gave no answer, or none of use.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The hub calls something a commit that is none, or another one than was asked for.
    #[error("the hub says that `{revision}` is the commit {commit:?}")]
    BadCommit {
        /// What was asked for.
        revision: String,
        /// What the hub said.
        commit: String,
    },
    /// A path that leads out of its folder or cannot be printed.
    #[error("the source lists {path:?}, which is no path inside it")]
    BadPath {
        /// The path.
        path: String,
    },
    /// A path that comes twice.
    #[error("the source lists {path} twice")]
    SamePath {
        /// The path.
        path: String,
    },
    /// A size that is no number of bytes.
    #[error("the source lists {path} without a size that a file can have")]
    BadSize {
        /// The path.
        path: String,
    },
    /// A digest that is none.
    #[error("the source lists {path} without a digest that can be checked")]
    BadDigest {
        /// The path.
        path: String,
    },
    /// Sizes that add up to more than a file system can hold.
    #[error("the source lists more bytes than a file system can hold")]
    TooLarge,
    /// More files than a repository of models has.
    #[error("the source lists more than {} files", listed::FILES_MAX)]
    TooManyFiles,
    /// Pages that never end, or lead back to one that was read.
    #[error("the list of files of {origin} has no end")]
    TooManyPages {
        /// The source.
        origin: String,
    },
    /// A next page on another host, to which no token may go.
    #[error("the hub continues its list of files on another host, {host}")]
    ForeignPage {
        /// The host.
        host: String,
    },
    /// A fragment whose name does not tell how many there are.
    #[error("{name} is one of several fragments, and its name does not tell of how many")]
    OpenEnd {
        /// Name of the file.
        name: String,
    },
    /// A file or folder of this machine that cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A path to something else than a file.
    #[error(transparent)]
    Os(OsError),
    /// A file that is to be a model and does not begin as one.
    #[error("{} is not a GGUF file, and only a template or a config is taken as something else", path.display())]
    NotGguf {
        /// The path.
        path: PathBuf,
    },
    /// A path with a name that is no text.
    #[error("{} is no file that can be stored under its name", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// Parts of a split that were glued into one file.
    #[error(transparent)]
    Glued(#[from] GluedSplit),
    /// A reference that names one payload, of which there is nothing to list.
    #[error("`{reference}` has no list of files")]
    NothingToList {
        /// The reference.
        reference: String,
    },
}

impl ListError {
    /// The kind of this failure.
    pub fn kind(&self) -> FailureKind {
        match self {
            ListError::Http(HttpError::Interrupted) => FailureKind::Interrupted,
            ListError::NotGguf { .. } => FailureKind::Verification,
            ListError::Http(HttpError::NotFound { .. } | HttpError::Token { .. })
            | ListError::Os(OsError::NotAFile { .. })
            | ListError::NotAFile { .. }
            | ListError::Glued(_)
            | ListError::OpenEnd { .. }
            | ListError::NothingToList { .. } => FailureKind::Input,
            ListError::Unreadable { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                FailureKind::Input
            }
            _ => FailureKind::Failed,
        }
    }

    /// A word for programs.
    pub fn reason(&self) -> &'static str {
        match self {
            ListError::Http(error) if error.lacks_token() => "no_token",
            ListError::Http(error) => error.reason(),
            ListError::Glued(_) => "glued",
            ListError::NotGguf { .. } => "not_gguf",
            _ => "listing",
        }
    }

    /// The way out, where there is one that always applies.
    pub fn hint(&self) -> Option<String> {
        match self {
            ListError::Glued(glued) => Some(glued.hint()),
            ListError::NotGguf { .. } => Some("name the .gguf file of the model".to_owned()),
            _ => None,
        }
    }
}

/// Asks a source what it has. `endpoint` is the hub's address, as [`hub_endpoint`](crate::http::hub_endpoint) gives it.
///
/// A repository of the hub has all its files. A URL or path has the file it names, with all others where that is one piece
/// of several; a web server says neither sizes nor digests. `tell` hears of answers that are long in coming.
/// # Errors
/// [`ListError`]; whatever a server says that cannot be is refused by the name of the file.
pub fn list(
    reference: &Reference,
    endpoint: &Url,
    client: &Client,
    tell: &dyn Fn(&Delay),
) -> Result<Listing, ListError> {
    match reference {
        Reference::Hub(hub) => hub::list(hub, endpoint, client, tell),
        Reference::Url(url) => url::list(url),
        Reference::Path(path) => file::list(path),
        Reference::Name(_) | Reference::Pip(_) => {
            Err(ListError::NothingToList { reference: reference.to_string() })
        }
    }
}
