//! What earlier pulls brought of files that this one does not want: it waits for words that want it. Never fetches.

use std::fs;
use std::io;
use std::path::Path;

use super::Job;
use super::examine::{Task, What};
use super::note::Note;
use crate::fetch::FetchError;
use crate::listing::Listing;
use crate::store::PARTIAL_DIR;
use crate::store::wanted::{Wanted, WantedFile, partial_path};
use crate::transfer::{self, partial_bytes};

/// Files of `before` that are not `wanted` now and of which something is in `folder`.
pub(super) fn set_aside(
    folder: &Path,
    before: Option<&Wanted>,
    wanted: &Wanted,
) -> Vec<WantedFile> {
    let others = before.into_iter().flat_map(|before| &before.file);
    let others = others.filter(|file| wanted.file(&file.name).is_none());
    let is_there = |file: &&WantedFile| {
        let is_at = |path: &Path| file.is_verified_at(path).unwrap_or(true);
        has_bytes(folder, file)
            || is_at(&partial_path(folder, &file.name))
            || is_at(&folder.join(&file.name))
    };
    others.filter(is_there).cloned().collect()
}

/// Whether bytes of an unfinished file are here. What cannot be read is kept.
fn has_bytes(folder: &Path, file: &WantedFile) -> bool {
    let bytes = partial_bytes(&partial_path(folder, &file.name));
    bytes.map_or(true, |bytes| bytes.is_some_and(|(here, _)| here > 0))
}

impl Job<'_> {
    /// Notes what is wanted, beside what was set aside.
    pub(super) fn note_wanted(&self) -> Result<(), FetchError> {
        let mut all = self.wanted.clone();
        all.file.extend_from_slice(&self.aside);
        self.write_wanted(&all)
    }

    /// Lets files that wait whole and are gone upstream be part of the payload whose name was called: no words will ever
    /// choose them again.
    pub(super) fn adopt(&mut self, tasks: &mut Vec<Task>) -> Result<(), FetchError> {
        if !self.is_named {
            return Ok(());
        }
        for file in std::mem::take(&mut self.aside) {
            let partial = partial_path(&self.folder, &file.name);
            let waits = file.is_untouched_at(&partial).map_err(FetchError::io("read", &partial))?;
            if waits && is_gone(&file, self.listing) {
                self.reporter.note(Note::UpstreamGone { file: file.name.clone() });
                self.wanted.file.push(file);
                tasks.push(Task { what: What::Waiting, replaces: None });
            } else {
                self.aside.push(file);
            }
        }
        Ok(())
    }

    /// A pull that brought nothing leaves nothing, so that `list` does not show a payload that never was.
    pub(super) fn tidy(&self) {
        let is_worth = |file: &WantedFile| file.verified.is_some() || has_bytes(&self.folder, file);
        if self.wanted.file.iter().any(is_worth) {
            return;
        }
        if self.aside.is_empty() {
            fs::remove_dir_all(self.folder.join(PARTIAL_DIR)).ok();
            // Fails where the folder holds anything else.
            fs::remove_dir(&self.folder).ok();
        } else {
            // The failure of the pull is what is told.
            self.note_aside().ok();
        }
    }

    /// Removes what the pull needed, and leaves what was set aside.
    pub(super) fn clear(&self) -> Result<(), FetchError> {
        if !self.aside.is_empty() {
            for file in &self.wanted.file {
                let partial = partial_path(&self.folder, &file.name);
                transfer::discard(&partial).map_err(FetchError::io("remove", &partial))?;
            }
            return self.note_aside();
        }
        let partial = self.folder.join(PARTIAL_DIR);
        match fs::remove_dir_all(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(FetchError::io("remove", &partial)(error))
            }
            _ => Ok(()),
        }
    }

    /// Notes what was set aside and nothing else, unless that is what is noted.
    fn note_aside(&self) -> Result<(), FetchError> {
        let before = self.before.as_ref().unwrap_or(&self.wanted);
        let aside = Wanted { file: self.aside.clone(), ..before.clone() };
        match Wanted::read(&self.folder) {
            Ok(Some(noted)) if noted == aside => Ok(()),
            _ => self.write_wanted(&aside),
        }
    }

    fn write_wanted(&self, wanted: &Wanted) -> Result<(), FetchError> {
        wanted.write(&self.folder).map_err(FetchError::io("note what is wanted in", &self.folder))
    }
}

/// Whether the source lacks a piece of a file.
fn is_gone(file: &WantedFile, listing: &Listing) -> bool {
    let is_listed = |path: &String| listing.files.iter().any(|there| there.path == *path);
    !file.segment.iter().all(|segment| is_listed(&segment.path))
}
