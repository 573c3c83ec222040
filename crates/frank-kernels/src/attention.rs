//! Causal attention over the paged cache that `kv` lays out. Never writes to it.
//!
//! Order of sums, for each query head: positions are taken in spans of 256 absolute positions. A score is a chain of
//! fused multiply-adds over the head's components in order (a quantized one is its quant times its scale, which f32 holds
//! exactly), then times the scale, then capped where the layer has a
//! soft cap. A span's weights are `exp(score - max)`, summed in 16 lanes; its output is a chain of fused multiply-adds
//! over its positions in order. Spans are merged in order; a sink is a span before the first, of one weight of 1 whose
//! value is zero. A window leaves out what lies before it: whole spans and blocks are not read. Nothing depends on the
//! other rows and heads, or on which blocks hold the positions.

mod blocks;
mod softmax;
mod spans;
mod split;
#[cfg(test)]
mod tests;

use crate::attention::softmax::Running;
use crate::attention::spans::{HeadCache, Tile, TileScratch};
use crate::attention::split::{Split, TILE_HEADS_MAX};
use crate::cpu::{Isa, isa};
use crate::disjoint::Disjoint;
use crate::elementwise::LANES;
use crate::kv::{KV_BLOCK, KvLayer};
use crate::pool::Pool;

/// Positions whose weights share one maximum.
const SPAN: usize = 256;

/// Largest head, of keys as of values.
const HEAD_DIM_MAX: usize = 1024;

/// Query heads that read a block of the cache together, each with sums of its own in registers.
const HEADS_TOGETHER: usize = 8;

/// Values of outputs in a task's scratch: few, so that clearing them costs tasks of small heads nothing, or enough for
/// the largest.
const SMALL: usize = HEADS_TOGETHER * 128;
const LARGE: usize = HEADS_TOGETHER * HEAD_DIM_MAX;

/// Sizes of an attention layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttentionShape {
    /// Query heads; a multiple of `n_head_kv`.
    pub n_head: usize,
    /// Key and value heads.
    pub n_head_kv: usize,
    /// Components of a query and of a key head: a multiple of 16, at most 1024.
    pub head_dim: usize,
    /// Components of a value head and of a head's output, with the same bounds.
    pub value_dim: usize,
    /// Factor of the scores, usually `1 / sqrt(head_dim)`.
    pub scale: f32,
    /// Positions that a row attends to, its own and those just before it; `None` for all.
    pub window: Option<usize>,
    /// Soft cap of the scaled scores: `cap * tanh(score / cap)`.
    pub soft_cap: Option<f32>,
}

impl AttentionShape {
    /// Positions of one block of the cache.
    pub const BLOCK_TOKENS: usize = KV_BLOCK;

    /// Whether the kernels take this shape.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        let heads =
            self.n_head_kv > 0 && self.n_head > 0 && self.n_head.is_multiple_of(self.n_head_kv);
        heads
            && is_head(self.head_dim)
            && is_head(self.value_dim)
            && self.window != Some(0)
            && self.soft_cap.is_none_or(|cap| cap.is_finite() && cap > 0.0)
    }

    /// First position that the row at `position` attends to.
    fn first_position(&self, position: usize) -> usize {
        self.window.map_or(0, |window| (position + 1).saturating_sub(window))
    }
}

fn is_head(dim: usize) -> bool {
    dim > 0 && dim.is_multiple_of(LANES) && dim <= HEAD_DIM_MAX
}

/// Rows of queries: where each stands and which blocks its sequence has.
#[derive(Debug, Clone, Copy)]
pub struct Queries<'a> {
    /// `[n_rows, n_head, head_dim]`.
    pub q: &'a [f32],
    /// Position of each row; it attends to itself and all before.
    pub positions: &'a [u32],
    /// Index into `block_tables` of each row.
    pub sequences: &'a [usize],
    /// Blocks of each sequence.
    pub block_tables: &'a [&'a [u32]],
    /// `[n_head]`: a logit of each head that takes part in its softmax and has no value; neither scaled nor capped.
    pub sinks: Option<&'a [f32]>,
}

/// Attention of each query row over its sequence, written to `out`, `[n_rows, n_head, value_dim]`.
///
/// # Panics
/// When the shape is not supported or a length does not fit.
pub fn attention(
    pool: &mut Pool,
    shape: &AttentionShape,
    queries: Queries<'_>,
    kv: KvLayer<'_>,
    out: &mut [f32],
) {
    attention_with(isa(), pool, shape, queries, kv, out);
}

pub(crate) fn attention_with(
    isa: Isa,
    pool: &mut Pool,
    shape: &AttentionShape,
    queries: Queries<'_>,
    kv: KvLayer<'_>,
    out: &mut [f32],
) {
    assert!(shape.is_supported(), "{shape:?}");
    let AttentionShape { n_head, head_dim, value_dim, .. } = *shape;
    assert!(kv.k_type.takes_head(head_dim) && kv.v_type.takes_head(value_dim), "{shape:?}");
    let n_rows = queries.positions.len();
    assert_eq!(queries.q.len(), n_rows * n_head * head_dim, "{n_rows} rows, {shape:?}");
    assert_eq!(out.len(), n_rows * n_head * value_dim, "{n_rows} rows, {shape:?}");
    if let Some(sinks) = queries.sinks {
        assert_eq!(sinks.len(), n_head, "a sink for each head");
    }
    let split = Split::new(shape, n_rows, pool.n_threads());
    let job = Job { isa, shape, queries, kv, split, out: Disjoint::new(out) };
    pool.run(split.n_tasks(), &|task| job.run(task));
}

/// One call of [`attention`], as all threads see it.
struct Job<'a> {
    isa: Isa,
    shape: &'a AttentionShape,
    queries: Queries<'a>,
    kv: KvLayer<'a>,
    split: Split,
    /// `[n_rows, n_head, value_dim]`.
    out: Disjoint<'a, f32>,
}

impl Job<'_> {
    fn run(&self, task: usize) {
        if self.split.together * self.shape.value_dim <= SMALL {
            self.run_with::<SMALL>(task);
        } else {
            self.run_with::<LARGE>(task);
        }
    }

    /// Not inlined, so that no task's stack has room for both sizes of the scratch.
    #[inline(never)]
    fn run_with<const N: usize>(&self, task: usize) {
        let mut scratch = Scratch::<N>::new();
        let AttentionShape { n_head, head_dim, value_dim, .. } = *self.shape;
        let (head_kv, heads) = self.split.heads(task);
        let together = self.split.together;
        for row in self.split.rows(task) {
            let first = row * n_head + heads.start;
            let q = &self.queries.q[first * head_dim..][..heads.len() * head_dim];
            // SAFETY: each task writes the heads that it alone computes, row after row.
            let out = unsafe { self.out.range_mut(first * value_dim, heads.len() * value_dim) };
            let sinks = self.queries.sinks.map(|sinks| &sinks[heads.clone()]);
            let position = self.queries.positions[row] as usize;
            let cache = HeadCache {
                isa: self.isa,
                shape: self.shape,
                kv: self.kv,
                table: self.queries.block_tables[self.queries.sequences[row]],
                head_kv,
                positions: self.shape.first_position(position)..position + 1,
            };
            let scratch = TileScratch {
                weights: &mut scratch.weights,
                span_out: &mut scratch.span_out,
                running: &mut scratch.running[..heads.len()],
            };
            cache.attend(Tile { q, sinks, out, together }, scratch);
        }
    }
}

/// Scratch of a task on its stack, with room for `N` values of outputs.
struct Scratch<const N: usize> {
    weights: [[f32; SPAN]; HEADS_TOGETHER],
    span_out: [f32; N],
    running: [Running; TILE_HEADS_MAX],
}

impl<const N: usize> Scratch<N> {
    fn new() -> Self {
        Self {
            weights: [[0.0; SPAN]; HEADS_TOGETHER],
            span_out: [0.0; N],
            running: [Running::NOTHING; TILE_HEADS_MAX],
        }
    }
}
