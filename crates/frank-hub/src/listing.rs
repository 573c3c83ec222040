//! What a source has to offer, and which of it makes a payload. Never fetches anything.

mod choose;
mod file_name;
mod glob;
mod groups;
mod joining;
mod names;
mod near;
mod picks;
mod quants;
mod roles;

use std::fmt;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::digest::Digest;

pub use choose::{ChooseError, choose};
pub(crate) use groups::pieces_of;
pub use groups::{Group, Scheme, groups};
pub use joining::{GluedSplit, JoinError, glued_split, may_join};

/// All that a source has at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The reference it answers, without what is wanted of it: `hf:org/repo[@revision]`, a URL, or `file:PATH`.
    pub source: String,
    /// The commit; empty where the source has no such thing.
    pub revision: String,
    /// The files, in the order of the source. No path comes twice, and each stays below its folder.
    pub files: Vec<RemoteFile>,
}

/// One file as its source declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFile {
    /// Path at the source, with `/` between components.
    pub path: String,
    /// Size, where the source says it.
    pub bytes: Option<u64>,
    /// Digest, where the source says it.
    pub digest: Option<Digest>,
    /// Where the bytes are.
    pub url: Url,
}

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Weights of the model itself.
    Model,
    /// Weights of a draft model, or of a head that drafts.
    Draft,
    /// Weights of a projector, through which a model sees or hears.
    #[serde(rename = "mmproj")]
    Projector,
    /// A chat template.
    Template,
    /// Anything in JSON that says how to use the model.
    Config,
}

/// The files of a payload, and its name in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Name in the store. No other source or model gives the same.
    pub payload: String,
    /// The files: the model first, with the parts of a split in order. No name comes twice.
    pub files: Vec<ChosenFile>,
}

/// One file of a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenFile {
    /// Name in the payload's folder.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// What it is made of: one file, or raw fragments in the order in which they are joined.
    pub segments: Vec<RemoteFile>,
}

impl RemoteFile {
    /// The last component of the path.
    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

impl ChosenFile {
    /// Size of the whole file, where the source says it.
    pub fn bytes(&self) -> Option<u64> {
        self.segments.iter().try_fold(0u64, |sum, segment| sum.checked_add(segment.bytes?))
    }
}

impl Role {
    /// All of them, in the order of a payload.
    pub const ALL: [Role; 5] =
        [Role::Model, Role::Draft, Role::Projector, Role::Template, Role::Config];

    /// The word for it in references, lock files and reports.
    pub fn word(self) -> &'static str {
        match self {
            Role::Model => "model",
            Role::Draft => "draft",
            Role::Projector => "mmproj",
            Role::Template => "template",
            Role::Config => "config",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.word())
    }
}
