//! One transfer from what is there to a verified file: rounds of bringing, hashing and saving. Never starts over.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::{File, Metadata, OpenOptions};
use std::os::unix::fs::MetadataExt as _;
use std::panic::resume_unwind;
use std::path::Path;
use std::pin::pin;
use std::thread::{self, ScopedJoinHandle};

use frank_os::{DataFile, free_disk};

use crate::digest::{Digest, Sha256};
use crate::fetch::{Progress, Stage};
use crate::http::{Client, HttpError, TICK, plain, shown};
use crate::stamp::Stamp;

use super::board::Board;
use super::feed::{Feed, Place, Sink, Stop};
use super::hashing::{self, Hashed};
use super::layout::range_bytes_for;
use super::range_map::{RangeMap, Saved, SavedSegment, map_path};
use super::{Brought, Notice, Segment, TransferError, Watch, discard, repair, saving};

/// A transfer, with its file and its range map open.
pub(super) struct Run<'a> {
    client: &'a Client,
    segments: &'a [Segment],
    partial: &'a Path,
    watch: Watch<'a>,
    board: Board,
    file: File,
    data: DataFile,
    map: RangeMap,
    /// The digest, when an earlier call finished the file and nobody touched it since.
    verified: Option<Sha256>,
    /// Whether an earlier call left bytes.
    is_resumed: bool,
}

/// How a run ended that did not fail.
pub(super) enum Outcome {
    Done(Brought),
    /// The file at this URL is not the one that was begun.
    Changed(String),
}

/// The ranges to bring in one round, for each segment.
type Wanted = Vec<BTreeSet<usize>>;

impl<'a> Run<'a> {
    /// Takes up what lies at `partial`, or begins anew where that is of another file. The drive must have room for the rest.
    pub(super) fn open(
        client: &'a Client,
        segments: &'a [Segment],
        sizes: &[u64],
        partial: &'a Path,
        watch: Watch<'a>,
    ) -> Result<Run<'a>, TransferError> {
        let io = |doing| TransferError::io(doing, partial);
        let wanted = saved_segments(segments, sizes);
        let held = held(partial, &wanted, watch).map_err(io("read the range map of"))?;
        let (saved, held_bytes) = match held {
            Some((saved, metadata)) => (saved, metadata.blocks().saturating_mul(512)),
            None => {
                discard(partial).map_err(io("remove"))?;
                (fresh(wanted, sizes)?, 0)
            }
        };
        let is_resumed = saved.here() > 0;
        check_room(partial, saved.total().saturating_sub(held_bytes))?;
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(partial);
        let file = file.map_err(io("open"))?;
        if !is_resumed {
            // What is there has its size already, and setting it would count as a change.
            file.set_len(saved.total()).map_err(io("extend"))?;
        }
        let data = DataFile::open(partial)?;
        let map = RangeMap::write(&map_path(partial), &saved);
        let map = map.map_err(io("write the range map of"))?;
        let verified = saved.verified.map(|(sha256, _)| sha256);
        let board = Board::new(saved.layout, saved.filled, saved.validators);
        Ok(Run { client, segments, partial, watch, board, file, data, map, verified, is_resumed })
    }

    /// Bytes of bodies that came over the network.
    pub(super) fn received(&self) -> u64 {
        self.board.received()
    }

    /// Brings what is missing and verifies the file; brings again what is wrong.
    pub(super) fn run(&mut self) -> Result<Outcome, TransferError> {
        if let Some(sha256) = self.verified {
            return Ok(Outcome::Done(self.brought(sha256, true)));
        }
        match self.run_rounds() {
            Ok(hashed) => {
                let finished = self.file.sync_all().and_then(|()| {
                    let stamp = Stamp::of(&self.file.metadata()?);
                    self.map.add_verified(hashed.sha256, stamp)
                });
                finished.map_err(TransferError::io("sync", self.partial))?;
                Ok(Outcome::Done(self.brought(hashed.sha256, false)))
            }
            Err(Stop::Changed(url)) => Ok(Outcome::Changed(url)),
            Err(Stop::Error(error)) => Err(error),
            Err(Stop::Whole(_)) => unreachable!("a feed takes the body of a whole segment itself"),
        }
    }

    fn brought(&self, sha256: Sha256, verified_before: bool) -> Brought {
        let bytes = self.board.layout().total();
        let (segment_bytes, received) = (Vec::new(), self.received());
        Brought { bytes, segment_bytes, sha256, received, verified_before }
    }

    /// The rounds: what is missing, then what is not as it came, then everything to be compared.
    fn run_rounds(&mut self) -> Result<Hashed, Stop> {
        let missing: Wanted =
            (0..self.segments.len()).map(|segment| self.board.missing(segment)).collect();
        let mut hashed = self.bring_and_hash(&missing)?;
        let mut suspects = self.wrong(&hashed);
        if self.is_resumed {
            // No digest would tell of bytes that went wrong since they came.
            suspects.extend(self.undeclared());
        }
        let damaged = self.damaged(&suspects)?;
        if let Some(bytes) = self.bytes_of(&damaged) {
            (self.watch.notice)(&Notice::Repairing { bytes });
            damaged.iter().flatten().for_each(|&range| self.board.empty(range));
            hashed = self.bring_and_hash(&damaged)?;
        }
        let doubtful = self.all_of(&self.wrong(&hashed));
        if let Some(bytes) = self.bytes_of(&doubtful) {
            (self.watch.notice)(&Notice::Comparing { bytes });
            if self.compare(&doubtful)? {
                hashed = self.bring_and_hash(&self.all_of(&[]))?;
            }
        }
        match self.wrong(&hashed).first() {
            Some(&segment) => Err(Stop::Error(self.give_up(segment, &hashed))),
            None => Ok(hashed),
        }
    }

    /// The segments whose digest is not the declared one.
    fn wrong(&self, hashed: &Hashed) -> Vec<usize> {
        let pairs = self.segments.iter().zip(&hashed.segments);
        let wrong = pairs.enumerate().filter(|(_, (segment, got))| segment.digest != **got);
        wrong.map(|(index, _)| index).collect()
    }

    /// The segments that no digest vouches for.
    fn undeclared(&self) -> impl Iterator<Item = usize> {
        let segments = self.segments.iter().enumerate();
        segments.filter(|(_, segment)| segment.digest.is_none()).map(|(index, _)| index)
    }

    /// All ranges of some segments.
    fn all_of(&self, segments: &[usize]) -> Wanted {
        let ranges = |segment| match segments.contains(&segment) {
            true => self.board.layout().ranges_of(segment).collect(),
            false => BTreeSet::new(),
        };
        (0..self.segments.len()).map(ranges).collect()
    }

    /// Bytes of ranges, `None` when there are none.
    fn bytes_of(&self, wanted: &Wanted) -> Option<u64> {
        let bytes = |&range: &usize| self.board.layout().range(range).bytes;
        Some(wanted.iter().flatten().map(bytes).sum()).filter(|&bytes| bytes > 0)
    }

    /// The ranges of wrong segments that are not on the drive as they came.
    fn damaged(&self, wrong: &[usize]) -> Result<Wanted, Stop> {
        let mut damaged = self.all_of(&[]);
        for &segment in wrong {
            let ranges = self.board.layout().ranges_of(segment);
            let is_stopped = || self.client.is_interrupted();
            let found = repair::damaged(&self.board, &self.data, ranges, &is_stopped);
            damaged[segment] = found.map_err(|error| Stop::Error(error.into()))?;
            if self.client.is_interrupted() {
                return Err(HttpError::Interrupted.into());
            }
        }
        Ok(damaged)
    }

    fn bring_and_hash(&mut self, wanted: &Wanted) -> Result<Hashed, Stop> {
        let (hashed, _) = self.round(wanted, Sink::Fill)?;
        // Hashing ends early only when bringing failed, and that was said already.
        hashed.ok_or_else(|| HttpError::Interrupted.into())
    }

    /// Brings full ranges again and writes what differs; true when something did.
    fn compare(&mut self, wanted: &Wanted) -> Result<bool, Stop> {
        let (_, differing) = self.round(wanted, Sink::Compare)?;
        Ok(differing > 0)
    }

    /// One round: this thread brings, one hashes behind it, and one saves. Returns the digests, which a round that compares
    /// does not take, and how many ranges differed.
    fn round(&mut self, wanted: &Wanted, sink: Sink) -> Result<(Option<Hashed>, usize), Stop> {
        let declared: Vec<Option<Digest>> =
            self.segments.iter().map(|segment| segment.digest).collect();
        let differing = Cell::new(0);
        let (board, file, data, map) = (&self.board, &self.file, &self.data, &mut self.map);
        board.begin_round();
        let (brought, hashed, saved) = thread::scope(|scope| {
            let saving =
                scope.spawn(|| guarded(board, || saving::keep_saving(board, file, data, map)));
            let hashing = (sink == Sink::Fill).then(|| {
                scope.spawn(|| guarded(board, || hashing::follow(board, data, &declared)))
            });
            let (client, partial, watch) = (self.client, self.partial, self.watch);
            let place = Place { client, board, file, partial, sink, differing: &differing, watch };
            let brought = guarded(board, || client.block_on(drive(&place, self.segments, wanted)));
            board.complete();
            (brought, hashing.map(join).transpose(), join(saving))
        });
        // What the other threads failed with comes first: bringing ended because of it.
        saved.map_err(Stop::Error)?;
        let hashed = hashed.map_err(|error| Stop::Error(error.into()))?.flatten();
        brought?;
        Ok((hashed, differing.get()))
    }

    /// The bytes are wrong for good: nothing of them is kept.
    fn give_up(&self, segment: usize, hashed: &Hashed) -> TransferError {
        let url = shown(&self.segments[segment].url);
        match (discard(self.partial), self.segments[segment].digest, hashed.segments[segment]) {
            (Ok(()), Some(want), Some(got)) => TransferError::Digest { url, got, want },
            (Ok(()), ..) => unreachable!("a segment is wrong by its declared digest"),
            (Err(error), ..) => TransferError::io("remove", self.partial)(error),
        }
    }
}

/// Runs the work of one thread; the others end when it fails.
fn guarded<T, E>(board: &Board, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    struct FailOnPanic<'a>(&'a Board);
    impl Drop for FailOnPanic<'_> {
        fn drop(&mut self) {
            if thread::panicking() {
                self.0.fail();
            }
        }
    }
    let _guard = FailOnPanic(board);
    work().inspect_err(|_| board.fail())
}

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// Brings the wanted ranges, and waits until all is hashed.
async fn drive(place: &Place<'_>, segments: &[Segment], wanted: &Wanted) -> Result<(), Stop> {
    let mut bring = pin!(async {
        for (index, (segment, ranges)) in segments.iter().zip(wanted).enumerate() {
            Feed::new(place, segment, index, ranges.clone()).run().await?;
        }
        Ok::<(), Stop>(())
    });
    let (board, mut is_here) = (place.board, false);
    let total = board.layout().total();
    loop {
        let (stage, bytes) = match is_here {
            true => (Stage::Check, board.hashed()),
            false => (Stage::Download, board.here()),
        };
        (place.watch.progress)(Progress { stage, bytes, total: Some(total) });
        if is_here && (place.sink == Sink::Compare || board.hashed() == total) {
            return Ok(());
        }
        tokio::select! {
            brought = &mut bring, if !is_here => {
                brought?;
                is_here = true;
            }
            () = board.wait_over() => {}
            () = tokio::time::sleep(TICK) => {}
        }
        if board.has_failed() {
            // Another thread failed, and its error is the one that counts.
            return Err(HttpError::Interrupted.into());
        }
    }
}

/// What a map of these segments says of them.
fn saved_segments(segments: &[Segment], sizes: &[u64]) -> Vec<SavedSegment> {
    let saved = |(segment, &bytes): (&Segment, &u64)| SavedSegment {
        bytes,
        digest: segment.digest,
        url: plain(&segment.url).into(),
    };
    segments.iter().zip(sizes).map(saved).collect()
}

/// What lies at `partial`, when it is of the wanted file and can be gone on with.
fn held(
    partial: &Path,
    wanted: &[SavedSegment],
    watch: Watch<'_>,
) -> std::io::Result<Option<(Saved, Metadata)>> {
    let Some(mut saved) = Saved::read(&map_path(partial))? else { return Ok(None) };
    let Ok(metadata) = partial.metadata() else { return Ok(None) };
    if !saved.take_up(wanted) {
        let url = wanted.first().map(|segment| segment.url.clone()).unwrap_or_default();
        (watch.notice)(&Notice::Changed { url });
        return Ok(None);
    }
    // Without a digest or a name for the state of the source, bytes of two states could not be told apart.
    let mut states = saved.segments.iter().zip(&saved.validators);
    let is_known = states.all(|(segment, validator)| {
        segment.digest.is_some() || validator.linked.is_some() || validator.state.is_strong()
    });
    let now = Stamp::of(&metadata);
    saved.verified = saved.verified.filter(|(_, stamp)| *stamp == now);
    Ok((is_known && metadata.len() == saved.total()).then_some((saved, metadata)))
}

/// A file of which nothing is there yet.
fn fresh(wanted: Vec<SavedSegment>, sizes: &[u64]) -> Result<Saved, TransferError> {
    let total = sizes.iter().try_fold(0_u64, |sum, &bytes| sum.checked_add(bytes));
    let saved = total.and_then(|total| Saved::fresh(wanted, range_bytes_for(total)));
    saved.ok_or(TransferError::TooLarge)
}

/// Refuses to begin what the drive has no room for.
fn check_room(partial: &Path, need: u64) -> Result<(), TransferError> {
    let folder = partial.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let free = free_disk(folder)?;
    if need > free {
        return Err(TransferError::DiskFull { path: folder.to_owned(), need, free });
    }
    Ok(())
}
