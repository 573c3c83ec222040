//! Blocks of a group of the KV cache: who holds which. Never touches tensor bytes.
//!
//! A block is held by running sequences, whose tables name it, and kept by the prefix cache. One that neither wants is
//! free. A request is promised all the blocks of a group that it may hold at the same time before it runs, and no more
//! is promised than there are. So a sequence that holds less than its promise finds a block that no sequence holds:
//! free, or kept by the prefix cache, which must then give it up.

use frank_models::KvGroup;
use frank_plan::{KV_BLOCK_TOKENS, kv_request_blocks};

/// Tokens of a block, which are those of a page.
pub(crate) const PAGE_TOKENS: usize = KV_BLOCK_TOKENS as usize;

/// The blocks of one sequence in one group: entry `i` holds positions `i * KV_BLOCK_TOKENS ..`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BlockTable {
    /// Entries before `first` are behind the window and name no block of the sequence.
    pub(crate) blocks: Vec<u32>,
    pub(crate) first: usize,
}

impl BlockTable {
    /// The block of page `page`, if the sequence holds one.
    pub(crate) fn block(&self, page: usize) -> Option<u32> {
        if page < self.first { None } else { self.blocks.get(page).copied() }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Holders {
    /// Running sequences whose table names the block.
    sequences: u32,
    /// A page of a group without a window counts one; in a group with one, so does each checkpoint.
    keepers: u32,
}

/// The blocks of one group.
#[derive(Debug)]
pub(crate) struct KvBlocks {
    window: Option<usize>,
    n_rows_max: usize,
    holders: Vec<Holders>,
    free: Vec<u32>,
    n_used: usize,
    n_promised: usize,
}

impl KvBlocks {
    /// The blocks of `group`, all free, for steps of at most `n_rows_max` rows.
    pub(crate) fn new(group: &KvGroup, n_rows_max: usize) -> Self {
        Self {
            window: group.window,
            n_rows_max,
            holders: vec![Holders::default(); group.n_blocks as usize],
            // Taken from the end, so that low blocks are used first.
            free: (0..group.n_blocks).rev().collect(),
            n_used: 0,
            n_promised: 0,
        }
    }

    /// Whether rows look back a bounded way only.
    pub(crate) fn has_window(&self) -> bool {
        self.window.is_some()
    }

    /// The first page that a row at `position` reads.
    pub(crate) fn first_page(&self, position: usize) -> usize {
        self.window.map_or(0, |window| (position + 1).saturating_sub(window) / PAGE_TOKENS)
    }

    /// Blocks that a request of `n_tokens` tokens holds at most.
    pub(crate) fn needed(&self, n_tokens: usize) -> usize {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let n =
            kv_request_blocks(self.window.map(number), number(n_tokens), number(self.n_rows_max));
        usize::try_from(n).unwrap_or(usize::MAX)
    }

    /// Blocks that can still be promised.
    pub(crate) fn promisable(&self) -> usize {
        self.total() - self.n_promised
    }

    /// Promises `n` blocks, at most [`KvBlocks::promisable`].
    pub(crate) fn promise(&mut self, n: usize) {
        self.n_promised += n;
        assert!(self.n_promised <= self.total(), "{n} blocks were promised that are not there");
    }

    /// Takes a promise of `n` blocks back.
    pub(crate) fn take_back(&mut self, n: usize) {
        self.n_promised -= n;
    }

    /// Gives a free block to a sequence.
    pub(crate) fn take(&mut self) -> Option<u32> {
        let block = self.free.pop()?;
        self.hold(block);
        Some(block)
    }

    /// One more sequence holds `block`.
    pub(crate) fn hold(&mut self, block: u32) {
        let holders = &mut self.holders[block as usize];
        holders.sequences += 1;
        self.n_used += usize::from(holders.sequences == 1);
    }

    /// One sequence fewer holds `block`; says whether it is free now.
    pub(crate) fn release(&mut self, block: u32) -> bool {
        let holders = &mut self.holders[block as usize];
        holders.sequences -= 1;
        self.n_used -= usize::from(holders.sequences == 0);
        self.free_if_unwanted(block)
    }

    /// The prefix cache keeps `block`, once more.
    pub(crate) fn keep(&mut self, block: u32) {
        self.holders[block as usize].keepers += 1;
    }

    /// The prefix cache keeps `block` once less; says whether it is free now.
    pub(crate) fn give_up(&mut self, block: u32) -> bool {
        self.holders[block as usize].keepers -= 1;
        self.free_if_unwanted(block)
    }

    fn free_if_unwanted(&mut self, block: u32) -> bool {
        let holders = self.holders[block as usize];
        let is_free = holders.sequences == 0 && holders.keepers == 0;
        if is_free {
            self.free.push(block);
        }
        is_free
    }

    /// Whether a running sequence holds `block`.
    pub(crate) fn is_held(&self, block: u32) -> bool {
        self.holders[block as usize].sequences > 0
    }

    /// Blocks in all.
    pub(crate) fn total(&self) -> usize {
        self.holders.len()
    }

    /// Blocks that running sequences hold.
    pub(crate) fn used(&self) -> usize {
        self.n_used
    }

    /// Blocks that nobody holds and the prefix cache keeps.
    pub(crate) fn cached(&self) -> usize {
        self.total() - self.free.len() - self.n_used
    }
}

#[cfg(test)]
impl KvBlocks {
    /// Sequences that hold `block`, and times that the prefix cache keeps it.
    pub(crate) fn holders(&self, block: u32) -> (u32, u32) {
        let holders = self.holders[block as usize];
        (holders.sequences, holders.keepers)
    }

    pub(crate) fn free_blocks(&self) -> &[u32] {
        &self.free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(window: Option<usize>, n_blocks: u32) -> KvBlocks {
        KvBlocks::new(&KvGroup { window, n_blocks, block_bytes: 0 }, 32)
    }

    #[test]
    fn a_block_is_free_again_when_neither_a_sequence_nor_the_cache_wants_it() {
        let mut blocks = blocks(None, 2);
        let block = blocks.take().expect("both are free");
        blocks.hold(block);
        blocks.keep(block);
        assert!(!blocks.release(block));
        assert!(!blocks.release(block));
        assert_eq!((blocks.used(), blocks.cached()), (0, 1));
        assert!(blocks.give_up(block));
        assert_eq!((blocks.take(), blocks.take(), blocks.take()), (Some(0), Some(1), None));
    }

    #[test]
    fn a_row_reads_its_own_token_and_those_before_it_that_its_window_reaches() {
        let check = |window, position, page| {
            assert_eq!(blocks(window, 1).first_page(position), page, "{window:?} {position}");
        };
        check(None, 1000, 0);
        check(Some(64), 63, 0);
        check(Some(64), 94, 0);
        check(Some(64), 95, 1);
        check(Some(1), 31, 0);
        check(Some(1), 32, 1);
    }
}
