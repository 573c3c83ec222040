//! Blocks of pages that became findable and may not lie on the disk yet. Never touches the disk.

use std::collections::VecDeque;

use crate::prefix_cache::PageId;

/// Blocks to store, in the order in which that makes sense: a page comes after its parent.
#[derive(Debug, Default)]
pub(crate) struct StoreQueue {
    blocks: VecDeque<(PageId, usize)>,
    /// More than so many blocks are never worth a note, since there are no more. 0 without a disk.
    capacity: usize,
}

impl StoreQueue {
    /// Takes note from now on, of `capacity` blocks at most.
    pub(crate) fn enable(&mut self, capacity: usize) {
        self.capacity = capacity;
    }

    /// Notes that a block of a page should lie on the disk. What is noted twice, or gone when its turn comes, is sorted
    /// out by whoever takes it.
    pub(crate) fn push(&mut self, page: PageId, group: usize) {
        if self.capacity == 0 {
            return;
        }
        if self.blocks.len() == self.capacity {
            self.blocks.pop_front();
        }
        self.blocks.push_back((page, group));
    }

    /// The next page and group.
    pub(crate) fn pop(&mut self) -> Option<(PageId, usize)> {
        self.blocks.pop_front()
    }
}
