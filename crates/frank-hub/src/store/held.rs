//! What the store holds, told from lock files, sizes and times alone. Never reads a byte of a model.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::durable::{file_metadata, modified_ns};
use super::payload_lock::{LOCK_FILE, LockedFile, PayloadLock, same_words};
use super::uses::{self, USED_BY_DIR, Use};
use super::wanted::{Wanted, WantedFile, partial_path};
use super::{PARTIAL_DIR, Store, StoreError};
use crate::listing::Role;
use crate::reference::{Reference, words_of};
use crate::sources;
use crate::stamp::Stamp;
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
    /// Other references that led to it.
    pub also: Vec<String>,
    /// What the source calls this state of it.
    pub revision: String,
    /// Its files; those that are on their way come last.
    pub files: Vec<PayloadFile>,
    /// Which generations of endpoints need it, as far as that can be read.
    pub uses: Vec<Use>,
    /// Whether all files were verified once.
    is_locked: bool,
    /// Whether nothing can be told of its files.
    is_closed: bool,
    /// What beside its files cannot be read, and why; each names its path.
    unreadable: Vec<String>,
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
    /// Why it cannot be looked at, with its path, where it cannot.
    pub unreadable: Option<String>,
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
    /// It cannot be looked at, or is something else than a file.
    Unreadable,
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
    /// The system refuses to tell, or something else stands in place of a file.
    Unreadable,
}

impl Store {
    /// Every payload, in the order of names; those that cannot be read say so themselves.
    /// # Errors
    /// [`StoreError::Io`] when the folder of all payloads cannot be read.
    pub fn payloads(&self) -> Result<Vec<Payload>, StoreError> {
        let names = self.names().map_err(StoreError::io("read", &self.models))?;
        Ok(names.iter().map(|name| self.read(name)).collect())
    }

    /// The payload called `name`.
    /// # Errors
    /// [`StoreError::Unknown`] when there is none, and [`StoreError::Io`].
    pub fn payload(&self, name: &str) -> Result<Payload, StoreError> {
        let names = self.names().map_err(StoreError::io("read", &self.models))?;
        if names.iter().any(|known| known == name) {
            return Ok(self.read(name));
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

    /// The payload that `reference` names, as far as the store alone can tell: one that was pulled by the same words, also
    /// where other words were used since.
    /// # Errors
    /// [`StoreError::Io`], and [`StoreError::Ambiguous`] when the words led to several as their source changed.
    pub fn held(&self, reference: &Reference) -> Result<Option<Payload>, StoreError> {
        let words = source_of(reference);
        let mut found = self.payloads()?;
        found.retain(|payload| payload.is_found_by(&words));
        if found.len() > 1 {
            let names = found.into_iter().map(|payload| payload.name).collect();
            return Err(StoreError::Ambiguous { words, names });
        }
        Ok(found.pop())
    }

    /// The payload of this name, or the one that was pulled by these words.
    /// # Errors
    /// [`StoreError::Unknown`] when there is none, and as [`Store::held`].
    pub fn find(&self, reference: &Reference) -> Result<Payload, StoreError> {
        if let Reference::Name(name) = reference {
            return self.payload(name);
        }
        match self.held(reference)? {
            Some(payload) => Ok(payload),
            None => {
                let near = self.names().map_err(StoreError::io("read", &self.models))?;
                Err(StoreError::Unknown { name: words_of(reference), near })
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

    fn read(&self, name: &str) -> Payload {
        Payload::read(name, &self.models.join(name))
    }
}

/// A reference without the digest, which only says what it should lead to, and without what signs a request.
pub(crate) fn source_of(reference: &Reference) -> String {
    match reference {
        Reference::Path(path) => sources::file_source(path),
        other => words_of(other),
    }
}

impl Payload {
    fn read(name: &str, folder: &Path) -> Payload {
        // What is inside of it: a folder that may not be entered has a size and a time too.
        if let Err(error) = fs::metadata(folder.join(".")) {
            return Payload::closed(name, folder, &error);
        }
        let mut unreadable = Vec::new();
        let lock = told(PayloadLock::read(folder), &folder.join(LOCK_FILE), &mut unreadable);
        let mut is_closed = !unreadable.is_empty();
        let wanted = told(Wanted::read(folder), &folder.join(PARTIAL_DIR), &mut unreadable);
        // While there is a lock file, nothing else is needed to use the payload.
        is_closed |= lock.is_none() && !unreadable.is_empty();
        let uses = uses::read(folder).map(Some);
        let uses = told(uses, &folder.join(USED_BY_DIR), &mut unreadable).unwrap_or_default();
        let files = files_of(folder, lock.as_ref(), wanted.as_ref());
        let is_locked = lock.is_some();
        let (source, also, revision) = match (lock, wanted) {
            (Some(lock), _) => (Some(lock.source), lock.also, lock.revision),
            (None, Some(wanted)) => (Some(wanted.source), Vec::new(), wanted.revision),
            (None, None) => (None, Vec::new(), String::new()),
        };
        let (name, folder) = (name.to_owned(), folder.to_owned());
        let of_source = Payload { source, also, revision, ..Payload::nothing(name, folder) };
        Payload { files, uses, is_locked, is_closed, unreadable, ..of_source }
    }

    /// A payload whose folder may not be entered.
    fn closed(name: &str, folder: &Path, error: &io::Error) -> Payload {
        let unreadable = vec![refusal(folder, error)];
        let nothing = Payload::nothing(name.to_owned(), folder.to_owned());
        Payload { is_closed: true, unreadable, ..nothing }
    }

    /// A payload of which nothing is known.
    fn nothing(name: String, folder: PathBuf) -> Payload {
        Payload {
            name,
            folder,
            source: None,
            also: Vec::new(),
            revision: String::new(),
            files: Vec::new(),
            uses: Vec::new(),
            is_locked: false,
            is_closed: false,
            unreadable: Vec::new(),
        }
    }

    /// Whether it was pulled by these words.
    fn is_found_by(&self, words: &str) -> bool {
        self.source.iter().chain(&self.also).any(|known| same_words(known, words))
    }

    /// This payload, when all of it could be looked at.
    /// # Errors
    /// [`StoreError::Unreadable`].
    pub fn readable(self) -> Result<Payload, StoreError> {
        if self.state() == PayloadState::Unreadable {
            return Err(StoreError::Unreadable { faults: self.unreadable(), name: self.name });
        }
        Ok(self)
    }

    /// What of it cannot be read, and why; each names its path. A payload whose lock file and files can be read is as usable
    /// as any other.
    pub fn unreadable(&self) -> Vec<String> {
        let files = self.files.iter().filter_map(|file| file.unreadable.as_ref());
        self.unreadable.iter().chain(files).cloned().collect()
    }

    /// How the payload is. What a refresh is still bringing does not count: until it is done, the old files are there.
    pub fn state(&self) -> PayloadState {
        let states =
            || self.files.iter().filter(|file| file.locked.is_some()).map(|file| file.state);
        let is_gone = |state| matches!(state, FileState::Missing | FileState::Partial { .. });
        if self.is_closed || states().any(|state| state == FileState::Unreadable) {
            PayloadState::Unreadable
        } else if !self.is_locked || states().any(is_gone) {
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
                FileState::Missing | FileState::Unreadable => 0,
            };
            (here.saturating_add(mine), all.saturating_add(bytes.max(mine)))
        })
    }

    /// How much of it is here, in percent, rounded down; `None` when the size of one of its files is not known.
    pub fn percent(&self) -> Option<u64> {
        let (here, all) = self.bytes();
        let is_known = self.files.iter().all(|file| file.bytes.is_some());
        (all > 0 && is_known)
            .then(|| u64::try_from(u128::from(here) * 100 / u128::from(all)).unwrap_or(100))
    }

    /// The first file of the model itself, once it is locked.
    pub fn model_path(&self) -> Option<PathBuf> {
        let locked = |file: &&PayloadFile| file.locked.is_some() && file.role == Role::Model;
        self.files.iter().find(locked).map(|file| self.folder.join(&file.name))
    }

    /// The model's first file, when the payload can be used.
    /// # Errors
    /// [`StoreError::Incomplete`] says what is missing or damaged; [`StoreError::Unreadable`], [`StoreError::NoModel`].
    pub fn usable_model(&self) -> Result<PathBuf, StoreError> {
        let name = self.name.clone();
        match self.state() {
            PayloadState::Incomplete | PayloadState::Damaged => {
                let (faults, from) = (self.faults(), self.source.clone());
                Err(StoreError::Incomplete { name, faults, from })
            }
            PayloadState::Unreadable => {
                Err(StoreError::Unreadable { name, faults: self.unreadable() })
            }
            PayloadState::Complete | PayloadState::Changed => {
                self.model_path().ok_or(StoreError::NoModel { name })
            }
        }
    }

    /// What is wrong with which file, each a few words; first what cannot be read, with its path and the reason.
    pub fn faults(&self) -> Vec<String> {
        let fault = |file: &PayloadFile| {
            let told = match file.state {
                FileState::Verified | FileState::Changed | FileState::Unreadable => return None,
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
        let mut faults = self.unreadable();
        faults.extend(self.files.iter().filter_map(fault));
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

/// The files that were verified, and behind them those that are on their way for the first time.
fn files_of(
    folder: &Path,
    lock: Option<&PayloadLock>,
    wanted: Option<&Wanted>,
) -> Vec<PayloadFile> {
    let locked = lock.into_iter().flat_map(|lock| &lock.file);
    let verified = locked.map(|locked| {
        let wanted = wanted.and_then(|wanted| wanted.file(&locked.name));
        PayloadFile::of_locked(folder, locked, wanted)
    });
    let is_new = |file: &&WantedFile| lock.is_none_or(|lock| lock.file(&file.name).is_none());
    let new = wanted.into_iter().flat_map(|wanted| &wanted.file).filter(is_new);
    verified.chain(new.map(|file| PayloadFile::of_wanted(folder, file))).collect()
}

impl PayloadFile {
    /// A file that was verified once, and may be on its way again.
    fn of_locked(folder: &Path, locked: &LockedFile, wanted: Option<&WantedFile>) -> PayloadFile {
        let path = folder.join(&locked.name);
        let state = match (state_of(&path, locked), wanted) {
            (Ok(FileState::Missing), Some(wanted)) => on_its_way(folder, wanted),
            (state, _) => state,
        };
        let (state, unreadable) = seen(state, &path);
        let (name, role, bytes) = (locked.name.clone(), locked.role, Some(locked.bytes));
        PayloadFile { name, role, bytes, state, unreadable, locked: Some(locked.clone()) }
    }

    /// A file that was never here.
    fn of_wanted(folder: &Path, file: &WantedFile) -> PayloadFile {
        let path = partial_path(folder, &file.name);
        let (state, unreadable) = seen(on_its_way(folder, file), &path);
        // What the source does not declare, its first answer said.
        let told = || partial_bytes(&path).ok().flatten().map(|(_, all)| all);
        let bytes = file.bytes().or(file.verified.map(|verified| verified.bytes)).or_else(told);
        let (name, role) = (file.name.clone(), file.role);
        PayloadFile { name, role, bytes, state, unreadable, locked: None }
    }
}

/// What was read of a payload; where it was not, why, with its path.
fn told<T>(read: io::Result<Option<T>>, path: &Path, unreadable: &mut Vec<String>) -> Option<T> {
    read.unwrap_or_else(|error| {
        unreadable.push(refusal(path, &error));
        None
    })
}

/// How a file is; where that is not to be seen, why, with its path.
fn seen(state: io::Result<FileState>, path: &Path) -> (FileState, Option<String>) {
    match state {
        Ok(state) => (state, None),
        Err(error) => (FileState::Unreadable, Some(refusal(path, &error))),
    }
}

/// `cannot read …`, with the path once where the error has it already.
fn refusal(path: &Path, error: &io::Error) -> String {
    let (path, said) = (path.display().to_string(), error.to_string());
    if said.contains(&path) { said } else { format!("cannot read {path}: {said}") }
}

/// How the file at `path` is, of which the lock file says `locked`.
pub(super) fn state_of(path: &Path, locked: &LockedFile) -> io::Result<FileState> {
    Ok(match file_metadata(path)? {
        None => FileState::Missing,
        Some(metadata) if metadata.len() != locked.bytes || locked.damaged => FileState::Damaged,
        // Older lock files say only when the bytes were changed.
        Some(metadata) if locked.stamp().is_some_and(|stamp| stamp != Stamp::of(&metadata)) => {
            FileState::Changed
        }
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
