//! Paged KV cache: the blocks of all groups and the pages that can be found in them. Never touches tensor bytes.

mod blocks;
mod stores;

use frank_models::KvGroup;

pub(crate) use self::blocks::{BlockTable, KvBlocks, PAGE_TOKENS};
use self::stores::StoreQueue;
use crate::prefix_cache::{PageId, PrefixCache};

/// Blocks and pages.
#[derive(Debug)]
pub(crate) struct KvCache {
    pub(crate) groups: Vec<KvBlocks>,
    pub(crate) pages: PrefixCache,
    pub(crate) stores: StoreQueue,
}

impl KvCache {
    /// A cache in which all blocks are free, for steps of at most `n_rows_max` rows.
    pub(crate) fn new(groups: &[KvGroup], n_rows_max: usize) -> Self {
        let groups: Vec<_> = groups.iter().map(|group| KvBlocks::new(group, n_rows_max)).collect();
        let pages = PrefixCache::new(&groups);
        Self { groups, pages, stores: StoreQueue::default() }
    }

    /// Whether a request of `n_tokens` tokens could run if it were alone.
    pub(crate) fn holds(&self, n_tokens: usize) -> bool {
        self.groups.iter().all(|group| group.needed(n_tokens) <= group.total())
    }

    /// Promises a request of `n_tokens` tokens its blocks of all groups. False when there are too few; nothing is
    /// promised then.
    pub(crate) fn promise(&mut self, n_tokens: usize) -> bool {
        let is_there = self.groups.iter().all(|group| group.needed(n_tokens) <= group.promisable());
        if is_there {
            self.groups.iter_mut().for_each(|group| group.promise(group.needed(n_tokens)));
        }
        is_there
    }

    /// Takes the promise for `n_tokens` tokens back.
    pub(crate) fn take_back(&mut self, n_tokens: usize) {
        self.groups.iter_mut().for_each(|group| group.take_back(group.needed(n_tokens)));
    }

    /// Takes a block of `group` for a sequence that was promised it, from the prefix cache if need be.
    pub(crate) fn take(&mut self, group: usize) -> u32 {
        loop {
            if let Some(block) = self.groups[group].take() {
                return block;
            }
            let evicted = self.pages.evict(&mut self.groups, group);
            assert!(evicted, "a block of group {group} was promised that is not there");
        }
    }

    /// Takes the blocks before page `first` from the table of a sequence in `group`, whose windows have passed them.
    /// `path` are the pages that the sequence passed through.
    pub(crate) fn slide(
        &mut self,
        group: usize,
        path: &[PageId],
        table: &mut BlockTable,
        first: usize,
    ) {
        let behind = table.first..first.min(table.blocks.len());
        self.pages.release((group, &mut self.groups[group]), path, table, behind);
        table.first = table.first.max(first);
    }

    /// Keeps what it takes to go on behind `page`.
    pub(crate) fn set_checkpoint(&mut self, page: PageId) {
        self.pages.set_checkpoint(&mut self.groups, page);
        self.store_checkpoint(page);
    }

    /// Whether rows read all earlier pages of the first group. No other group is without a window.
    pub(crate) fn needs_all_pages(&self) -> bool {
        !self.groups[0].has_window()
    }

    /// Notes for the disk that `page` can be found.
    pub(crate) fn store_page(&mut self, page: PageId) {
        if self.needs_all_pages() {
            self.stores.push(page, 0);
        }
    }

    /// Notes for the disk what it takes of groups with windows to go on behind `page`.
    pub(crate) fn store_checkpoint(&mut self, page: PageId) {
        for (group, page) in self.pages.checkpoint_blocks(&self.groups, page) {
            self.stores.push(page, group);
        }
    }
}
