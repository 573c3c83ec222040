//! What the store cannot do with a payload, and the way out. Never about a fetch.

use std::io;
use std::path::{Path, PathBuf};

use super::uses::Use;
use crate::fetch::FailureKind;

/// Names that an error lists.
const LISTED_MAX: usize = 8;

/// Why the store does not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such payload.
    #[error("the store has no payload `{name}`{}", others(near))]
    Unknown {
        /// The name as given.
        name: String,
        /// Names that are like it, or all where none is.
        near: Vec<String>,
    },
    /// Several payloads were pulled by the same words, as their source changed between.
    #[error("`{words}` led to several payloads of the store: {}", listed(names))]
    Ambiguous {
        /// The reference.
        words: String,
        /// Their names.
        names: Vec<String>,
    },
    /// Files of the payload are missing or damaged.
    #[error("the payload `{name}` is incomplete: {}", listed(faults))]
    Incomplete {
        /// Its name.
        name: String,
        /// What is wrong with which file.
        faults: Vec<String>,
        /// The reference that it came from, where that is known.
        from: Option<String>,
    },
    /// Something of the payload cannot be read.
    #[error("the payload `{name}` cannot be read: {}", listed(faults))]
    Unreadable {
        /// Its name.
        name: String,
        /// What cannot be read, and why; each names its path.
        faults: Vec<String>,
    },
    /// The payload holds no model, only files beside one.
    #[error("the payload `{name}` holds no model")]
    NoModel {
        /// Its name.
        name: String,
    },
    /// Generations of endpoints need it.
    #[error("the payload `{name}` is needed by {}", uses_listed(uses))]
    InUse {
        /// Its name.
        name: String,
        /// Who needs it.
        uses: Vec<Use>,
    },
    /// Another process is fetching it.
    #[error("the payload `{name}` is being fetched by another process")]
    Busy {
        /// Its name.
        name: String,
    },
    /// The trash has nothing of this id.
    #[error("the trash has no `{id}`")]
    NotInTrash {
        /// The id as given.
        id: String,
    },
    /// Nothing says where a thing in the trash was.
    #[error("nothing says where `{id}` in the trash was")]
    NoOrigin {
        /// Its id.
        id: String,
        /// Where it is.
        path: PathBuf,
    },
    /// The note of a thing in the trash names a place that is none of a payload or its files.
    #[error("the note of `{id}` in the trash says that it was at {}, which is no place of the store", from.display())]
    Outside {
        /// Its id.
        id: String,
        /// What the note says.
        from: PathBuf,
        /// Where it is.
        path: PathBuf,
    },
    /// Something stands where a thing from the trash belongs.
    #[error("{}: something is there already", path.display())]
    Occupied {
        /// The place.
        path: PathBuf,
    },
    /// A file or folder could not be read, moved or written.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// What was being done, as a verb.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

impl StoreError {
    /// The kind of this failure.
    pub fn kind(&self) -> FailureKind {
        match self {
            StoreError::Io { .. } | StoreError::Busy { .. } | StoreError::Unreadable { .. } => {
                FailureKind::Failed
            }
            StoreError::InUse { .. } => FailureKind::Refused,
            _ => FailureKind::Input,
        }
    }

    /// A word for programs.
    pub fn reason(&self) -> &'static str {
        match self {
            StoreError::Unknown { .. } => "unknown",
            StoreError::Ambiguous { .. } => "ambiguous",
            StoreError::Incomplete { .. } => "incomplete",
            StoreError::Unreadable { .. } => "unreadable",
            StoreError::NoModel { .. } => "no_model",
            StoreError::InUse { .. } => "in_use",
            StoreError::Busy { .. } => "busy",
            StoreError::NotInTrash { .. } => "not_in_trash",
            StoreError::NoOrigin { .. } => "no_origin",
            StoreError::Outside { .. } => "outside_store",
            StoreError::Occupied { .. } => "occupied",
            StoreError::Io { .. } => "io",
        }
    }

    /// The way out, where there is one that always applies.
    pub fn hint(&self) -> Option<String> {
        match self {
            StoreError::Unknown { .. } => Some(
                "`frank list` shows what there is; a file in this folder is `./NAME`".to_owned(),
            ),
            StoreError::Ambiguous { .. } => {
                Some("give the name of the one that is meant".to_owned())
            }
            StoreError::Incomplete { from: Some(from), .. } => {
                Some(format!("`frank pull {from}` completes it"))
            }
            StoreError::Incomplete { name, from: None, .. } => {
                Some(format!("pull it again, or `frank rm {name}`"))
            }
            StoreError::Unreadable { name, .. } => {
                Some(format!("see to that path, or move the payload away with `frank rm {name}`"))
            }
            StoreError::NoModel { .. } => Some("give the path of a .gguf file".to_owned()),
            StoreError::InUse { .. } => {
                Some("remove those generations first, or let them use another payload".to_owned())
            }
            StoreError::Busy { .. } => Some("wait for it, or stop it".to_owned()),
            StoreError::NotInTrash { .. } => Some("`frank trash` shows what there is".to_owned()),
            StoreError::NoOrigin { path, .. } | StoreError::Outside { path, .. } => {
                Some(format!("move it by hand, it is {}", path.display()))
            }
            StoreError::Occupied { path } => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                Some(format!("remove or move it first; a payload with `frank rm {name}`"))
            }
            StoreError::Io { path, source, .. } => way_out(path, source),
        }
    }

    /// For `map_err`: wraps what the operating system said about `path`.
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
        move |source| StoreError::Io { doing, path: path.to_owned(), source }
    }
}

/// What helps when the system refused something about `path` for a reason that has nothing to do with the payload.
fn way_out(path: &Path, source: &io::Error) -> Option<String> {
    let text = match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "the drive is full: delete by hand what `frank trash` shows there".to_owned()
        }
        io::ErrorKind::CrossesDevices => {
            format!("it would have to be copied to another drive: move {} by hand", path.display())
        }
        io::ErrorKind::ReadOnlyFilesystem => "nothing can be written to that drive".to_owned(),
        _ => return None,
    };
    Some(text)
}

/// Some of the names, and how many more there are.
fn listed(names: &[String]) -> String {
    let (shown, more) = names.split_at(names.len().min(LISTED_MAX));
    let shown = shown.join(", ");
    if more.is_empty() { shown } else { format!("{shown} and {} more", more.len()) }
}

fn others(near: &[String]) -> String {
    match near {
        [] => "; it is empty".to_owned(),
        near => format!("; it has {}", listed(near)),
    }
}

fn uses_listed(uses: &[Use]) -> String {
    // All of them: who removes a payload has to know every one.
    let uses: Vec<String> = uses.iter().map(Use::to_string).collect();
    uses.join(", ")
}
