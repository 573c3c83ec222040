//! A payload after a pull, and what was done for each of its files. Never does any of it.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::note::Note;
use crate::listing::Role;
use crate::store::{LockedFile, Payload, PayloadLock};

/// A payload after a pull.
#[derive(Debug, Clone)]
pub struct Pulled {
    /// Its name in the store.
    pub payload: String,
    /// Its folder.
    pub folder: PathBuf,
    /// What its lock file says.
    pub lock: PayloadLock,
    /// The reference that leads to it now, by which a project pins it.
    pub words: String,
    /// What was done for each file that was wanted.
    pub files: Vec<PulledFile>,
    /// What was said on the way.
    pub notes: Vec<Note>,
}

/// What was done for a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PulledFile {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// How it got here.
    pub outcome: FileOutcome,
    /// Bytes of it that came over the network in this pull; `None` where nobody counted.
    pub received: Option<u64>,
}

/// How a file got where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileOutcome {
    /// It was here.
    Held,
    /// An earlier pull had verified it.
    Resumed,
    /// Another payload has the same bytes.
    Linked,
    /// Its bytes came in.
    Fetched,
}

impl Pulled {
    pub(super) fn new(
        payload: &str,
        folder: &Path,
        lock: PayloadLock,
        files: Vec<PulledFile>,
        notes: Vec<Note>,
    ) -> Pulled {
        let words = lock.source.clone();
        Pulled { payload: payload.to_owned(), folder: folder.to_owned(), lock, words, files, notes }
    }

    /// The same, with the words that lead to it.
    pub(super) fn by(self, words: String) -> Pulled {
        Pulled { words, ..self }
    }

    /// A payload for which nothing was to be done.
    pub(super) fn of_held(payload: &Payload, notes: Vec<Note>) -> Pulled {
        // What is on its way for other words is not part of it yet.
        let files = payload.files.iter().filter(|file| file.locked.is_some());
        let files = files.map(|file| PulledFile {
            name: file.name.clone(),
            role: file.role,
            outcome: FileOutcome::Held,
            received: Some(0),
        });
        let locked: Vec<LockedFile> =
            payload.files.iter().filter_map(|file| file.locked.clone()).collect();
        let lock = PayloadLock {
            source: payload.source.clone().unwrap_or_default(),
            also: payload.also.clone(),
            revision: payload.revision.clone(),
            file: locked,
        };
        Pulled::new(&payload.name, &payload.folder, lock, files.collect(), notes)
    }

    /// Says of all files that they came in, by a program that does not count.
    pub(super) fn set_fetched(&mut self) {
        for file in &mut self.files {
            (file.outcome, file.received) = (FileOutcome::Fetched, None);
        }
    }
}
