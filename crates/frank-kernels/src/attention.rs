//! Causal attention over the paged cache that `kv` lays out. Never writes to it.
//!
//! Order of sums, for each query head: positions are taken in spans of 256 absolute positions. A score is a chain of
//! fused multiply-adds over the head's components in order, then times the scale, then capped where the layer has a
//! soft cap. A span's weights are `exp(score - max)`, summed in 16 lanes; its output is a chain of fused multiply-adds
//! over its positions in order. Spans are merged in order. A window leaves out what lies before it: whole spans and
//! blocks are not read. Nothing depends on the other rows of the batch or on which blocks hold the positions.

#[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
mod avx512;
#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::cpu::{Isa, for_each_isa, isa};
use crate::disjoint::Disjoint;
use crate::elementwise::{LANES, sum_lanes};
use crate::exp::{exp, tanh};
use crate::kv::{KV_BLOCK, KvLayer, KvType, value};
use crate::pool::Pool;

/// Positions whose weights share one maximum.
const SPAN: usize = 256;

/// Largest head that a task's scratch holds.
const HEAD_DIM_MAX: usize = 512;

/// Query heads that read a block of keys together.
const HEAD_TILE: usize = 4;

/// Tasks per thread at least, where there are so many rows and heads.
const TASKS_PER_THREAD: usize = 16;

/// Rows of a task at most.
const TASK_ROWS_MAX: usize = 8;

/// Sizes of an attention layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttentionShape {
    /// Query heads; a multiple of `n_head_kv`.
    pub n_head: usize,
    /// Key and value heads.
    pub n_head_kv: usize,
    /// Components of a head: a multiple of 16, at most 512.
    pub head_dim: usize,
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
            && self.head_dim > 0
            && self.head_dim.is_multiple_of(LANES)
            && self.head_dim <= HEAD_DIM_MAX
            && self.window != Some(0)
            && self.soft_cap.is_none_or(|cap| cap.is_finite() && cap > 0.0)
    }

    /// First position that the row at `position` attends to.
    fn first_position(&self, position: usize) -> usize {
        self.window.map_or(0, |window| (position + 1).saturating_sub(window))
    }

    /// Values of one block of keys, and of one block of values.
    pub(crate) fn block_values(&self) -> usize {
        self.n_head_kv * self.head_block_values()
    }

    /// Those of one head.
    pub(crate) fn head_block_values(&self) -> usize {
        KV_BLOCK * self.head_dim
    }
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
}

/// Attention of each query row over its sequence, written to `out`, `[n_rows, n_head, head_dim]`.
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
    let row = shape.n_head * shape.head_dim;
    let n_rows = queries.positions.len();
    assert!(queries.q.len() == n_rows * row && out.len() == n_rows * row, "{n_rows} rows of {row}");
    let group = shape.n_head / shape.n_head_kv;
    // A tile is up to HEAD_TILE query heads of one row that share a key head; a task is one tile of several rows.
    let tiles = shape.n_head_kv * group.div_ceil(HEAD_TILE);
    let rows_per_task =
        (n_rows * tiles / (pool.n_threads() * TASKS_PER_THREAD)).clamp(1, TASK_ROWS_MAX);
    let out = Disjoint::new(out);
    let n_chunks = n_rows.div_ceil(rows_per_task);
    pool.run(n_chunks * tiles, &|task| {
        // Late rows of a prompt see more positions, so they come first.
        let chunk = n_chunks - 1 - task / tiles;
        let (head_kv, tile) = (task % tiles % shape.n_head_kv, task % tiles / shape.n_head_kv);
        let n_heads = HEAD_TILE.min(group - tile * HEAD_TILE);
        let first_head = head_kv * group + tile * HEAD_TILE;
        let mut scratch = Scratch::new();
        for row_index in chunk * rows_per_task..n_rows.min((chunk + 1) * rows_per_task) {
            let first = row_index * row + first_head * shape.head_dim;
            let q = &queries.q[first..][..n_heads * shape.head_dim];
            // SAFETY: each task writes the heads that it alone computes, row after row.
            let out = unsafe { out.range_mut(first, n_heads * shape.head_dim) };
            let table = queries.block_tables[queries.sequences[row_index]];
            let position = queries.positions[row_index] as usize;
            let positions = shape.first_position(position)..position + 1;
            let head = HeadCache { isa, shape, kv, table, head_kv, positions };
            head.attend(q, &mut scratch, out);
        }
    });
}

/// Scratch of a task.
struct Scratch {
    weights: SpanWeights,
    /// `[n_heads, head_dim]`.
    span_out: [f32; HEAD_TILE * HEAD_DIM_MAX],
}

impl Scratch {
    fn new() -> Self {
        Self { weights: [[0.0; SPAN]; HEAD_TILE], span_out: [0.0; HEAD_TILE * HEAD_DIM_MAX] }
    }
}

/// One key head's cache of one sequence, as far as a row sees it.
struct HeadCache<'a> {
    isa: Isa,
    shape: &'a AttentionShape,
    kv: KvLayer<'a>,
    table: &'a [u32],
    head_kv: usize,
    positions: Range<usize>,
}

/// Scores, then weights, of a span for each head of a tile.
type SpanWeights = [[f32; SPAN]; HEAD_TILE];

/// Maximum and sum of weights of what was merged so far.
#[derive(Clone, Copy)]
struct Running {
    max: f32,
    sum: f32,
}

impl HeadCache<'_> {
    /// `q` and `out` are `[n_heads, head_dim]` with at most [`HEAD_TILE`] heads.
    fn attend(&self, q: &[f32], scratch: &mut Scratch, out: &mut [f32]) {
        let head_dim = self.shape.head_dim;
        let n_heads = q.len() / head_dim;
        let Scratch { weights, span_out } = scratch;
        let (weights, span_out) = (&mut weights[..n_heads], &mut span_out[..q.len()]);
        let first_span = self.positions.start / SPAN * SPAN;
        // What comes before the first span weighs nothing, so that its output is the first output.
        let mut running = self.attend_span(first_span, q, weights, out);
        for span_first in (first_span + SPAN..self.positions.end).step_by(SPAN) {
            let span = self.attend_span(span_first, q, weights, span_out);
            let heads = out.chunks_exact_mut(head_dim).zip(span_out.chunks_exact(head_dim));
            for ((out, span_out), (running, span)) in heads.zip(running.iter_mut().zip(span)) {
                merge(self.isa, running, span, out, span_out);
            }
        }
        for (out, running) in out.chunks_exact_mut(head_dim).zip(running) {
            let inverse = 1.0 / running.sum;
            out.iter_mut().for_each(|x| *x *= inverse);
        }
    }

    /// The output of one span for each head, not yet divided by the sum of its weights.
    fn attend_span(
        &self,
        span_first: usize,
        q: &[f32],
        weights: &mut [[f32; SPAN]],
        out: &mut [f32],
    ) -> [Running; HEAD_TILE] {
        // Places of the span that the row attends to, and those of each block that holds some of them.
        let seen = self.positions.start.max(span_first) - span_first
            ..SPAN.min(self.positions.end - span_first);
        let blocks = seen.start / KV_BLOCK..seen.end.div_ceil(KV_BLOCK);
        for i in blocks.clone() {
            let k = self.head_block(self.kv.k, self.kv.k_type, span_first / KV_BLOCK + i);
            score_block(self.isa, self.kv.k_type, q, k, weights, i * KV_BLOCK);
        }
        let mut span = [Running { max: 0.0, sum: 0.0 }; HEAD_TILE];
        for (weights, span) in weights.iter_mut().zip(&mut span) {
            soften(self.isa, weights, &seen, self.shape, span);
        }
        out.fill(0.0);
        for i in blocks {
            let first = seen.start.max(i * KV_BLOCK);
            let n_seen = seen.end.min((i + 1) * KV_BLOCK) - first;
            let v_type = self.kv.v_type;
            let v = self.head_block(self.kv.v, v_type, span_first / KV_BLOCK + i);
            let row_bytes = self.shape.head_dim * v_type.value_bytes();
            let v = &v[(first - i * KV_BLOCK) * row_bytes..][..n_seen * row_bytes];
            add_values(self.isa, v_type, v, weights, first, out);
        }
        span
    }

    /// This head's part of the sequence's block at `index`.
    fn head_block<'b>(&self, bytes: &'b [u8], kv_type: KvType, index: usize) -> &'b [u8] {
        let values = self.shape.head_block_values();
        let first = self.table[index] as usize * self.shape.block_values() + self.head_kv * values;
        &bytes[first * kv_type.value_bytes()..][..values * kv_type.value_bytes()]
    }
}

/// Turns the scores of places `seen` into weights relative to their maximum.
///
/// Places beside them that share 16 lanes with them weigh nothing; whole lanes without a place are not read or written:
/// they would add zeros.
fn soften(
    isa: Isa,
    scores: &mut [f32; SPAN],
    seen: &Range<usize>,
    shape: &AttentionShape,
    span: &mut Running,
) {
    let scores = &mut scores[seen.start / LANES * LANES..seen.end.next_multiple_of(LANES)];
    let before = seen.start % LANES;
    let after = before + seen.len();
    scores[..before].fill(f32::NEG_INFINITY);
    scores[after..].fill(f32::NEG_INFINITY);
    let valid = &mut scores[before..after];
    match shape.soft_cap {
        None => scale_scores(isa, valid, shape.scale),
        Some(cap) => cap_scores(isa, valid, shape.scale, cap),
    }
    soften_span(isa, scores, span);
}

for_each_isa! {
    fn scale_scores(scores: &mut [f32], scale: f32) = scale_scores_body
}

#[inline(always)]
fn scale_scores_body(scores: &mut [f32], scale: f32) {
    scores.iter_mut().for_each(|score| *score *= scale);
}

for_each_isa! {
    fn cap_scores(scores: &mut [f32], scale: f32, cap: f32) = cap_scores_body
}

#[inline(always)]
fn cap_scores_body(scores: &mut [f32], scale: f32, cap: f32) {
    for score in scores {
        *score = cap * tanh(*score * scale / cap);
    }
}

for_each_isa! {
    fn soften_span(scores: &mut [f32], span: &mut Running) = soften_body
}

/// `scores` are whole lanes.
#[inline(always)]
fn soften_body(scores: &mut [f32], span: &mut Running) {
    let mut max_lanes = [f32::NEG_INFINITY; LANES];
    let (chunks, _) = scores.as_chunks_mut::<LANES>();
    for chunk in &*chunks {
        for l in 0..LANES {
            max_lanes[l] = max_lanes[l].max(chunk[l]);
        }
    }
    let max = max_lanes.into_iter().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = [0.0; LANES];
    for chunk in chunks {
        for l in 0..LANES {
            chunk[l] = exp(chunk[l] - max);
            sum[l] += chunk[l];
        }
    }
    *span = Running { max, sum: sum_lanes(sum) };
}

/// Joins a span to what came before: both are brought to the larger maximum.
fn merge(isa: Isa, running: &mut Running, span: Running, out: &mut [f32], span_out: &[f32]) {
    let max = running.max.max(span.max);
    let (old, new) = (exp(running.max - max), exp(span.max - max));
    running.sum = running.sum.mul_add(old, span.sum * new);
    running.max = max;
    merge_out(isa, out, span_out, old, new);
}

for_each_isa! {
    fn merge_out(out: &mut [f32], span_out: &[f32], old: f32, new: f32) = merge_out_body
}

#[inline(always)]
fn merge_out_body(out: &mut [f32], span_out: &[f32], old: f32, new: f32) {
    for (out, span_out) in out.iter_mut().zip(span_out) {
        *out = if old == 0.0 { span_out * new } else { out.mul_add(old, span_out * new) };
    }
}

/// Scores of one block of keys, `[head_dim, KV_BLOCK]`, for each head of `q`, to `weights[head][first ..]`.
fn score_block(
    isa: Isa,
    k_type: KvType,
    q: &[f32],
    k: &[u8],
    weights: &mut [[f32; SPAN]],
    first: usize,
) {
    #[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
    if isa.min(crate::cpu::isa()) >= Isa::Avx512Vnni {
        // SAFETY: `isa()` found AVX-512 on this CPU.
        return unsafe { avx512::score_block(k_type, q, k, weights, first) };
    }
    score_block_plain(isa, k_type, q, k, weights, first);
}

for_each_isa! {
    fn score_block_plain(k_type: KvType, q: &[f32], k: &[u8], weights: &mut [[f32; SPAN]], first: usize) = score_block_body
}

#[inline(always)]
fn score_block_body(
    k_type: KvType,
    q: &[f32],
    k: &[u8],
    weights: &mut [[f32; SPAN]],
    first: usize,
) {
    let head_dim = q.len() / weights.len();
    for (q, weights) in q.chunks_exact(head_dim).zip(weights) {
        let scores = &mut weights[first..first + KV_BLOCK];
        scores.fill(0.0);
        for (d, q) in q.iter().enumerate() {
            for (slot, score) in scores.iter_mut().enumerate() {
                *score = q.mul_add(value(k_type, k, d * KV_BLOCK + slot), *score);
            }
        }
    }
}

/// Adds the values of one block, `[n_valid, head_dim]`, times their weights to `out`, `[n_heads, head_dim]`.
fn add_values(
    isa: Isa,
    v_type: KvType,
    v: &[u8],
    weights: &[[f32; SPAN]],
    first: usize,
    out: &mut [f32],
) {
    #[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
    if isa.min(crate::cpu::isa()) >= Isa::Avx512Vnni {
        // SAFETY: `isa()` found AVX-512 on this CPU.
        return unsafe { avx512::add_values(v_type, v, weights, first, out) };
    }
    add_values_plain(isa, v_type, v, weights, first, out);
}

for_each_isa! {
    fn add_values_plain(v_type: KvType, v: &[u8], weights: &[[f32; SPAN]], first: usize, out: &mut [f32]) = add_values_body
}

#[inline(always)]
fn add_values_body(
    v_type: KvType,
    v: &[u8],
    weights: &[[f32; SPAN]],
    first: usize,
    out: &mut [f32],
) {
    let head_dim = out.len() / weights.len();
    let n_valid = v.len() / v_type.value_bytes() / head_dim;
    for (out, weights) in out.chunks_exact_mut(head_dim).zip(weights) {
        for (slot, weight) in weights[first..first + n_valid].iter().enumerate() {
            for (d, out) in out.iter_mut().enumerate() {
                *out = weight.mul_add(value(v_type, v, slot * head_dim + d), *out);
            }
        }
    }
}
