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

    /// Notes that the next block is filled, or that it cannot be.
    pub(crate) fn note_restored(&mut self, is_filled: bool, kv: &mut KvCache) {
        let Some(restoring) = &mut self.restoring else { return };
        restoring.n_arrived += usize::from(is_filled);
        let (missing, n_pages) = (restoring.blocks.get(restoring.n_arrived), restoring.n_pages);
        match missing.map(|block| block.page) {
            None => self.end_restoring(n_pages, kv),
            Some(_) if is_filled => {}
            // No page has slid out of a window, so one can go on behind each that is whole.
            Some(page) if self.tables.iter().all(|table| table.first == 0) => {
                self.end_restoring(page, kv)
            }
            Some(_) => self.start_over(kv),
        }
    }

    /// Goes on behind `n_pages` pages, and lets others do so too.
    fn end_restoring(&mut self, n_pages: usize, kv: &mut KvCache) {
        self.restoring = None;
        let n_tokens = (n_pages - self.path.len()) * PAGE_TOKENS;
        self.n_cached += n_tokens;
        self.advance(n_tokens, kv);
        self.drop_unfilled(n_pages, kv);
        if let Some(&last) = self.path.last() {
            kv.set_checkpoint(last);
        }
    }

    /// Gives back the blocks behind `n_pages` pages, which were to be filled. Were they kept, a page that is found in
    /// memory later would be taken to lie in them.
    fn drop_unfilled(&mut self, n_pages: usize, kv: &mut KvCache) {
        for (group, table) in self.tables.iter_mut().enumerate() {
            let blocks = (group, &mut kv.groups[group]);
            kv.pages.release(blocks, &self.path, table, n_pages..table.blocks.len());
            table.blocks.truncate(n_pages);
        }
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

#[cfg(test)]
mod tests {
    use frank_models::KvGroup;

    use super::*;
    use crate::scheduler::{Job, Limits, RequestId, RowsOutcome, Scheduler};

    fn scheduler() -> Scheduler {
        let limits = Limits { n_parallel: 2, n_queue: 2, n_rows_max: 64 };
        Scheduler::new(limits, &[KvGroup { window: None, n_blocks: 16, block_bytes: 0 }])
    }

    fn submit(scheduler: &mut Scheduler, prompt: Vec<u32>) -> RequestId {
        let job = Job { prompt, max_tokens: 10, root: Some(PageKey::root(&[1; 32])) };
        scheduler.submit(vec![job]).expect("there is room")[0]
    }

    /// Runs a step in which all rows have `outcome`.
    fn step(scheduler: &mut Scheduler, outcome: RowsOutcome) {
        let rows = scheduler.plan();
        scheduler.complete(&rows, &vec![outcome; rows.len()]);
    }

    #[test]
    fn a_page_that_another_computes_while_it_is_missed_on_the_disk_is_read_where_that_one_wrote_it()
    {
        let mut scheduler = scheduler();
        let restored = submit(&mut scheduler, (0..97).collect());
        scheduler.admit();
        assert_eq!(scheduler.restore(&|_| true).len(), 1);
        // A prompt that ends with the page does not wait for it.
        submit(&mut scheduler, (0..32).collect());
        scheduler.admit();
        step(&mut scheduler, RowsOutcome::Token(500));
        scheduler.note_restored(restored, false);
        scheduler.plan();
        let [restored, computed] = scheduler.running() else { panic!("both run") };
        assert_eq!((restored.n_computed, restored.n_cached), (32, 32));
        assert_eq!(restored.tables[0].blocks[0], computed.tables[0].blocks[0]);
    }

    #[test]
    fn what_is_found_in_memory_and_again_on_the_disk_is_counted_once() {
        let mut scheduler = scheduler();
        submit(&mut scheduler, (0..40).collect());
        scheduler.admit();
        step(&mut scheduler, RowsOutcome::Ended);
        let id = submit(&mut scheduler, (0..20).chain(100..145).collect());
        scheduler.admit();
        assert_eq!(scheduler.restore(&|_| true)[0].1.len(), 2);
        scheduler.note_restored(id, true);
        scheduler.note_restored(id, true);
        step(&mut scheduler, RowsOutcome::Ended);
        let totals = scheduler.totals();
        assert_eq!((totals.n_looked_up, totals.n_found), (40 + 65, 64));
    }
}
