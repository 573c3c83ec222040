//! Paged KV cache: which block holds which tokens. Never touches tensor bytes.

use frank_plan::KV_BLOCK_TOKENS;

/// The blocks of one sequence: entry `i` holds positions `i * KV_BLOCK_TOKENS ..`.
pub type BlockTable = Vec<u32>;

/// Free blocks of the KV cache, and the count of all.
#[derive(Debug)]
pub struct KvBlocks {
    total: usize,
    free: Vec<u32>,
}

impl KvBlocks {
    /// A cache of `n_blocks` blocks, all free.
    #[must_use]
    pub fn new(n_blocks: u32) -> Self {
        // Taken from the end, so that low blocks are used first.
        Self { total: n_blocks as usize, free: (0..n_blocks).rev().collect() }
    }

    /// Blocks that `n_tokens` tokens need.
    #[must_use]
    pub fn blocks_for(n_tokens: usize) -> usize {
        n_tokens.div_ceil(KV_BLOCK_TOKENS as usize)
    }

    /// Takes the blocks for `n_tokens` tokens, or none at all when too few are free.
    pub fn reserve(&mut self, n_tokens: usize) -> Option<BlockTable> {
        let n = Self::blocks_for(n_tokens);
        let rest = self.free.len().checked_sub(n)?;
        let mut table = self.free.split_off(rest);
        table.reverse();
        Some(table)
    }

    /// Gives a sequence's blocks back.
    pub fn release(&mut self, table: BlockTable) {
        self.free.extend(table.into_iter().rev());
        assert!(self.free.len() <= self.total, "{} blocks free of {}", self.free.len(), self.total);
    }

    /// Blocks in all.
    #[must_use]
    pub fn total(&self) -> usize {
        self.total
    }

    /// Blocks that a sequence holds.
    #[must_use]
    pub fn used(&self) -> usize {
        self.total - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_takes_whole_blocks_or_nothing() {
        let mut blocks = KvBlocks::new(3);
        let first = blocks.reserve(33).expect("two of three blocks are free");
        assert_eq!(first, [0, 1]);
        assert_eq!(blocks.reserve(33), None);
        assert_eq!(blocks.used(), 2);
        assert_eq!(blocks.reserve(32), Some(vec![2]));
    }

    #[test]
    fn released_blocks_are_handed_out_again() {
        let mut blocks = KvBlocks::new(2);
        let table = blocks.reserve(64).expect("both blocks are free");
        blocks.release(table.clone());
        assert_eq!(blocks.used(), 0);
        assert_eq!(blocks.reserve(64), Some(table));
    }
}
