//! What a scheduler wants from a disk, and what it has for it. Whoever has a disk asks and answers; here nothing waits.

use std::collections::HashSet;

use super::{DiskBlock, RequestId, Scheduler};
use crate::disk_cache::EntryKey;
use crate::kv_cache::KvBlocks;

/// A block that should lie on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockToStore {
    pub(crate) key: EntryKey,
    /// The entry by way of which it is found.
    pub(crate) parent: Option<EntryKey>,
    pub(crate) group: usize,
    pub(crate) block: u32,
}

impl Scheduler {
    /// From now on notes what should lie on a disk.
    pub(crate) fn use_disk(&mut self) {
        let n_blocks = self.kv.groups.iter().map(KvBlocks::total).sum();
        self.kv.stores.enable(n_blocks);
    }

    /// Looks on the disk for pages of requests that have just got a place. Returns the blocks that are to be filled, in
    /// order; their requests have no rows until that is done.
    pub(crate) fn restore(
        &mut self,
        is_on_disk: &dyn Fn(&EntryKey) -> bool,
    ) -> Vec<(RequestId, Vec<DiskBlock>)> {
        let mut on_their_way = HashSet::new();
        let mut wanted = Vec::new();
        for running in &mut self.running {
            // A page that comes for an older request is found in memory then.
            let waits = running.next_key.is_some_and(|key| on_their_way.contains(&key));
            if running.may_restore() && !waits {
                if running.page_wanted().is_some_and(|key| self.kv.pages.find(&key).is_some()) {
                    running.catch_up(&mut self.kv, &mut self.actions);
                }
                let blocks = running.begin_restoring(&mut self.kv, is_on_disk);
                if !blocks.is_empty() {
                    wanted.push((running.id, blocks));
                }
            }
            if running.is_restoring() {
                on_their_way.extend(running.next_key);
            }
        }
        wanted
    }

    /// Whether a request waits for the disk.
    pub(crate) fn is_restoring(&self, id: RequestId) -> bool {
        self.next_restored(id).is_some()
    }

    /// The block of a request that is filled next; `None` when it waits for none (any more).
    pub(crate) fn next_restored(&self, id: RequestId) -> Option<DiskBlock> {
        self.running.iter().find(|running| running.id == id)?.next_restored()
    }

    /// Notes that the block of [`Scheduler::next_restored`] is filled, or that it cannot be.
    pub(crate) fn note_restored(&mut self, id: RequestId, is_filled: bool) {
        if let Some(running) = self.running.iter_mut().find(|running| running.id == id) {
            running.note_restored(is_filled, &mut self.kv);
        }
    }

    /// The next block that should lie on the disk and does not. Its content is there until the next call of any
    /// method that takes blocks.
    pub(crate) fn next_to_store(
        &mut self,
        is_on_disk: &dyn Fn(&EntryKey) -> bool,
    ) -> Option<BlockToStore> {
        while let Some((page, group)) = self.kv.stores.pop() {
            let Some(placed) = self.kv.pages.placed(page, group) else { continue };
            let key = placed.key.of_group(group);
            if is_on_disk(&key) {
                continue;
            }
            // A block of a window is of use with all pages before it. Without such pages each stands for itself.
            let parent = if group == 0 { placed.parent } else { Some(placed.key) };
            let parent = parent.filter(|_| self.kv.needs_all_pages());
            let parent = parent.map(|parent| parent.of_group(0));
            return Some(BlockToStore { key, parent, group, block: placed.block });
        }
        None
    }
}
