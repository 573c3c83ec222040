//! Room, links and bytes: from tasks to verified files that wait in `.partial`. Never gives a file its final name.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::Job;
use super::copy::copy;
use super::examine::{Task, What};
use super::failure::PullError;
use super::note::Note;
use super::pulled::{FileOutcome, PulledFile};
use super::report::Done;
use super::step::Step;
use crate::digest::Digest;
use crate::fetch::{FetchError, check_room};
use crate::listing::{ChosenFile, RemoteFile};
use crate::stamp::Stamp;
use crate::store::payload_lock::LockedFile;
use crate::store::wanted::{Verified, partial_path};
use crate::transfer::{self, Brought, Segment, TransferError, bring, partial_bytes};

/// Bytes of a block as `stat` counts them, whatever the file system.
const STAT_BLOCK_BYTES: u64 = 512;

impl Job<'_> {
    /// Says where this pull goes on, when an earlier one had begun.
    pub(super) fn note_resumption(&self, tasks: &[Task]) -> Result<(), PullError> {
        let mut here = 0;
        for (file, task) in self.wanted.file.iter().zip(tasks) {
            here += match (&task.what, file.verified) {
                (What::Waiting, Some(verified)) => verified.bytes,
                (What::Fetch, _) => {
                    let partial = partial_path(&self.folder, &file.name);
                    let bytes = partial_bytes(&partial);
                    let bytes = bytes.map_err(FetchError::io("read the range map of", &partial));
                    bytes
                        .map_err(PullError::of(Step::Transfer, &file.name))?
                        .map_or(0, |(here, _)| here)
                }
                _ => 0,
            };
        }
        let all_wait = tasks.iter().all(|task| matches!(task.what, What::Held(_) | What::Waiting));
        let step = if all_wait { Step::Finalize } else { Step::Transfer };
        if here > 0 {
            self.reporter.note(Note::Resumed { step, here });
        }
        Ok(())
    }

    /// Links what other payloads have. What the file system does not link is fetched like the rest.
    pub(super) fn link(&mut self, tasks: &[Task]) -> Result<(), PullError> {
        for (index, task) in tasks.iter().enumerate() {
            let What::Link(locked, source, payload) = &task.what else { continue };
            let file = &mut self.wanted.file[index];
            let partial = partial_path(&self.folder, &file.name);
            let discarded = transfer::discard(&partial).map_err(FetchError::io("remove", &partial));
            discarded.map_err(PullError::of(Step::Held, &file.name))?;
            if fs::hard_link(source, &partial).is_ok() {
                let linked = fs::metadata(&partial).map_err(FetchError::io("read", &partial));
                let linked = linked.map_err(PullError::of(Step::Held, &file.name))?;
                file.verified = moved_since(locked, &linked);
                if file.verified.is_none() {
                    // The other payload was refreshed meanwhile.
                    let discarded = transfer::discard(&partial);
                    let discarded = discarded.map_err(FetchError::io("remove", &partial));
                    discarded.map_err(PullError::of(Step::Held, &file.name))?;
                    continue;
                }
                let (file, payload) = (file.name.clone(), payload.clone());
                self.reporter.note(Note::Linked { file, payload });
            }
        }
        Ok(())
    }

    /// Refuses before the first byte what the drive has no room for. What lies there already is counted.
    pub(super) fn check_room(&self, tasks: &[Task]) -> Result<(), FetchError> {
        let (mut need, mut is_all) = (0u64, true);
        for (file, task) in self.wanted.file.iter().zip(tasks) {
            let comes =
                matches!(task.what, What::Fetch | What::Link(..)) && file.verified.is_none();
            is_all &= !comes || file.bytes().is_some();
            if let Some(bytes) = file.bytes().filter(|_| comes) {
                let partial = fs::metadata(partial_path(&self.folder, &file.name));
                let here = partial.map_or(0, |metadata| metadata.blocks() * STAT_BLOCK_BYTES);
                need = need.saturating_add(bytes.saturating_sub(here));
            }
        }
        let free = check_room(&self.folder, need)?;
        self.reporter.done(Done::Room { need, is_all, free });
        Ok(())
    }

    /// Makes every file wait in `.partial`, whole and verified, unless it is where it belongs already.
    pub(super) fn bring(&mut self, tasks: &[Task]) -> Result<Vec<PulledFile>, PullError> {
        let mut outcomes = Vec::with_capacity(tasks.len());
        for (index, task) in tasks.iter().enumerate() {
            let is_verified = self.wanted.file[index].verified.is_some();
            let (outcome, received) = match &task.what {
                What::Held(_) => (FileOutcome::Held, 0),
                What::Waiting => (FileOutcome::Resumed, 0),
                What::Link(..) if is_verified => (FileOutcome::Linked, 0),
                What::Link(..) | What::Fetch => (FileOutcome::Fetched, self.fetch(index)?),
            };
            let file = &self.wanted.file[index];
            let (name, role, received) = (file.name.clone(), file.role, Some(received));
            outcomes.push(PulledFile { name, role, outcome, received });
        }
        Ok(outcomes)
    }

    /// Brings one file, and returns how many bytes came over the network for it.
    fn fetch(&mut self, index: usize) -> Result<u64, PullError> {
        let name = &self.chosen.files[index].name;
        let partial = partial_path(&self.folder, name);
        let (bytes, sha256, received, sizes) = match self.local_segments(index) {
            Some(paths) => {
                let total = self.wanted.file[index].bytes();
                let copied =
                    self.reporter.watched(name, |watch| copy(&paths, &partial, total, watch));
                let (bytes, sha256) = copied.map_err(PullError::of(Step::Transfer, name))?;
                let declared = self.wanted.file[index].segment.iter();
                (bytes, sha256, 0, declared.filter_map(|segment| segment.bytes).collect())
            }
            None => {
                let brought = self.receive(index, &partial)?;
                (brought.bytes, brought.sha256, brought.received, brought.segment_bytes)
            }
        };
        self.check_content(index, &partial, &sizes)?;
        let metadata = fs::metadata(&partial).map_err(FetchError::io("read", &partial));
        let metadata = metadata.map_err(PullError::of(Step::Verify, name))?;
        let verified = Verified::new(bytes, sha256, Stamp::of(&metadata));
        self.wanted.file[index].verified = Some(verified);
        self.note_wanted().map_err(PullError::of(Step::Verify, name))?;
        let file = &self.wanted.file[index];
        let digest = match file.segment.as_slice() {
            [whole] => whole.digest(),
            _ => None,
        };
        let digest = digest.unwrap_or(Digest::Sha256(sha256));
        self.reporter.done(Done::Verify { file: name, bytes, received, digest });
        self.check_pinned(&file.locked(verified)).map_err(PullError::of(Step::Manifest, name))?;
        Ok(received)
    }

    fn receive(&self, index: usize, partial: &Path) -> Result<Brought, PullError> {
        let ChosenFile { name, segments, .. } = &self.chosen.files[index];
        let segments: Vec<Segment> = segments.iter().map(segment).collect();
        let begun = Instant::now();
        let brought = self
            .reporter
            .transferring(name, |watch| bring(self.client, &segments, partial, watch))
            .map_err(|error| PullError::of(step_of(&error), name)(error))?;
        if let Some(first) = segments.first() {
            self.suspect_pace(name, &first.url, brought.received, begun.elapsed());
        }
        if segments.iter().any(|segment| segment.digest.is_none()) {
            self.reporter.note(Note::NoDigest { file: name.clone() });
        }
        Ok(brought)
    }

    /// Where the pieces of a file are, when they are on this machine.
    fn local_segments(&self, index: usize) -> Option<Vec<PathBuf>> {
        let segments = self.chosen.files[index].segments.iter();
        let local = |remote: &RemoteFile| {
            remote.url.to_file_path().ok().filter(|_| remote.url.scheme() == "file")
        };
        segments.map(local).collect()
    }
}

/// A file that was verified as `locked` says, and got another name or link since; `None` where more than that was done.
pub(super) fn moved_since(locked: &LockedFile, now: &Metadata) -> Option<Verified> {
    let stamp = Stamp::of(now);
    let is_same = now.len() == locked.bytes
        && locked.stamp().is_some_and(|before| stamp.is_only_renamed(before));
    is_same.then(|| Verified::new(locked.bytes, locked.sha256, stamp))
}

fn segment(remote: &RemoteFile) -> Segment {
    Segment { url: remote.url.clone(), bytes: remote.bytes, digest: remote.digest }
}

/// Bytes that came and are not the right ones are a matter of verification.
fn step_of(error: &TransferError) -> Step {
    match error {
        TransferError::Size { .. } | TransferError::Digest { .. } => Step::Verify,
        TransferError::DiskFull { .. } => Step::Room,
        _ => Step::Transfer,
    }
}
