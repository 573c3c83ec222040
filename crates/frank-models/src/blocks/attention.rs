//! Grouped-query attention with rotary positions over a paged KV cache: with or without biases, norms of queries and
//! keys, a window and a soft cap.

use frank_kernels::{AttentionShape, Queries, attention, rms_norm_in_place, store_kv};

use crate::blocks::Compute;
use crate::blocks::linear::{Bias, Linear};
use crate::blocks::rope::Rope;
use crate::error::ArchError;
use crate::kv::KvTensors;
use crate::model::Batch;
use crate::shape::Shape;
use crate::weights::{VectorId, WeightTable};

/// One attention layer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attention {
    /// With the layer's window.
    pub(crate) shape: AttentionShape,
    /// Which of the model's rotations the layer uses.
    pub(crate) rope: usize,
    layer: usize,
    q: Linear,
    k: Linear,
    v: Linear,
    output: Linear,
    norms: Option<HeadNorms>,
}

/// RMS norm of each query and each key head before the rotation.
#[derive(Debug, Clone, Copy)]
struct HeadNorms {
    q: VectorId,
    k: VectorId,
    epsilon: f32,
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

impl Attention {
    /// `blk.{i}.attn_{q,k,v,output}`; `bias` says what is true of the first three and of the last.
    pub(crate) fn place(
        table: &mut WeightTable<'_>,
        sizes: &Shape,
        i: usize,
        (bias, output_bias): (Bias, Bias),
    ) -> Result<Self, ArchError> {
        let Shape { n_embd, attention: shape, .. } = *sizes;
        let (n_q, n_kv) = (shape.n_head * shape.head_dim, shape.n_head_kv * shape.head_dim);
        let mut linear = |part: &str, sizes, bias| {
            Linear::place(table, &format!("blk.{i}.attn_{part}"), sizes, bias)
        };
        Ok(Self {
            shape,
            rope: 0,
            layer: i,
            q: linear("q", (n_embd, n_q), bias)?,
            k: linear("k", (n_embd, n_kv), bias)?,
            v: linear("v", (n_embd, n_kv), bias)?,
            output: linear("output", (n_q, n_embd), output_bias)?,
            norms: None,
        })
    }

    /// The same layer with `blk.{i}.attn_{q,k}_norm`, one weight for each component of a head.
    pub(crate) fn with_head_norms(
        self,
        table: &mut WeightTable<'_>,
        epsilon: f32,
    ) -> Result<Self, ArchError> {
        let (i, head_dim) = (self.layer, self.shape.head_dim);
        let q = table.vector(&format!("blk.{i}.attn_q_norm.weight"), head_dim)?;
        let k = table.vector(&format!("blk.{i}.attn_k_norm.weight"), head_dim)?;
        Ok(Self { norms: Some(HeadNorms { q, k, epsilon }), ..self })
    }

    /// Writes the block's output for `x`, `[n_rows, n_embd]`, to `out` of the same shape, and the rows' keys and
    /// values to the cache. `rope` has the angles of the batch's rows.
    pub(crate) fn forward(
        &self,
        compute: &mut Compute<'_>,
        (batch, rope): (&Batch<'_>, &Rope),
        kv: &mut KvTensors,
        scratch: &mut AttentionScratch<'_>,
        x: &[f32],
        out: &mut [f32],
    ) {
        let AttentionScratch { q, k, v, mixed } = scratch;
        let AttentionShape { n_head, head_dim, .. } = self.shape;
        let n_embd = x.len() / batch.n_rows();
        compute.linear(x, n_embd, [(self.q, &mut *q), (self.k, &mut *k), (self.v, &mut *v)]);
        if let Some(norms) = self.norms {
            rms_norm_in_place(compute.pool, q, compute.weights.vector(norms.q), norms.epsilon);
            rms_norm_in_place(compute.pool, k, compute.weights.vector(norms.k), norms.epsilon);
        }
        rope.rotate(compute.pool, q, head_dim);
        rope.rotate(compute.pool, k, head_dim);
        self.store(batch, kv, k, v);
        let Batch { positions, sequences, .. } = *batch;
        let block_tables = batch.block_tables[kv.group_of(self.layer)];
        let queries = Queries { q, positions, sequences, block_tables };
        attention(compute.pool, &self.shape, queries, kv.layer(self.layer), mixed);
        compute.linear(mixed, n_head * head_dim, [(self.output, out)]);
    }

    fn store(&self, batch: &Batch<'_>, kv: &mut KvTensors, k: &[f32], v: &[f32]) {
        let width = self.shape.n_head_kv * self.shape.head_dim;
        let tables = batch.block_tables[kv.group_of(self.layer)];
        let mut layer = kv.layer_mut(self.layer);
        let rows = k.chunks_exact(width).zip(v.chunks_exact(width));
        for (row, (k, v)) in rows.enumerate() {
            let table = tables[batch.sequences[row]];
            store_kv(&self.shape, &mut layer, table, batch.positions[row], k, v);
        }
    }
}
