//! Grouped-query attention with rotary positions over a paged KV cache: with or without biases, norms of queries and
//! keys, sinks, a window and a soft cap.

use frank_kernels::{AttentionShape, Queries, attention, rms_norm_in_place, store_kv};

use crate::blocks::Compute;
use crate::blocks::linear::{Bias, Linear};
use crate::blocks::rope::Rope;
use crate::error::ArchError;
use crate::kv::KvTensors;
use crate::model::Batch;
use crate::shape::Shape;
use crate::weights::{VectorId, WeightTable};

/// A kind of attention: what a layer keeps of each token, and how it computes.
pub(crate) trait Attend {
    /// Keys and values as the cache holds them, with the layer's window.
    fn shape(&self) -> &AttentionShape;

    /// What the block's scratch has to hold.
    fn widths(&self) -> AttentionWidths;

    /// Which of the model's rotations the layer uses.
    fn rope(&self) -> usize;

    /// Writes the block's output for `x`, `[n_rows, n_embd]`, to `out` of the same shape, and the rows' keys and
    /// values to the cache. `rope` has the angles of the batch's rows.
    fn forward(
        &self,
        compute: &mut Compute<'_>,
        rows: (&Batch<'_>, &Rope),
        kv: &mut KvTensors,
        scratch: &mut AttentionScratch<'_>,
        x: &[f32],
        out: &mut [f32],
    );
}

/// Values of each column of [`AttentionScratch`] for one row of a step, and of what products read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AttentionWidths {
    pub(crate) q: usize,
    pub(crate) k: usize,
    pub(crate) v: usize,
    pub(crate) mixed: usize,
    pub(crate) latent: usize,
    pub(crate) heads: usize,
    pub(crate) rotated: usize,
    /// Values of a row that one job of products reads at most, where each input of a product is rounded up to whole
    /// blocks of 32.
    pub(crate) n_in: usize,
}

impl AttentionWidths {
    /// What both fit in.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            q: self.q.max(other.q),
            k: self.k.max(other.k),
            v: self.v.max(other.v),
            mixed: self.mixed.max(other.mixed),
            latent: self.latent.max(other.latent),
            heads: self.heads.max(other.heads),
            rotated: self.rotated.max(other.rotated),
            n_in: self.n_in.max(other.n_in),
        }
    }
}

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
    /// A logit for each head that takes part in its softmax.
    sinks: Option<VectorId>,
}

/// RMS norm of queries and keys before the rotation: of each head, or of the whole row, by the length of its weight.
#[derive(Debug, Clone, Copy)]
struct HeadNorms {
    q: VectorId,
    k: VectorId,
    epsilon: f32,
}

/// Scratch of the block, with a row for each row of the batch in the widths of [`AttentionWidths`]; longer columns are
/// those of another layer.
pub(crate) struct AttentionScratch<'a> {
    /// `[n_rows, n_head, head_dim]`.
    pub(crate) q: &'a mut [f32],
    /// `[n_rows, n_head_kv, head_dim]`.
    pub(crate) k: &'a mut [f32],
    /// `[n_rows, n_head_kv, value_dim]`.
    pub(crate) v: &'a mut [f32],
    /// `[n_rows, n_head, value_dim]`.
    pub(crate) mixed: &'a mut [f32],
    /// These three are for latent attention alone: latents of queries, `[n_rows, n_query_latent]`.
    pub(crate) latent: &'a mut [f32],
    /// Each head's rows together, `[n_head, n_rows, _]`.
    pub(crate) heads: &'a mut [f32],
    /// Rotary parts of queries, `[n_rows, n_head, n_rotary]`.
    pub(crate) rotated: &'a mut [f32],
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
        let AttentionShape { n_head, n_head_kv, head_dim, value_dim, .. } = shape;
        let mut linear = |part: &str, sizes, bias| {
            Linear::place(table, &format!("blk.{i}.attn_{part}"), sizes, bias)
        };
        Ok(Self {
            shape,
            rope: 0,
            layer: i,
            q: linear("q", (n_embd, n_head * head_dim), bias)?,
            k: linear("k", (n_embd, n_head_kv * head_dim), bias)?,
            v: linear("v", (n_embd, n_head_kv * value_dim), bias)?,
            output: linear("output", (n_head * value_dim, n_embd), output_bias)?,
            norms: None,
            sinks: None,
        })
    }

    /// The same layer with `blk.{i}.attn_{q,k}_norm`, one weight for each component of a head.
    pub(crate) fn with_head_norms(
        self,
        table: &mut WeightTable<'_>,
        epsilon: f32,
    ) -> Result<Self, ArchError> {
        let head_dim = self.shape.head_dim;
        self.with_norms(table, (head_dim, head_dim), epsilon)
    }

    /// As [`Attention::with_head_norms`], with one weight for each component of a whole row.
    pub(crate) fn with_row_norms(
        self,
        table: &mut WeightTable<'_>,
        epsilon: f32,
    ) -> Result<Self, ArchError> {
        let AttentionShape { n_head, n_head_kv, head_dim, .. } = self.shape;
        self.with_norms(table, (n_head * head_dim, n_head_kv * head_dim), epsilon)
    }

    fn with_norms(
        self,
        table: &mut WeightTable<'_>,
        (n_q, n_k): (usize, usize),
        epsilon: f32,
    ) -> Result<Self, ArchError> {
        let i = self.layer;
        let q = table.vector(&format!("blk.{i}.attn_q_norm.weight"), n_q)?;
        let k = table.vector(&format!("blk.{i}.attn_k_norm.weight"), n_k)?;
        Ok(Self { norms: Some(HeadNorms { q, k, epsilon }), ..self })
    }

    /// The same layer with `blk.{i}.attn_sinks`, one for each query head.
    pub(crate) fn with_sinks(self, table: &mut WeightTable<'_>) -> Result<Self, ArchError> {
        let name = format!("blk.{}.attn_sinks.weight", self.layer);
        Ok(Self { sinks: Some(table.vector(&name, self.shape.n_head)?), ..self })
    }

    fn store(&self, batch: &Batch<'_>, kv: &mut KvTensors, k: &[f32], v: &[f32]) {
        let AttentionShape { n_head_kv, head_dim, value_dim, .. } = self.shape;
        let tables = batch.block_tables[kv.group_of(self.layer)];
        let mut layer = kv.layer_mut(self.layer);
        let rows = k.chunks_exact(n_head_kv * head_dim).zip(v.chunks_exact(n_head_kv * value_dim));
        for (row, (k, v)) in rows.enumerate() {
            let table = tables[batch.sequences[row]];
            store_kv(&self.shape, &mut layer, table, batch.positions[row], k, v);
        }
    }
}

impl Attend for Attention {
    fn shape(&self) -> &AttentionShape {
        &self.shape
    }

    fn widths(&self) -> AttentionWidths {
        let AttentionShape { n_head, n_head_kv, head_dim, value_dim, .. } = self.shape;
        AttentionWidths {
            q: n_head * head_dim,
            k: n_head_kv * head_dim,
            v: n_head_kv * value_dim,
            mixed: n_head * value_dim,
            n_in: n_head * value_dim,
            ..AttentionWidths::default()
        }
    }

    fn rope(&self) -> usize {
        self.rope
    }

    fn forward(
        &self,
        compute: &mut Compute<'_>,
        (batch, rope): (&Batch<'_>, &Rope),
        kv: &mut KvTensors,
        scratch: &mut AttentionScratch<'_>,
        x: &[f32],
        out: &mut [f32],
    ) {
        let n_rows = batch.n_rows();
        let AttentionWidths { q, k, v, mixed, .. } = self.widths();
        let (q, k) = (&mut scratch.q[..n_rows * q], &mut scratch.k[..n_rows * k]);
        let (v, mixed) = (&mut scratch.v[..n_rows * v], &mut scratch.mixed[..n_rows * mixed]);
        let AttentionShape { head_dim, .. } = self.shape;
        let n_embd = x.len() / n_rows;
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
        let sinks = self.sinks.map(|sinks| compute.weights.vector(sinks));
        let queries = Queries { q, positions, sequences, block_tables, sinks };
        attention(compute.pool, &self.shape, queries, kv.layer(self.layer), mixed);
        compute.linear(mixed, mixed.len() / n_rows, [(self.output, out)]);
    }
}
