//! The end of a pull: contents that cannot be right are refused, files get their names, the lock file is written. Never
//! fetches a byte.

use std::fs::{self, File};
use std::path::Path;
use std::time::SystemTime;

use frank_gguf::GgufError;

use super::Job;
use super::examine::{Task, UNKNOWN, What};
use super::failure::{PullError, PullFailure};
use super::note::Note;
use super::report::Done;
use super::step::Step;
use super::transfer::moved_since;
use crate::fetch::FetchError;
use crate::listing::{JoinError, Role, may_join};
use crate::model_file::{ModelFile, OpenError, is_safetensors};
use crate::reference::ends_in_gguf;
use crate::stamp::Stamp;
use crate::store::durable::{file_metadata, sync_folder};
use crate::store::payload_lock::{LockedFile, PayloadLock, same_words};
use crate::store::trash::{self, Way};
use crate::store::wanted::partial_path;
use crate::transfer;

impl Job<'_> {
    /// Gives every file that waits its name; what stands there goes to the trash.
    pub(super) fn finalize(&mut self, tasks: &[Task]) -> Result<(), PullError> {
        self.check_still_unused(tasks).map_err(PullError::at(Step::Finalize))?;
        let mut files = 0;
        for (index, task) in tasks.iter().enumerate().filter(|(_, task)| !task.is_held()) {
            let file = &self.wanted.file[index];
            let total = file.verified.map(|verified| verified.bytes);
            let told = self.reporter.progress(Step::Finalize, &file.name, 0, total);
            let placed = told.and_then(|()| self.place(&file.name, task.replaces));
            placed.map_err(PullError::of(Step::Finalize, &file.name))?;
            if let (Some(now), What::Link(linked, source, payload)) =
                (self.note_move(index), &task.what)
            {
                self.store.note_link(payload, source, linked, now);
            }
            files += 1;
        }
        if files > 0 {
            sync_folder(&self.folder)
                .map_err(FetchError::io("sync", &self.folder))
                .map_err(|error| PullError::at(Step::Finalize)(error.into()))?;
            self.reporter.done(Done::Finalize { files });
        }
        Ok(())
    }

    /// Notes how a file is that has its name now, and returns that. One that was touched besides stays noted as it was, and
    /// will be hashed.
    fn note_move(&mut self, index: usize) -> Option<Stamp> {
        let file = &self.wanted.file[index];
        let now = fs::metadata(self.path(&file.name)).ok()?;
        let moved = moved_since(&file.locked(file.verified?), &now)?;
        self.wanted.file[index].verified = Some(moved);
        Some(Stamp::of(&now))
    }

    fn place(&self, name: &str, replaces: Option<&str>) -> Result<(), FetchError> {
        let (partial, path) = (partial_path(&self.folder, name), self.path(name));
        let there = file_metadata(&path).map_err(FetchError::io("read", &path))?;
        // What came to be there meanwhile is nobody's to throw away either.
        if let Some(reason) = there.map(|_| replaces.unwrap_or(UNKNOWN)) {
            let trash = self.store.trash_folder();
            // Linked, so that there is a file at every moment.
            let trashed = trash::discard(&path, &trash, reason, Way::Link, SystemTime::now());
            let trashed = trashed.map_err(FetchError::io("move to the trash", &path))?;
            let (file, id, reason) = (name.to_owned(), trashed.id, reason.to_owned());
            self.reporter.note(Note::Trashed { file, id, reason });
        }
        fs::rename(&partial, &path).map_err(FetchError::io("give its name to", &partial))?;
        transfer::discard(&partial).map_err(FetchError::io("remove the range map of", &partial))
    }

    /// Writes the lock file, unless it says all that already, and removes what the pull needed.
    pub(super) fn seal(&self, tasks: &[Task]) -> Result<PayloadLock, FetchError> {
        let lock = self.new_lock(tasks);
        if self.lock.as_ref() != Some(&lock) {
            lock.write(&self.folder)
                .map_err(FetchError::io("write the lock file in", &self.folder))?;
            self.reporter.done(Done::Lock);
        }
        self.clear()?;
        Ok(lock)
    }

    fn new_lock(&self, tasks: &[Task]) -> PayloadLock {
        let mut lock = PayloadLock {
            source: self.wanted.source.clone(),
            also: Vec::new(),
            revision: self.wanted.revision.clone(),
            file: Vec::with_capacity(tasks.len()),
        };
        for (file, task) in self.wanted.file.iter().zip(tasks) {
            let locked = match (&task.what, file.verified) {
                (What::Held(locked), _) => {
                    // A file that is not what the source has now is of the revision before.
                    if let (Some(false), Some(old)) = (locked.is_of(&file.segment), &self.lock) {
                        lock.revision.clone_from(&old.revision);
                    }
                    Some(locked.clone())
                }
                (_, verified) => verified.map(|verified| file.locked(verified)),
            };
            lock.file.extend(locked);
        }
        // Files that are not part of what was wanted this time stay what they are, and so do the words that find them.
        let Some(old) = &self.lock else { return lock };
        let others = old.file.iter().filter(|old| self.wanted.file(&old.name).is_none());
        let as_now = |old: &LockedFile| {
            let kept = self.kept.iter().find(|kept| kept.name == old.name);
            kept.unwrap_or(old).clone()
        };
        let others: Vec<LockedFile> = others.map(as_now).collect();
        if !others.is_empty() && self.astray.is_none() {
            lock.source.clone_from(&old.source);
        }
        lock.file.extend(others);
        lock.keep_words(old, &self.wanted.source);
        lock.also.retain(|words| self.astray.is_none_or(|astray| !same_words(words, astray)));
        lock
    }

    /// Refuses fragments that are none, and what nobody vouches for and is no model. `sizes` are those of the fragments.
    pub(super) fn check_content(
        &self,
        index: usize,
        partial: &Path,
        sizes: &[u64],
    ) -> Result<(), PullError> {
        let file = &self.wanted.file[index];
        let refused = |failure: PullFailure| {
            // It is whole and wrong: kept, it would be refused again at once.
            transfer::discard(partial).ok();
            PullError::of(Step::Verify, &file.name)(failure)
        };
        if file.is_joined() {
            let joined = File::open(partial).map_err(JoinError::from);
            let checked = joined.and_then(|mut joined| may_join(&mut joined, sizes));
            checked.map_err(|error| refused(error.into()))?;
        }
        let is_vouched = file.segment.iter().all(|segment| segment.digest().is_some());
        // What counts as the model is one, whatever it is called.
        let is_model = file.role == Role::Model && !is_safetensors(&file.name);
        if !is_vouched && (is_model || ends_in_gguf(&file.name)) {
            check_gguf(partial).map_err(refused)?;
        }
        Ok(())
    }
}

/// Refuses what is no model, and one that is not whole by its own header: a server that lost the end of a file declares the
/// size that is left.
fn check_gguf(partial: &Path) -> Result<(), PullFailure> {
    match ModelFile::check_part(partial) {
        Ok(()) => Ok(()),
        Err(OpenError::NotGguf { .. }) => Err(PullFailure::NotGguf),
        // Such files are models for other programs, which know how large they have to be.
        Err(OpenError::Header {
            source: GgufError::BigEndian | GgufError::Version { .. }, ..
        }) => Ok(()),
        Err(error) => Err(PullFailure::NotWhole(error)),
    }
}
