//! Grouped-query attention with rotary positions over a paged KV cache.

use frank_kernels::{AttentionShape, Queries, RopeTable, attention, rope_adjacent, store_kv};

use crate::blocks::Compute;
use crate::kv::KvTensors;
use crate::model::Batch;
use crate::weights::MatrixId;

/// Projections of one attention layer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttentionWeights {
    pub(crate) q: MatrixId,
    pub(crate) k: MatrixId,
    pub(crate) v: MatrixId,
    pub(crate) output: MatrixId,
}

/// Scratch of the block, one row for each row of the batch.
pub(crate) struct AttentionScratch<'a> {
    /// `[n_rows, n_head * head_dim]`.
    pub(crate) q: &'a mut [f32],
    /// `[n_rows, n_head_kv * head_dim]`.
    pub(crate) k: &'a mut [f32],
    /// As `k`.
    pub(crate) v: &'a mut [f32],
    /// As `q`.
    pub(crate) mixed: &'a mut [f32],
}

/// One attention layer of a step.
pub(crate) struct Attention<'a> {
    pub(crate) weights: AttentionWeights,
    pub(crate) shape: AttentionShape,
    pub(crate) layer: usize,
    pub(crate) rope: &'a RopeTable,
    pub(crate) batch: &'a Batch<'a>,
}

impl Attention<'_> {
    /// Writes the block's output for `x`, `[n_rows, n_embd]`, to `out` of the same shape, and the rows' keys and
    /// values to the cache.
    pub(crate) fn forward(
        &self,
        compute: &mut Compute<'_>,
        kv: &mut KvTensors,
        scratch: &mut AttentionScratch<'_>,
        x: &[f32],
        out: &mut [f32],
    ) {
        let AttentionScratch { q, k, v, mixed } = scratch;
        let n_embd = x.len() / self.batch.n_rows();
        let AttentionWeights { q: wq, k: wk, v: wv, output } = self.weights;
        compute.linear(x, n_embd, [(wq, q), (wk, k), (wv, v)]);
        rope_adjacent(q, self.shape.head_dim, self.rope);
        rope_adjacent(k, self.shape.head_dim, self.rope);
        self.store(kv, k, v);
        let Batch { positions, sequences, block_tables, .. } = *self.batch;
        let queries = Queries { q, positions, sequences, block_tables };
        attention(compute.pool, &self.shape, queries, kv.layer(self.layer), mixed);
        compute.linear(mixed, self.shape.n_head * self.shape.head_dim, [(output, out)]);
    }

    fn store(&self, kv: &mut KvTensors, k: &[f32], v: &[f32]) {
        let width = self.shape.n_head_kv * self.shape.head_dim;
        let mut layer = kv.layer_mut(self.layer);
        let rows = k.chunks_exact(width).zip(v.chunks_exact(width));
        for (row, (k, v)) in rows.enumerate() {
            let table = self.batch.block_tables[self.batch.sequences[row]];
            store_kv(&self.shape, &mut layer, table, self.batch.positions[row], k, v);
        }
    }
}
