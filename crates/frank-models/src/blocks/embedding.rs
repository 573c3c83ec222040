//! The embedding of tokens: a row of the table for each, scaled where the family scales it.

use frank_kernels::scale;

use crate::error::ArchError;
use crate::weights::{MatrixId, WeightTable, Weights};

/// A table of embeddings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Embedding {
    pub(crate) matrix: MatrixId,
    /// Factor of every row.
    pub(crate) scale: Option<f32>,
}

impl Embedding {
    /// `token_embd.weight`, unscaled.
    pub(crate) fn place(
        table: &mut WeightTable<'_>,
        n_embd: usize,
        n_vocab: usize,
    ) -> Result<Self, ArchError> {
        Ok(Self { matrix: table.matrix("token_embd.weight", n_embd, n_vocab)?, scale: None })
    }

    /// Writes the embeddings of `token_ids` to `out`, `[n_rows, n_embd]`.
    pub(crate) fn look_up(&self, weights: &Weights, token_ids: &[u32], out: &mut [f32]) {
        let matrix = weights.matrix(self.matrix);
        let n_embd = out.len() / token_ids.len();
        for (&token_id, row) in token_ids.iter().zip(out.chunks_exact_mut(n_embd)) {
            matrix.row(token_id as usize, row);
        }
        if let Some(factor) = self.scale {
            scale(out, factor);
        }
    }
}
