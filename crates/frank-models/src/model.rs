//! The border between a model and whoever batches requests: token rows in, logits out, and the blocks in between.

use frank_experts::StoreStatistics;

use crate::error::StepError;

/// Rows of tokens to compute together. Row `r` is token `token_ids[r]` at `positions[r]` of the sequence whose
/// KV blocks are `block_tables[group][sequences[r]]`, for each group of [`Model::kv_groups`].
///
/// Rows of one sequence come in rising positions without a gap, and all earlier positions of that sequence
/// were computed by earlier calls. A row's result does not depend on its batch mates.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// Token of each row, below the vocabulary size.
    pub token_ids: &'a [u32],
    /// Position of each row in its sequence, from 0.
    pub positions: &'a [u32],
    /// Index into the tables of a group of each row.
    pub sequences: &'a [usize],
    /// For each group, KV blocks of each sequence: block `i` holds positions `i * KV_BLOCK_TOKENS ..`. Entries that lie
    /// wholly behind the group's window for every row of the sequence are not read, so they may name any block.
    pub block_tables: &'a [&'a [&'a [u32]]],
    /// Rows whose logits are wanted, rising.
    pub output_rows: &'a [usize],
}

impl Batch<'_> {
    /// Number of rows.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.token_ids.len()
    }
}

/// Layers that look back equally far. They share block tables: a block is the keys and values of the same tokens in
/// all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvGroup {
    /// Positions that a row attends to, its own and those just before it; `None` for all.
    pub window: Option<usize>,
    /// Blocks of the group; their ids are below this.
    pub n_blocks: u32,
    /// Bytes of one block over all layers of the group.
    pub block_bytes: usize,
}

/// A loaded model with its weights, its KV tensors and its scratch memory.
pub trait Model: Send {
    /// Tokens in the vocabulary; the length of one row of logits.
    fn n_vocab(&self) -> usize;

    /// Rows that one call may hold at most.
    fn n_rows_max(&self) -> usize;

    /// Output rows that one call may hold at most.
    fn n_outputs_max(&self) -> usize;

    /// The groups of layers: the one without a window first, then rising windows.
    fn kv_groups(&self) -> &[KvGroup];

    /// Computes `batch` and writes the logits of its output rows to `logits`, `[output_rows.len(), n_vocab]`.
    ///
    /// # Errors
    /// [`StepError`] when something that the rows need cannot be read. `logits` mean nothing then, and neither do the
    /// keys and values at the positions of `batch`; all others are as before, and the same rows may be computed again.
    ///
    /// # Panics
    /// When the batch breaks what [`Batch`] says, or a length does not fit.
    fn forward(&mut self, batch: &Batch<'_>, logits: &mut [f32]) -> Result<(), StepError>;

    /// Does a few milliseconds of what can be done ahead while nobody waits. True while there is more.
    fn idle(&mut self) -> bool {
        false
    }

    /// What the expert store did so far; `None` for a model without experts.
    fn expert_statistics(&self) -> Option<StoreStatistics> {
        None
    }

    /// How often each expert was chosen, `[n_layers * n_experts]` with index `layer * n_experts + expert`; `None` for a
    /// model without experts.
    fn expert_usage(&self) -> Option<&[u64]> {
        None
    }

    /// Why experts are read in another way than was preferred, in a sentence; `None` when nothing was refused.
    fn io_fallback(&self) -> Option<&str> {
        None
    }

    /// Makes block `to` of a group the same as block `from`.
    ///
    /// # Panics
    /// When the group has no such block.
    fn copy_block(&mut self, group: usize, from: u32, to: u32);

    /// Reads a block of a group, `[block_bytes]`. What the bytes mean is the model's own.
    ///
    /// # Panics
    /// When the group has no such block, or the length is not that of a block.
    fn read_block(&self, group: usize, block: u32, out: &mut [u8]);

    /// Writes a block of a group from what [`Model::read_block`] gave for the same or another block of it.
    ///
    /// # Panics
    /// As [`Model::read_block`].
    fn write_block(&mut self, group: usize, block: u32, bytes: &[u8]);
}
