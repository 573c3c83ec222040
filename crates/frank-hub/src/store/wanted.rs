//! `.partial/.wanted.toml`: what a pull that is under way is for, and how far it is verified. Never moves a file.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::PARTIAL_DIR;
use super::durable::{self, file_metadata, modified_ns};
use super::payload_lock::{LockedFile, SourceFile};
use crate::digest::Sha256;
use crate::listing::{Chosen, ChosenFile, Listing, Role};
use crate::stamp::Stamp;

/// No payload's file begins with a dot, so this name is free.
const WANTED_FILE: &str = ".wanted.toml";

/// A payload that is on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wanted {
    /// As in the lock file to come.
    pub(crate) source: String,
    pub(crate) revision: String,
    pub(crate) file: Vec<WantedFile>,
}

/// One file that is on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WantedFile {
    pub(crate) name: String,
    pub(crate) role: Role,
    /// What the source has: one file, or fragments in order.
    pub(crate) segment: Vec<SourceFile>,
    /// Set when all bytes are there and right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) verified: Option<Verified>,
}

/// How a file was when its digest was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Verified {
    pub(crate) bytes: u64,
    pub(crate) sha256: Sha256,
    pub(crate) modified_ns: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) changed_ns: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) inode: Option<i64>,
}

impl Verified {
    /// A file that has these bytes while it is so.
    pub(super) fn new(bytes: u64, sha256: Sha256, stamp: Stamp) -> Verified {
        let Stamp { modified_ns, changed_ns, inode } = stamp;
        let (changed_ns, inode) = (Some(changed_ns), Some(inode));
        Verified { bytes, sha256, modified_ns, changed_ns, inode }
    }
}

impl Wanted {
    /// What is to be pulled when nothing of it is there.
    pub(crate) fn new(source: String, listing: &Listing, chosen: &Chosen) -> Wanted {
        let file = chosen.files.iter().map(WantedFile::new).collect();
        Wanted { source, revision: listing.revision.clone(), file }
    }

    /// What the pull before this one wanted in the payload's `folder`.
    pub(crate) fn read(folder: &Path) -> io::Result<Option<Wanted>> {
        let text = durable::read(&folder.join(PARTIAL_DIR).join(WANTED_FILE))?;
        Ok(text.and_then(|text| toml::from_str(&text).ok()))
    }

    /// Notes it in the payload's `folder`, whose `.partial` exists.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        let text = toml::to_string(self).map_err(io::Error::other)?;
        durable::write(&folder.join(PARTIAL_DIR), WANTED_FILE, &text)
    }

    pub(crate) fn file(&self, name: &str) -> Option<&WantedFile> {
        self.file.iter().find(|file| file.name == name)
    }
}

impl WantedFile {
    fn new(file: &ChosenFile) -> WantedFile {
        let segments = file.segments.iter();
        let segment = segments
            .map(|remote| SourceFile::new(remote.path.clone(), remote.bytes, remote.digest));
        WantedFile {
            name: file.name.clone(),
            role: file.role,
            segment: segment.collect(),
            verified: None,
        }
    }

    /// Size of the whole file, where the source says it.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.segment.iter().try_fold(0u64, |sum, segment| sum.checked_add(segment.bytes?))
    }

    /// Whether it is joined from fragments.
    pub(crate) fn is_joined(&self) -> bool {
        self.segment.len() > 1
    }

    /// Whether the file at `path` is the one that was verified, by its size and time.
    pub(crate) fn is_verified_at(&self, path: &Path) -> io::Result<bool> {
        let Some(verified) = self.verified else { return Ok(false) };
        Ok(file_metadata(path)?.is_some_and(|metadata| {
            metadata.len() == verified.bytes && modified_ns(&metadata) == verified.modified_ns
        }))
    }

    /// Whether nobody touched the file at `path` since it was verified.
    pub(super) fn is_untouched_at(&self, path: &Path) -> io::Result<bool> {
        let Some(verified) = self.verified else { return Ok(false) };
        let metadata = file_metadata(path)?;
        Ok(metadata.is_some_and(|metadata| self.locked(verified).is_untouched(&metadata)))
    }

    /// The entry of the lock file for this file, once it was `verified`.
    pub(crate) fn locked(&self, verified: Verified) -> LockedFile {
        let (path, git_sha1, fragment) = match self.segment.as_slice() {
            [whole] => (whole.path.clone(), whole.git_sha1, Vec::new()),
            fragments => (String::new(), None, fragments.to_vec()),
        };
        let Verified { bytes, sha256, modified_ns, changed_ns, inode } = verified;
        LockedFile {
            name: self.name.clone(),
            role: self.role,
            path,
            bytes,
            sha256,
            git_sha1,
            modified_ns,
            changed_ns,
            inode,
            damaged: false,
            fragment,
        }
    }
}

/// Where the bytes of `name` wait until they are verified.
pub(crate) fn partial_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(PARTIAL_DIR).join(name)
}
