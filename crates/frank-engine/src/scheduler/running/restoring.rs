//! Pages of a prompt on their way from a disk into blocks of their request, which computes nothing until all have come.
//! Never touches the disk.

use super::Running;
use crate::disk_cache::EntryKey;
use crate::kv_cache::{KvCache, PAGE_TOKENS};
use crate::prefix_cache::PageKey;

/// What a request waits for.
#[derive(Debug)]
pub(super) struct Restoring {
    /// By page, then by group.
    blocks: Vec<DiskBlock>,
    n_arrived: usize,
    /// Pages that the request has when all have arrived.
    n_pages: usize,
}

/// A block to be filled from the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskBlock {
    pub(crate) key: EntryKey,
    pub(crate) group: usize,
    pub(crate) block: u32,
    page: usize,
}

impl Running {
    /// Whether it waits for pages from the disk.
    pub(crate) fn is_restoring(&self) -> bool {
        self.restoring.is_some()
    }

    /// Whether the disk was not asked for its pages yet, and it is not too late for that.
    pub(crate) fn may_restore(&self) -> bool {
        self.may_restore && !self.is_started
    }

    /// Takes blocks for the longest run of pages behind those found in memory that lie on the disk with all that it
    /// takes to go on behind them. Returns the blocks, to be filled in this order.
    pub(crate) fn begin_restoring(
        &mut self,
        kv: &mut KvCache,
        is_on_disk: &dyn Fn(&EntryKey) -> bool,
    ) -> Vec<DiskBlock> {
        self.may_restore = false;
        let keys = self.keys_on_disk(kv, is_on_disk);
        let n_held = self.path.len();
        let mut reachable = (n_held + 1..=n_held + keys.len()).rev();
        let Some(n_pages) = reachable.find(|&n| self.is_whole(kv, &keys, n, is_on_disk)) else {
            return Vec::new();
        };
        // What was found of the page behind the last whole one comes with that page.
        let n_part = self.n_computed - n_held * PAGE_TOKENS;
        self.n_computed -= n_part;
        self.n_cached -= n_part;
        let mut blocks = Vec::new();
        for group in 0..self.tables.len() {
            let taken = self.take_blocks(group, n_pages, kv).into_iter();
            blocks.extend(taken.map(|(page, block)| {
                let key = keys[page - n_held].of_group(group);
                DiskBlock { key, group, block, page }
            }));
        }
        blocks.sort_by_key(|block| block.page);
        self.restoring = Some(Restoring { blocks: blocks.clone(), n_arrived: 0, n_pages });
        blocks
    }

    /// Takes the blocks of a group that the row behind `n_pages` pages reads, and returns those to be filled with their
    /// pages.
    fn take_blocks(&mut self, group: usize, n_pages: usize, kv: &mut KvCache) -> Vec<(usize, u32)> {
        let table = &mut self.tables[group];
        let first = kv.groups[group].first_page(n_pages * PAGE_TOKENS);
        kv.slide(group, &self.path, table, first);
        let mut taken = Vec::new();
        for page in self.path.len()..n_pages {
            if page == table.blocks.len() {
                table.blocks.push(if page < first { 0 } else { kv.take(group) });
            }
            if page >= first {
                taken.push((page, table.blocks[page]));
            }
        }
        taken
    }

    /// The keys of the pages of the prompt that follow, as far as they may be on the disk. The last token of a prompt
    /// is always computed.
    fn keys_on_disk(&self, kv: &KvCache, is_on_disk: &dyn Fn(&EntryKey) -> bool) -> Vec<PageKey> {
        let Some(mut key) = self.end_key else { return Vec::new() };
        let begin = self.path.len() * PAGE_TOKENS;
        let rest = self.prompt().get(begin..self.n_prompt - 1).unwrap_or_default();
        let keys = rest.chunks_exact(PAGE_TOKENS).map(|token_ids| {
            key = key.child(token_ids);
            key
        });
        let needs_all = kv.needs_all_pages();
        keys.take_while(|key| !needs_all || is_on_disk(&key.of_group(0))).collect()
    }

    /// Whether a request can go on behind `n_pages` pages: what its next row reads is held, or on the disk.
    fn is_whole(
        &self,
        kv: &KvCache,
        keys: &[PageKey],
        n_pages: usize,
        is_on_disk: &dyn Fn(&EntryKey) -> bool,
    ) -> bool {
        let n_held = self.path.len();
        (0..self.tables.len()).all(|group| {
            // Such a group was looked at page by page already.
            let is_known = group == 0 && kv.needs_all_pages();
            let first = kv.groups[group].first_page(n_pages * PAGE_TOKENS);
            (first..n_pages).all(|page| match page.checked_sub(n_held) {
                Some(behind) => is_known || is_on_disk(&keys[behind].of_group(group)),
                None => self.tables[group].block(page).is_some(),
            })
        })
    }

    /// The block that is filled next.
    pub(crate) fn next_restored(&self) -> Option<DiskBlock> {
        self.restoring.as_ref().map(|restoring| restoring.blocks[restoring.n_arrived])
    }

    /// Notes that the next block is filled, or that it cannot be. Returns how many tokens are found by that.
    pub(crate) fn note_restored(&mut self, is_filled: bool, kv: &mut KvCache) -> usize {
        let Some(restoring) = &mut self.restoring else { return 0 };
        restoring.n_arrived += usize::from(is_filled);
        let (missing, n_pages) = (restoring.blocks.get(restoring.n_arrived), restoring.n_pages);
        match missing.map(|block| block.page) {
            None => self.end_restoring(n_pages, kv),
            Some(_) if is_filled => 0,
            // No page has slid out of a window, so one can go on behind each that is whole.
            Some(page) if self.tables.iter().all(|table| table.first == 0) => {
                self.end_restoring(page, kv)
            }
            Some(_) => {
                self.start_over(kv);
                0
            }
        }
    }

    /// Goes on behind `n_pages` pages, and lets others do so too.
    fn end_restoring(&mut self, n_pages: usize, kv: &mut KvCache) -> usize {
        self.restoring = None;
        let n_tokens = (n_pages - self.path.len()) * PAGE_TOKENS;
        self.n_cached += n_tokens;
        self.advance(n_tokens, kv);
        if let Some(&last) = self.path.last() {
            kv.set_checkpoint(last);
        }
        n_tokens
    }

    /// Lets go of everything: what its windows would read is not whole. What is in memory is found again.
    fn start_over(&mut self, kv: &mut KvCache) {
        self.restoring = None;
        self.release_blocks(kv);
        kv.pages.leave(&mut kv.groups, &self.path);
        self.tables.iter_mut().for_each(|table| *table = Default::default());
        self.path.clear();
        (self.n_computed, self.n_cached) = (0, 0);
        self.end_key = self.root;
        self.note_next_key();
    }
}
