//! What is to be done for each file: what is here is looked at, and hashed where it was touched. Never changes a file.

use std::io;
use std::path::{Path, PathBuf};

use super::Job;
use super::failure::{PullError, PullFailure, place_here};
use super::note::Note;
use super::step::Step;
use crate::digest::{CHUNK_BYTES, Digest, Hasher, Sha256, read_some};
use crate::fetch::{FetchError, Stage, Watch};
use crate::stamp::Stamp;
use crate::store::durable::file_metadata;
use crate::store::payload_lock::LockedFile;
use crate::store::wanted::{Verified, WantedFile, partial_path};
use crate::store::{FileState, hash};
use crate::transfer;

/// Reasons for which a file is replaced.
const UNCOMPARED: &str = "a refresh fetched it again: its source declares no digest";
const DRIFTED: &str = "the source has other bytes now";
const DAMAGED: &str = "it was not the file that was verified";
pub(super) const UNKNOWN: &str = "no lock file said what it was";

/// What is to be done for a file.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) what: What,
    /// Why what stands at its final name has to go; `None` where nothing stands there.
    pub(super) replaces: Option<&'static str>,
}

#[derive(Debug)]
pub(super) enum What {
    /// It is here: its entry of the lock file.
    Held(LockedFile),
    /// It waits in `.partial`, whole and verified.
    Waiting,
    /// Another payload has it: its entry there, its path, and the payload.
    Link(LockedFile, PathBuf, String),
    /// Its bytes have to come in.
    Fetch,
}

impl Task {
    pub(super) fn is_held(&self) -> bool {
        matches!(self.what, What::Held(_))
    }
}

/// What stands at the name of a file.
enum Found {
    Nothing,
    /// It stays, and the lock file says this of it.
    Good(LockedFile),
    /// It goes to the trash, for this reason.
    Wrong(&'static str),
}

impl Job<'_> {
    /// Refuses what the source no longer has and is not here either, and tells of what is only here, which is returned as it
    /// is now.
    pub(super) fn check_gone(&self) -> Result<Vec<LockedFile>, PullFailure> {
        let (mut kept, mut lost) = (Vec::new(), Vec::new());
        for locked in self.lock.iter().flat_map(|lock| &lock.file) {
            let fragments = locked.fragment.iter().map(|fragment| fragment.path.as_str());
            let mut paths = fragments.chain(Some(locked.path.as_str()).filter(|p| !p.is_empty()));
            let is_listed = |path| self.listing.files.iter().any(|file| file.path == path);
            if self.wanted.file(&locked.name).is_some() || paths.all(is_listed) {
                continue;
            }
            let path = self.path(&locked.name);
            match self.still_good(&path, locked)? {
                Some(good) => {
                    self.check_pinned(&good).map_err(|failure| self.of_store(failure))?;
                    self.reporter.note(Note::UpstreamGone { file: locked.name.clone() });
                    kept.push(good);
                }
                None => lost.push(locked.name.clone()),
            }
        }
        let pins = self.options.pins.filter(|_| !self.options.refresh);
        let is_known = |name: &str| {
            self.wanted.file(name).is_some()
                || self.lock.as_ref().is_some_and(|lock| lock.file(name).is_some())
        };
        let pinned = pins.into_iter().flat_map(|pins| &pins.file).map(|pin| &pin.name);
        lost.extend(pinned.filter(|name| !is_known(name)).cloned());
        if lost.is_empty() { Ok(kept) } else { Err(PullFailure::UpstreamGone { files: lost }) }
    }

    /// Decides for each file, and takes over what an earlier pull had verified.
    pub(super) fn examine(&mut self) -> Result<Vec<Task>, PullError> {
        self.take_over().map_err(|error| PullError::at(Step::Held)(error.into()))?;
        let mut tasks = Vec::with_capacity(self.wanted.file.len());
        let mut drifted = Vec::new();
        for file in &self.wanted.file {
            let task = self.examine_one(file, &mut drifted);
            let task = task.map_err(PullError::of(Step::Held, &file.name))?;
            if let What::Held(locked) = &task.what
                && !drifted.contains(&file.name)
            {
                self.check_held(locked, file).map_err(PullError::of(Step::Manifest, &file.name))?;
            }
            tasks.push(task);
        }
        for file in drifted {
            self.reporter.note(Note::Drifted { file });
        }
        // A mark of bytes that are not waiting any more says nothing of those that will come.
        for (file, task) in self.wanted.file.iter_mut().zip(&tasks) {
            if matches!(task.what, What::Link(..) | What::Fetch) {
                file.verified = None;
            }
        }
        Ok(tasks)
    }

    /// Compares what is pinned with a file that is here, which is what the source has as far as that declares it.
    fn check_held(&self, locked: &LockedFile, file: &WantedFile) -> Result<(), PullFailure> {
        let is_of_source = locked.is_of(&file.segment).is_some();
        let checked = self.check_pinned(locked);
        checked.map_err(|failure| if is_of_source { failure } else { self.of_store(failure) })
    }

    /// The same failure, where the pins were compared with the store alone.
    fn of_store(&self, failure: PullFailure) -> PullFailure {
        match failure {
            PullFailure::ManifestMismatch { mismatches, .. } => {
                let from = place_here(&self.chosen.payload);
                PullFailure::ManifestMismatch { from, mismatches }
            }
            other => other,
        }
    }

    /// Marks and bytes of an earlier pull hold as long as the source declares the same.
    fn take_over(&mut self) -> Result<(), FetchError> {
        let Some(before) = &self.before else { return Ok(()) };
        for file in &mut self.wanted.file {
            let Some(old) = before.file(&file.name) else { continue };
            if old.segment == file.segment {
                file.verified = old.verified;
                continue;
            }
            let partial = partial_path(&self.folder, &file.name);
            if file_metadata(&partial).is_ok_and(|there| there.is_some()) {
                transfer::discard(&partial).map_err(FetchError::io("remove", &partial))?;
                self.reporter.note(Note::StartsOver { file: file.name.clone() });
            }
        }
        Ok(())
    }

    fn examine_one(
        &self,
        file: &WantedFile,
        drifted: &mut Vec<String>,
    ) -> Result<Task, PullFailure> {
        let replaces = match self.look_at(file, drifted)? {
            Found::Good(locked) => {
                return Ok(Task { what: What::Held(locked), replaces: None });
            }
            Found::Nothing => None,
            Found::Wrong(reason) => Some(reason),
        };
        let partial = partial_path(&self.folder, &file.name);
        if file.is_untouched_at(&partial).map_err(FetchError::io("read", &partial))? {
            return Ok(Task { what: What::Waiting, replaces });
        }
        // Another payload may hold the very bytes that are damaged, through a link.
        let what = if replaces == Some(DAMAGED) { What::Fetch } else { self.twin(file)? };
        Ok(Task { what, replaces })
    }

    /// What stands at the name of a file, and whether it may stay there.
    fn look_at(&self, file: &WantedFile, drifted: &mut Vec<String>) -> Result<Found, PullFailure> {
        let path = self.path(&file.name);
        let io = |error: io::Error| FetchError::io("read", &path)(error);
        if let Some(verified) = file.verified
            && file_metadata(&partial_path(&self.folder, &file.name)).map_err(io)?.is_none()
            && let Some(good) = self.still_good(&path, &file.locked(verified))?
        {
            // It had got its name already, and only the lock file was not written.
            return Ok(Found::Good(good));
        }
        let Some(metadata) = file_metadata(&path).map_err(io)? else { return Ok(Found::Nothing) };
        if let Some(locked) = self.lock.as_ref().and_then(|lock| lock.file(&file.name)) {
            return self.look_at_locked(file, &path, locked, drifted);
        }
        let bytes = metadata.len();
        let Some(sha256) = self.vouched(&path, file, bytes)? else {
            return Ok(Found::Wrong(UNKNOWN));
        };
        Ok(Found::Good(file.locked(Verified::new(bytes, sha256, Stamp::of(&metadata)))))
    }

    /// [`Job::look_at`] where the lock file knows the file.
    fn look_at_locked(
        &self,
        file: &WantedFile,
        path: &Path,
        locked: &LockedFile,
        drifted: &mut Vec<String>,
    ) -> Result<Found, PullFailure> {
        let is_same = locked.is_of(&file.segment);
        let has_drifted = is_same == Some(false);
        if has_drifted && (self.replaces_drifted() || self.is_demanded(file)) {
            return Ok(Found::Wrong(DRIFTED));
        }
        if is_same.is_none() && self.options.refresh {
            return Ok(Found::Wrong(UNCOMPARED));
        }
        let Some(held) = self.still_good(path, locked)? else {
            return Ok(Found::Wrong(DAMAGED));
        };
        if has_drifted {
            drifted.push(file.name.clone());
            return Ok(Found::Good(held));
        }
        Ok(Found::Good(renewed(&held, file)))
    }

    /// Whether files here give way to what the source has now: when that is asked for, or pinned.
    fn replaces_drifted(&self) -> bool {
        self.options.refresh || self.options.pins.is_some()
    }

    /// Whether the reference itself says which bytes a file has: only hubs, which have revisions, declare digests.
    fn is_demanded(&self, file: &WantedFile) -> bool {
        let has_digest = file.segment.iter().any(|segment| segment.digest().is_some());
        self.listing.revision.is_empty() && has_digest
    }

    /// The lock entry of the file at `path`, with its present time, if it still has the bytes that were verified.
    fn still_good(
        &self,
        path: &Path,
        locked: &LockedFile,
    ) -> Result<Option<LockedFile>, PullFailure> {
        let metadata = file_metadata(path).map_err(FetchError::io("read", path))?;
        let Some(metadata) = metadata else { return Ok(None) };
        let is_same = locked.is_untouched(&metadata)
            || (metadata.len() == locked.bytes && self.hash(path, &locked.name)? == locked.sha256);
        let now = LockedFile { damaged: false, ..locked.clone() }.stamped(Stamp::of(&metadata));
        Ok(is_same.then_some(now))
    }

    /// The sha256 of a file without a lock entry, if the source's digest says that it is the right one.
    fn vouched(
        &self,
        path: &Path,
        file: &WantedFile,
        bytes: u64,
    ) -> Result<Option<Sha256>, PullFailure> {
        let [whole] = file.segment.as_slice() else { return Ok(None) };
        let Some(digest) = whole.digest().filter(|_| whole.bytes.is_none_or(|want| want == bytes))
        else {
            return Ok(None);
        };
        let hashed =
            self.reporter.watched(&file.name, |watch| hash_both(path, digest, bytes, watch));
        let (sha256, found) = hashed?;
        Ok((found == digest).then_some(sha256))
    }

    fn hash(&self, path: &Path, name: &str) -> Result<Sha256, FetchError> {
        let bytes = file_metadata(path).map_err(FetchError::io("read", path))?;
        let bytes = bytes.map_or(0, |metadata| metadata.len());
        self.reporter.watched(name, |watch| hash(path, bytes, watch))
    }

    /// A verified file of another payload that the source says has the same bytes.
    fn twin(&self, file: &WantedFile) -> Result<What, PullFailure> {
        for payload in self.store.payloads()? {
            if payload.name == self.chosen.payload {
                continue;
            }
            for held in payload.files {
                let is_there = matches!(held.state, FileState::Verified | FileState::Changed);
                let locked = held.locked.filter(|_| is_there);
                let Some(locked) =
                    locked.filter(|locked| locked.is_of(&file.segment) == Some(true))
                else {
                    continue;
                };
                let path = payload.folder.join(&locked.name);
                if let Some(good) = self.still_good(&path, &locked)? {
                    return Ok(What::Link(good, path, payload.name));
                }
            }
        }
        Ok(What::Fetch)
    }
}

/// The entry of a file that is as the source has it, with what the source says of it now.
fn renewed(held: &LockedFile, file: &WantedFile) -> LockedFile {
    let LockedFile { bytes, sha256, modified_ns, changed_ns, inode, .. } = *held;
    let mut new = file.locked(Verified { bytes, sha256, modified_ns, changed_ns, inode });
    new.git_sha1 = new.git_sha1.or(held.git_sha1);
    new
}

/// Hashes a file of `bytes` bytes in one go into its sha256 and a digest of the kind of `digest`.
fn hash_both(
    path: &Path,
    digest: Digest,
    bytes: u64,
    watch: Watch<'_>,
) -> Result<(Sha256, Digest), FetchError> {
    let mut file = std::fs::File::open(path).map_err(FetchError::io("open", path))?;
    let (mut sha256, mut other) = (Hasher::new(), digest.hasher(bytes));
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let n = read_some(&mut file, &mut chunk).map_err(FetchError::io("read", path))?;
        if n == 0 {
            return Ok((sha256.finish(), other.finish()));
        }
        sha256.update(&chunk[..n]);
        other.update(&chunk[..n]);
        watch.report(Stage::Check, sha256.bytes(), Some(bytes))?;
    }
}
