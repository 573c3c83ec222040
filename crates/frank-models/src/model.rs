//! The border between a model and whoever batches requests: token rows in, logits out.

/// Rows of tokens to compute together. Row `r` is token `token_ids[r]` at `positions[r]` of the sequence whose
/// KV blocks are `block_tables[sequences[r]]`.
///
/// Rows of one sequence come in rising positions without a gap, and all earlier positions of that sequence
/// were computed by earlier calls. A row's result does not depend on its batch mates.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// Token of each row, below the vocabulary size.
    pub token_ids: &'a [u32],
    /// Position of each row in its sequence, from 0.
    pub positions: &'a [u32],
    /// Index into `block_tables` of each row.
    pub sequences: &'a [usize],
    /// KV blocks of each sequence: block `i` holds positions `i * KV_BLOCK_TOKENS ..`.
    pub block_tables: &'a [&'a [u32]],
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

/// A loaded model with its weights, its KV tensors and its scratch memory.
pub trait Model: Send {
    /// Tokens in the vocabulary; the length of one row of logits.
    fn n_vocab(&self) -> usize;

    /// Rows that one call may hold at most.
    fn n_rows_max(&self) -> usize;

    /// Output rows that one call may hold at most.
    fn n_outputs_max(&self) -> usize;

    /// Computes `batch` and writes the logits of its output rows to `logits`, `[output_rows.len(), n_vocab]`.
    ///
    /// # Panics
    /// When the batch breaks what [`Batch`] says, or a length does not fit.
    fn forward(&mut self, batch: &Batch<'_>, logits: &mut [f32]);
}
