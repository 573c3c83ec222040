//! What the store holds, told from lock files, sizes and times alone. Never reads a byte of a model.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::durable::{file_metadata, modified_ns};
use super::payload_lock::{LockedFile, PayloadLock};
use super::uses::{self, Use};
use super::wanted::{Wanted, WantedFile, partial_path};
use super::{PARTIAL_DIR, Store, StoreError};
use crate::listing::Role;
use crate::reference::Reference;
use crate::transfer::partial_bytes;

/// A payload as it is on this machine.
#[derive(Debug, Clone)]
pub struct Payload {
    /// Its name in the store.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// The reference it came from or comes from, without a digest; `None` when nothing says so.
    pub source: Option<String>,
    /// What the source calls this state of it.
    pub revision: String,
    /// Its files; those that are on their way come last.
    pub files: Vec<PayloadFile>,
    /// Which generations of endpoints need it.
    pub uses: Vec<Use>,
    /// Whether all files were verified once.
    is_locked: bool,
}

/// A file of a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadFile {
    /// Its name in the payload's folder.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// Its size; `None` while the source does not say it.
    pub bytes: Option<u64>,
    /// How it is.
    pub state: FileState,
    /// What the lock file says, once it was verified.
    pub locked: Option<LockedFile>,
}

/// How a file of a payload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum FileState {
    /// As it was when its digest was taken.
    Verified,
    /// Of the right size, and touched since its digest was taken.
    Changed,
    /// Not the file that was verified: of another size, or found to have other bytes.
    Damaged,
    /// Not there.
    Missing,
    /// On its way: so many bytes of it are here.
    Partial {
        /// Bytes that are here.
        here: u64,
    },
}

/// How a payload is as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PayloadState {
    /// Everything is here and as it was verified.
    Complete,
    /// Everything is here, and was touched since it was verified.
    Changed,
    /// A file is not the one that was verified.
    Damaged,
    /// Something is not here yet, or no longer.
    Incomplete,
}

impl Store {
    /// Every payload, in the order of names.
    /// # Errors
    /// [`StoreError::Io`].
    pub fn payloads(&self) -> Result<Vec<Payload>, StoreError> {
        let names = self.names().map_err(StoreError::io("read", &self.models))?;
        names.iter().map(|name| self.read(name)).collect()
    }

    /// The payload called `name`.
    /// # Errors
    /// [`StoreError::Unknown`] when there is none, and [`StoreError::Io`].
    pub fn payload(&self, name: &str) -> Result<Payload, StoreError> {
        let names = self.names().map_err(StoreError::io("read", &self.models))?;
        if names.iter().any(|known| known == name) {
            return self.read(name);
        }
        let wanted = name.to_lowercase();
        let is_near = |known: &String| {
            let known = known.to_lowercase();
            known.contains(&wanted) || wanted.contains(&known)
        };
        let (near, other): (Vec<String>, Vec<String>) = names.into_iter().partition(is_near);
        let near = if near.is_empty() { other } else { near };
        Err(StoreError::Unknown { name: name.to_owned(), near })
    }

    /// The payload that `reference` names, as far as the store alone can tell: one that was pulled by the same words.
    /// # Errors
    /// [`StoreError::Io`].
    pub fn held(&self, reference: &Reference) -> Result<Option<Payload>, StoreError> {
        let source = source_of(reference);
        // The hub takes names of repositories in any case, and quants are found in any.
        let in_any_case = matches!(reference, Reference::Hub(_));
        let is_it = |payload: &Payload| {
            let held = payload.source.as_deref().unwrap_or_default();
            held == source || (in_any_case && held.eq_ignore_ascii_case(&source))
        };
        Ok(self.payloads()?.into_iter().find(is_it))
    }

    /// The payload of this name, or the one that was pulled by these words.
    /// # Errors
    /// [`StoreError::Unknown`] when there is none, and [`StoreError::Io`].
    pub fn find(&self, reference: &Reference) -> Result<Payload, StoreError> {
        if let Reference::Name(name) = reference {
            return self.payload(name);
        }
        match self.held(reference)? {
            Some(payload) => Ok(payload),
            None => {
                let near = self.names().map_err(StoreError::io("read", &self.models))?;
                Err(StoreError::Unknown { name: reference.to_string(), near })
            }
        }
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(&self.models) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_str().filter(|name| !name.starts_with('.'));
            names.extend(name.filter(|_| entry.path().is_dir()).map(str::to_owned));
        }
        names.sort();
        Ok(names)
    }

    pub(super) fn read(&self, name: &str) -> Result<Payload, StoreError> {
        let folder = self.models.join(name);
        Payload::read(name, &folder).map_err(StoreError::io("read", &folder))
    }
}

/// A reference without the digest, which only says what it should lead to.
pub(crate) fn source_of(reference: &Reference) -> String {
    match reference {
        Reference::Url(url) => url.url.to_string(),
        Reference::Pip(pip) => pip.source(),
        Reference::Hub(_) | Reference::Path(_) | Reference::Name(_) => reference.to_string(),
    }
}

impl Payload {
    fn read(name: &str, folder: &Path) -> io::Result<Payload> {
        let lock = PayloadLock::read(folder)?;
        let wanted = Wanted::read(folder)?;
        let mut files = Vec::new();
        for locked in lock.iter().flat_map(|lock| &lock.file) {
            let mut state = state_of(&folder.join(&locked.name), locked)?;
            let wanted = wanted.as_ref().and_then(|wanted| wanted.file(&locked.name));
            if let (FileState::Missing, Some(wanted)) = (state, wanted) {
                state = on_its_way(folder, wanted)?;
            }
            let (name, role, bytes) = (locked.name.clone(), locked.role, Some(locked.bytes));
            files.push(PayloadFile { name, role, bytes, state, locked: Some(locked.clone()) });
        }
        let is_new =
            |file: &&WantedFile| lock.as_ref().is_none_or(|lock| lock.file(&file.name).is_none());
        for file in wanted.iter().flat_map(|wanted| &wanted.file).filter(is_new) {
            let state = on_its_way(folder, file)?;
            let (name, role, bytes) = (file.name.clone(), file.role, file.bytes());
            files.push(PayloadFile { name, role, bytes, state, locked: None });
        }
        let (source, revision) = match (&lock, &wanted) {
            (Some(lock), _) => (Some(lock.source.clone()), lock.revision.clone()),
            (None, Some(wanted)) => (Some(wanted.source.clone()), wanted.revision.clone()),
            (None, None) => (None, String::new()),
        };
        let (name, folder) = (name.to_owned(), folder.to_owned());
        let (uses, is_locked) = (uses::read(&folder)?, lock.is_some());
        Ok(Payload { name, folder, source, revision, files, uses, is_locked })
    }

    /// How the payload is. What a refresh is still bringing does not count: until it is done, the old files are there.
    pub fn state(&self) -> PayloadState {
        let states =
            || self.files.iter().filter(|file| file.locked.is_some()).map(|file| file.state);
        let is_gone = |state| matches!(state, FileState::Missing | FileState::Partial { .. });
        if !self.is_locked || states().any(is_gone) {
            PayloadState::Incomplete
        } else if states().any(|state| state == FileState::Damaged) {
            PayloadState::Damaged
        } else if states().any(|state| state == FileState::Changed) {
            PayloadState::Changed
        } else {
            PayloadState::Complete
        }
    }

    /// Bytes that are here, and bytes of all files as far as their sizes are known.
    pub fn bytes(&self) -> (u64, u64) {
        self.files.iter().fold((0, 0), |(here, all), file| {
            let bytes = file.bytes.unwrap_or(0);
            let mine = match file.state {
                FileState::Verified | FileState::Changed | FileState::Damaged => bytes,
                FileState::Partial { here } => here,
                FileState::Missing => 0,
            };
            (here.saturating_add(mine), all.saturating_add(bytes.max(mine)))
        })
    }

    /// How much of it is here, in percent, rounded down; `None` when nothing is known of its size.
    pub fn percent(&self) -> Option<u64> {
        let (here, all) = self.bytes();
        (all > 0).then(|| u64::try_from(u128::from(here) * 100 / u128::from(all)).unwrap_or(100))
    }

    /// The first file of the model itself, once it is locked.
    pub fn model_path(&self) -> Option<PathBuf> {
        let locked = |file: &&PayloadFile| file.locked.is_some() && file.role == Role::Model;
        self.files.iter().find(locked).map(|file| self.folder.join(&file.name))
    }

    /// The model's first file, when the payload can be used.
    /// # Errors
    /// [`StoreError::Incomplete`] says what is missing or damaged; [`StoreError::NoModel`].
    pub fn usable_model(&self) -> Result<PathBuf, StoreError> {
        let name = self.name.clone();
        if matches!(self.state(), PayloadState::Incomplete | PayloadState::Damaged) {
            let source = self.source.clone();
            return Err(StoreError::Incomplete { name, faults: self.faults(), from: source });
        }
        self.model_path().ok_or(StoreError::NoModel { name })
    }

    /// What is wrong with which file, each a few words.
    pub fn faults(&self) -> Vec<String> {
        let fault = |file: &PayloadFile| {
            let told = match file.state {
                FileState::Verified | FileState::Changed => return None,
                FileState::Damaged => "is damaged".to_owned(),
                FileState::Missing => "is missing".to_owned(),
                FileState::Partial { here } => match file.bytes.filter(|&all| all > 0) {
                    Some(all) => {
                        format!("is {} % here", u128::from(here) * 100 / u128::from(all))
                    }
                    None => format!("is on its way, {here} bytes are here"),
                },
            };
            Some(format!("{} {told}", file.name))
        };
        let faults: Vec<String> = self.files.iter().filter_map(fault).collect();
        if faults.is_empty() && !self.is_locked {
            return vec!["it has no payload.lock that can be read".to_owned()];
        }
        faults
    }

    /// Bytes of a refresh, or of further files, that are on their way beside what is complete.
    pub fn is_under_way(&self) -> bool {
        self.folder.join(PARTIAL_DIR).is_dir()
    }
}

/// How the file at `path` is, of which the lock file says `locked`.
pub(super) fn state_of(path: &Path, locked: &LockedFile) -> io::Result<FileState> {
    Ok(match file_metadata(path)? {
        None => FileState::Missing,
        Some(metadata) if metadata.len() != locked.bytes || locked.damaged => FileState::Damaged,
        Some(metadata) if modified_ns(&metadata) != locked.modified_ns => FileState::Changed,
        Some(_) => FileState::Verified,
    })
}

fn on_its_way(folder: &Path, file: &WantedFile) -> io::Result<FileState> {
    let partial = partial_path(folder, &file.name);
    if file.is_verified_at(&partial)? || file.is_verified_at(&folder.join(&file.name))? {
        let here = file.verified.map_or(0, |verified| verified.bytes);
        return Ok(FileState::Partial { here });
    }
    Ok(match partial_bytes(&partial)? {
        Some((here, _)) => FileState::Partial { here },
        None => FileState::Missing,
    })
}
