//! What is there of a file that is being brought, shared by the threads that write, hash and save it. Never does any of that.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::layout::Layout;
use super::range_map::{Filled, Validator};

/// The state of all ranges, and who waits for a change of it.
pub(super) struct Board {
    layout: Layout,
    state: Mutex<State>,
    /// Told when more is there without a gap, and at the end.
    grown: Condvar,
    /// Told at the end.
    ended: Condvar,
    /// Told when the last byte was hashed, and when something failed.
    over: Notify,
}

struct State {
    filled: Vec<Filled>,
    /// Bytes that are there.
    here: u64,
    /// The first range that is not full.
    frontier: usize,
    /// Ranges of which more is there than was saved.
    unsaved: BTreeSet<usize>,
    /// One for each segment.
    validators: Vec<Validator>,
    /// Segments whose validator was set since it was saved.
    unsaved_validators: BTreeSet<usize>,
    hashed: u64,
    /// Bytes of bodies that came over the network.
    received: u64,
    ending: Ending,
}

/// Whether more bytes will come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Running,
    /// All came; what is there is still to be hashed and saved.
    Complete,
    /// Something failed; what is there is still to be saved.
    Failed,
}

impl Board {
    pub(super) fn new(layout: Layout, filled: Vec<Filled>, validators: Vec<Validator>) -> Board {
        let here = filled.iter().map(|filled| filled.bytes).sum();
        let state = State {
            filled,
            here,
            frontier: 0,
            unsaved: BTreeSet::new(),
            validators,
            unsaved_validators: BTreeSet::new(),
            hashed: 0,
            received: 0,
            ending: Ending::Running,
        };
        let (grown, ended) = (Condvar::new(), Condvar::new());
        Board { layout, state: Mutex::new(state), grown, ended, over: Notify::new() }
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds this lock")
    }

    /// How much of a range is there.
    pub(super) fn filled(&self, range: usize) -> Filled {
        self.state().filled[range]
    }

    /// The ranges of a segment that are not full.
    pub(super) fn missing(&self, segment: usize) -> BTreeSet<usize> {
        let state = self.state();
        let is_missing =
            |&range: &usize| state.filled[range].bytes < self.layout.range(range).bytes;
        self.layout.ranges_of(segment).filter(is_missing).collect()
    }

    /// Says how much of a range is in the file now.
    pub(super) fn fill(&self, range: usize, filled: Filled) {
        let mut state = self.state();
        let before = std::mem::replace(&mut state.filled[range], filled);
        state.here = state.here - before.bytes + filled.bytes;
        state.unsaved.insert(range);
        let may_have_grown = range == state.frontier;
        drop(state);
        if may_have_grown {
            self.grown.notify_one();
        }
    }

    /// Forgets what is there of a range.
    pub(super) fn empty(&self, range: usize) {
        self.fill(range, Filled::default());
    }

    /// Begins a round in which all is hashed from the first byte on.
    pub(super) fn begin_round(&self) {
        let mut state = self.state();
        (state.frontier, state.hashed, state.ending) = (0, 0, Ending::Running);
    }

    /// Waits until bytes behind `position` are there from the first one on, and returns how many are. `None` when no more will
    /// come because something failed.
    pub(super) fn wait_past(&self, position: u64) -> Option<u64> {
        let mut state = self.state();
        loop {
            if state.ending == Ending::Failed {
                return None;
            }
            let frontier = self.frontier(&mut state);
            if frontier > position {
                return Some(frontier);
            }
            state = self.grown.wait(state).expect("no thread panics while it holds this lock");
        }
    }

    /// Bytes that are there without a gap.
    fn frontier(&self, state: &mut State) -> u64 {
        while let Some(filled) = state.filled.get(state.frontier) {
            let span = self.layout.range(state.frontier);
            if filled.bytes < span.bytes {
                return span.offset + filled.bytes;
            }
            state.frontier += 1;
        }
        self.layout.total()
    }

    /// Waits until it is time to save: after `interval`, or when no more will come. True when it is the last time.
    pub(super) fn wait_to_save(&self, interval: Duration) -> bool {
        let deadline = Instant::now() + interval;
        let mut state = self.state();
        while state.ending == Ending::Running {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.ended.wait_timeout(state, left);
            state = waited.expect("no thread panics while it holds this lock").0;
        }
        true
    }

    /// What is there of the ranges that changed since this was asked last.
    pub(super) fn take_unsaved(&self) -> Vec<(usize, Filled)> {
        let mut state = self.state();
        let unsaved = std::mem::take(&mut state.unsaved);
        unsaved.into_iter().map(|range| (range, state.filled[range])).collect()
    }

    /// What the source calls the state of a segment, as far as that is known.
    pub(super) fn validator(&self, segment: usize) -> Validator {
        self.state().validators[segment].clone()
    }

    /// Remembers what the source calls the state of a segment.
    pub(super) fn set_validator(&self, segment: usize, validator: Validator) {
        let mut state = self.state();
        if state.validators[segment] != validator {
            state.validators[segment] = validator;
            state.unsaved_validators.insert(segment);
        }
    }

    /// The validators that were set since this was asked last.
    pub(super) fn take_unsaved_validators(&self) -> Vec<(usize, Validator)> {
        let mut state = self.state();
        let unsaved = std::mem::take(&mut state.unsaved_validators);
        unsaved.into_iter().map(|segment| (segment, state.validators[segment].clone())).collect()
    }

    /// Says how many bytes are hashed.
    pub(super) fn set_hashed(&self, bytes: u64) {
        self.state().hashed = bytes;
        if bytes == self.layout.total() {
            self.over.notify_one();
        }
    }

    pub(super) fn hashed(&self) -> u64 {
        self.state().hashed
    }

    /// Counts bytes that came over the network.
    pub(super) fn add_received(&self, bytes: u64) {
        self.state().received += bytes;
    }

    pub(super) fn received(&self) -> u64 {
        self.state().received
    }

    pub(super) fn here(&self) -> u64 {
        self.state().here
    }

    /// Says that no more bytes will come, because all are there.
    pub(super) fn complete(&self) {
        self.end(Ending::Complete);
    }

    /// Says that no more bytes will come, because something failed.
    pub(super) fn fail(&self) {
        self.end(Ending::Failed);
        self.over.notify_one();
    }

    fn end(&self, ending: Ending) {
        let mut state = self.state();
        if state.ending != Ending::Failed {
            state.ending = ending;
        }
        drop(state);
        self.grown.notify_all();
        self.ended.notify_all();
    }

    pub(super) fn has_failed(&self) -> bool {
        self.state().ending == Ending::Failed
    }

    /// Waits until the last byte is hashed or something failed; may end early.
    pub(super) async fn wait_over(&self) {
        self.over.notified().await;
    }
}
