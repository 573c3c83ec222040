//! The step loop's side of a disk cache: between two steps pages that came go into their blocks, and blocks go out to
//! be stored. Never waits for the disk.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use frank_models::Model;

use super::compute::guarded;
use super::{Shared, State};
use crate::disk_cache::{DiskCache, DiskWorker, EntryKey, Load};
use crate::scheduler::RequestId;

/// Blocks that are copied between two steps at most, each way: a few megabytes, a fraction of what a step reads.
const COPIES_MAX: usize = 4;

/// A disk cache in use by a step loop.
pub(super) struct Disk {
    worker: DiskWorker<RequestId>,
    shared: Arc<Shared>,
    /// Of each group.
    block_bytes: Vec<usize>,
}

impl Disk {
    /// Starts the thread of `cache` for the blocks of `model`.
    pub(super) fn start(cache: DiskCache, shared: Arc<Shared>, model: &dyn Model) -> Self {
        let block_bytes: Vec<_> = model.kv_groups().iter().map(|group| group.block_bytes).collect();
        let block_bytes_max = block_bytes.iter().copied().max().unwrap_or(0);
        let to_wake = Arc::clone(&shared);
        let worker = DiskWorker::start(cache, block_bytes_max, move || {
            to_wake.lock().has_news = true;
            to_wake.wake.notify_all();
        });
        shared.lock().scheduler.use_disk();
        Self { worker, shared, block_bytes }
    }

    fn is_on_disk(&self) -> impl Fn(&EntryKey) -> bool {
        |key| self.worker.cache().contains(key)
    }

    /// Asks for the pages of requests that have just got a place, and no longer for those that have gone.
    pub(super) fn ask(&self, state: &mut State) {
        self.worker.forget(|&id| !state.scheduler.is_restoring(id));
        for (id, blocks) in state.scheduler.restore(&self.is_on_disk()) {
            for block in blocks {
                let n_bytes = self.block_bytes[block.group];
                self.worker.load(Load { tag: id, key: block.key, n_bytes });
            }
        }
    }

    /// Fills blocks with what has come, and takes some to be stored.
    pub(super) fn exchange(&self, model: &mut dyn Model) {
        let n_filled = (0..COPIES_MAX).take_while(|_| self.fill(model)).count();
        if n_filled == COPIES_MAX {
            // There may be more, of which nobody will say anything again.
            self.shared.lock().has_news = true;
        }
        self.store(model);
    }

    /// Fills the block of the next page that has come; false when none has.
    fn fill(&self, model: &mut dyn Model) -> bool {
        self.worker.take_loaded(|id, bytes| {
            // The lock is not held while bytes are copied. Only this thread takes blocks from running requests.
            let next = self.shared.lock().scheduler.next_restored(id);
            let Some(next) = next else { return };
            let is_filled = bytes.is_some_and(|bytes| {
                let write = || model.write_block(next.group, next.block, bytes);
                guarded("a block from the disk", write).is_ok()
            });
            let mut state = self.shared.lock();
            state.scheduler.note_restored(id, is_filled);
            state.last_progress = Instant::now();
        })
    }

    /// Takes some blocks to be stored. True when none is left to take.
    fn store(&self, model: &dyn Model) -> bool {
        for _ in 0..COPIES_MAX {
            if !self.worker.cache().is_storing() {
                return true;
            }
            if !self.worker.may_store() {
                return false;
            }
            let next = self.shared.lock().scheduler.next_to_store(&self.is_on_disk());
            let Some(next) = next else { return true };
            let n_bytes = self.block_bytes[next.group];
            // A page that cannot be read is not stored, and whoever wants it computes it.
            let read = |bytes: &mut [u8]| {
                let read = || model.read_block(next.group, next.block, bytes);
                guarded("a block for the disk", read).is_ok()
            };
            self.worker.store(next.key, next.parent, n_bytes, read);
        }
        false
    }

    /// Stores what is left, however long the disk takes.
    pub(super) fn finish(self, model: &dyn Model) {
        while !self.store(model) {
            let mut state = self.shared.lock();
            while !std::mem::take(&mut state.has_news) {
                state = self.shared.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}
