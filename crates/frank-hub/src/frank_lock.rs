//! `frank.lock`: which bytes a project runs, written by pulls and kept with the project. Never says where they lie.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::beside::update_beside;
use crate::digest::{Sha1, Sha256};
use crate::listing::Role;
use crate::reference::{Reference, ReferenceError};
use crate::store::{LockedFile, PayloadLock, source_of};

/// Name of the file in a project's folder.
pub const FRANK_LOCK: &str = "frank.lock";

const HEADER: &str =
    "# Written by `frank pull`, which also checks what stands here against the source.\n\n";

/// What a project pins: TOML with a `[[payload]]` for each payload and a `[[payload.file]]` for each of its files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrankLock {
    /// The payloads.
    #[serde(default)]
    pub payload: Vec<PinnedPayload>,
}

/// A payload as it should be. Whatever is left out is not checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedPayload {
    /// The reference that it is pulled by, without a digest.
    pub source: String,
    /// The commit that is pulled until somebody refreshes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Its files.
    #[serde(default)]
    pub file: Vec<PinnedFile>,
}

/// A file as it should be. Whatever is left out is not checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedFile {
    /// Its name in the store.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Its path at the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Its digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Sha256>,
    /// Its digest as a git blob.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_sha1: Option<Sha1>,
}

/// Why a `frank.lock` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FrankLockError {
    /// It cannot be read or written.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// What was being done, as a verb.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// It is not what it should be.
    #[error("{}: {}", path.display(), source.to_string().trim_end())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, and on which line.
        source: Box<toml::de::Error>,
    },
    /// A source in it is no reference.
    #[error("{}: `{text}` is no source", path.display())]
    Source {
        /// The file.
        path: PathBuf,
        /// The text.
        text: String,
        /// What is wrong with it.
        source: ReferenceError,
    },
}

impl FrankLock {
    /// Reads the file at `path`; `None` where there is none.
    /// # Errors
    /// [`FrankLockError`] with the line where it is at fault.
    pub fn read(path: &Path) -> Result<Option<FrankLock>, FrankLockError> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => {
                return Err(FrankLockError::Io { doing: "read", path: path.to_owned(), source });
            }
        };
        let lock: FrankLock = toml::from_str(&text).map_err(|source| {
            FrankLockError::Malformed { path: path.to_owned(), source: Box::new(source) }
        })?;
        for payload in &lock.payload {
            payload.reference().map_err(|source| FrankLockError::Source {
                path: path.to_owned(),
                text: payload.source.clone(),
                source,
            })?;
        }
        Ok(Some(lock))
    }

    /// Takes over what was pulled into the file at `path`, beside what others wrote there since it was read, and returns
    /// what it says now. A link stays one.
    /// # Errors
    /// [`FrankLockError::Io`]; the file is as it was then.
    pub fn add(path: &Path, pulled: &PayloadLock) -> Result<FrankLock, FrankLockError> {
        let mut lock = FrankLock::default();
        let written = update_beside(path, |old| {
            if let Some(old) = old {
                lock = toml::from_str(old)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            }
            lock.set(pulled);
            let text = toml::to_string(&lock).map_err(io::Error::other)?;
            Ok(format!("{HEADER}{text}"))
        });
        let io = |source| FrankLockError::Io { doing: "write", path: path.to_owned(), source };
        written.map_err(io)?;
        Ok(lock)
    }

    /// What it says of the payload that `reference` names.
    pub fn pins(&self, reference: &Reference) -> Option<&PinnedPayload> {
        let source = source_of(reference);
        self.payload.iter().find(|pinned| pinned.is_from(&source))
    }

    /// Takes over what was pulled, in the place of what it said of that payload before.
    pub fn set(&mut self, pulled: &PayloadLock) {
        let pinned = PinnedPayload::of(pulled);
        match self.payload.iter_mut().find(|old| old.is_from(&pinned.source)) {
            Some(old) => *old = pinned,
            None => self.payload.push(pinned),
        }
    }
}

impl PinnedPayload {
    fn of(lock: &PayloadLock) -> PinnedPayload {
        let revision = Some(lock.revision.clone()).filter(|revision| !revision.is_empty());
        let file = lock.file.iter().map(PinnedFile::of).collect();
        PinnedPayload { source: lock.source.clone(), revision, file }
    }

    /// The reference that it is pulled by.
    /// # Errors
    /// [`ReferenceError`] when the source is none.
    pub fn reference(&self) -> Result<Reference, ReferenceError> {
        self.source.parse()
    }

    /// What is pinned of the file `name`.
    pub fn file(&self, name: &str) -> Option<&PinnedFile> {
        self.file.iter().find(|file| file.name == name)
    }

    fn is_from(&self, source: &str) -> bool {
        let mine = self.reference().map_or_else(|_| self.source.clone(), |mine| source_of(&mine));
        // The hub takes names in any case, and quants are found in any.
        mine == source || (mine.starts_with("hf:") && mine.eq_ignore_ascii_case(source))
    }
}

impl PinnedFile {
    fn of(file: &LockedFile) -> PinnedFile {
        PinnedFile {
            name: file.name.clone(),
            role: Some(file.role),
            path: Some(file.path.clone()).filter(|path| !path.is_empty()),
            bytes: Some(file.bytes),
            sha256: Some(file.sha256),
            git_sha1: file.git_sha1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_pulled_is_written_and_read_back_and_set_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FRANK_LOCK);
        assert_eq!(FrankLock::read(&path).unwrap(), None);
        let pulled = |source: &str, bytes| PayloadLock {
            source: source.to_owned(),
            revision: "0123456".to_owned(),
            file: vec![LockedFile {
                name: "m.gguf".to_owned(),
                role: Role::Model,
                path: "sub/m.gguf".to_owned(),
                bytes,
                sha256: Sha256::of(b"abc"),
                git_sha1: None,
                modified_ns: 1,
                damaged: false,
                fragment: Vec::new(),
            }],
        };
        let mut lock = FrankLock::default();
        lock.set(&pulled("hf:org/one:Q4_K_M", 3));
        lock.set(&pulled("hf:org/two", 4));
        lock.set(&pulled("hf:org/one:q4_k_m", 5));
        assert_eq!(lock.payload.len(), 2);
        // Two who had read it before either wrote.
        FrankLock::add(&path, &pulled("hf:org/one:q4_k_m", 5)).unwrap();
        let added = FrankLock::add(&path, &pulled("hf:org/two", 4)).unwrap();
        assert_eq!(added, lock);
        assert_eq!(FrankLock::read(&path).unwrap(), Some(lock.clone()));
        let pins = lock.pins(&"hf:ORG/one:Q4_K_M".parse().unwrap()).unwrap();
        assert_eq!(pins.file("m.gguf").unwrap().bytes, Some(5));
        assert!(
            lock.pins(&"hf:org/one".parse().unwrap()).is_none(),
            "another pick is another payload"
        );
    }

    #[test]
    fn a_misspelt_key_and_a_source_that_is_none_are_refused_by_their_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FRANK_LOCK);
        let refusal = |text: &str| {
            std::fs::write(&path, text).unwrap();
            FrankLock::read(&path).unwrap_err().to_string()
        };
        let misspelt = refusal(
            "[[payload]]\nsource = \"hf:org/repo\"\n[[payload.file]]\nname = \"x\"\nsize = 3\n",
        );
        assert!(misspelt.contains("line 5") && misspelt.contains("size"), "{misspelt}");
        let no_source = refusal("[[payload]]\nsource = \"ollama:x\"\n");
        assert!(no_source.contains("`ollama:x` is no source"), "{no_source}");
    }
}
