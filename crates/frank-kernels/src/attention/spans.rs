//! One key head's cache of one sequence, span by span, for the query heads of a tile.

use std::ops::Range;

use super::blocks::{add_values, score_block};
use super::softmax::{Running, merge, merge_first, soften};
use super::{AttentionShape, HEADS_TOGETHER, SPAN};
use crate::cpu::Isa;
use crate::kv::{KV_BLOCK, KvLayer, KvType};

/// One key head's cache of one sequence, as far as a row sees it.
pub(super) struct HeadCache<'a> {
    pub(super) isa: Isa,
    pub(super) shape: &'a AttentionShape,
    pub(super) kv: KvLayer<'a>,
    pub(super) table: &'a [u32],
    pub(super) head_kv: usize,
    pub(super) positions: Range<usize>,
}

/// Query heads of one row that share the key head.
pub(super) struct Tile<'a> {
    /// `[n_heads, head_dim]`.
    pub(super) q: &'a [f32],
    /// `[n_heads]`.
    pub(super) sinks: Option<&'a [f32]>,
    /// `[n_heads, value_dim]`.
    pub(super) out: &'a mut [f32],
    /// Heads that take a turn together, [`HEADS_TOGETHER`] at most.
    pub(super) together: usize,
}

/// What a tile needs room for; what it held before does not matter.
pub(super) struct TileScratch<'a> {
    /// For each head of a turn.
    pub(super) weights: &'a mut [[f32; SPAN]; HEADS_TOGETHER],
    /// Outputs of the heads of a turn.
    pub(super) span_out: &'a mut [f32],
    /// `[n_heads]`.
    pub(super) running: &'a mut [Running],
}

impl HeadCache<'_> {
    /// Writes the tile's output.
    pub(super) fn attend(&self, tile: Tile<'_>, scratch: TileScratch<'_>) {
        let AttentionShape { head_dim, value_dim, .. } = *self.shape;
        let Tile { q, sinks, out, together } = tile;
        let TileScratch { weights, span_out, running } = scratch;
        running.fill(Running::NOTHING);
        for (running, &sink) in running.iter_mut().zip(sinks.unwrap_or_default()) {
            *running = Running::sink(sink);
        }
        let (n_heads, first_span) = (running.len(), self.positions.start / SPAN * SPAN);
        for span_first in (first_span..self.positions.end).step_by(SPAN) {
            // Chunks of slices would divide by their sizes, which takes as long as a few positions of a small head.
            let mut first = 0;
            while first < n_heads {
                let heads = first..n_heads.min(first + together);
                let q = &q[heads.start * head_dim..heads.end * head_dim];
                let out = &mut out[heads.start * value_dim..heads.end * value_dim];
                let weights = &mut weights[..heads.len()];
                if span_first == first_span {
                    self.first_span(span_first, q, weights, &mut running[heads], out);
                } else {
                    let outs = (out, &mut *span_out);
                    self.next_span(span_first, q, weights, &mut running[heads], outs);
                }
                first += together;
            }
        }
        for (head, running) in running.iter().enumerate() {
            let inverse = 1.0 / running.sum;
            out[head * value_dim..][..value_dim].iter_mut().for_each(|x| *x *= inverse);
        }
    }

    fn first_span(
        &self,
        span_first: usize,
        q: &[f32],
        weights: &mut [[f32; SPAN]],
        running: &mut [Running],
        out: &mut [f32],
    ) {
        let spans = self.attend_span(span_first, q, weights, out);
        let value_dim = self.shape.value_dim;
        for (head, (running, span)) in running.iter_mut().zip(spans).enumerate() {
            merge_first(self.isa, running, span, &mut out[head * value_dim..][..value_dim]);
        }
    }

    fn next_span(
        &self,
        span_first: usize,
        q: &[f32],
        weights: &mut [[f32; SPAN]],
        running: &mut [Running],
        (out, span_out): (&mut [f32], &mut [f32]),
    ) {
        let value_dim = self.shape.value_dim;
        let span_out = &mut span_out[..out.len()];
        let spans = self.attend_span(span_first, q, weights, span_out);
        let outs = out.chunks_exact_mut(value_dim).zip(span_out.chunks_exact(value_dim));
        for ((running, span), (out, span_out)) in running.iter_mut().zip(spans).zip(outs) {
            merge(self.isa, running, span, out, span_out);
        }
    }

    /// The output of one span for each head, not yet divided by the sum of its weights.
    fn attend_span(
        &self,
        span_first: usize,
        q: &[f32],
        weights: &mut [[f32; SPAN]],
        out: &mut [f32],
    ) -> [Running; HEADS_TOGETHER] {
        // Places of the span that the row attends to, and those of each block that holds some of them.
        let seen = self.positions.start.max(span_first) - span_first
            ..SPAN.min(self.positions.end - span_first);
        let blocks = seen.start / KV_BLOCK..seen.end.div_ceil(KV_BLOCK);
        for i in blocks.clone() {
            let KvLayer { k, k_type, .. } = self.kv;
            let k = self.head_block(k, k_type, self.shape.head_dim, span_first / KV_BLOCK + i);
            score_block(self.isa, k_type, q, k, weights, i * KV_BLOCK);
        }
        let mut span = [Running::NOTHING; HEADS_TOGETHER];
        for (weights, span) in weights.iter_mut().zip(&mut span) {
            soften(self.isa, weights, &seen, self.shape, span);
        }
        out.fill(0.0);
        for i in blocks {
            let first = seen.start.max(i * KV_BLOCK);
            let end = seen.end.min((i + 1) * KV_BLOCK);
            let KvLayer { v, v_type, .. } = self.kv;
            let v = self.head_block(v, v_type, self.shape.value_dim, span_first / KV_BLOCK + i);
            add_values(self.isa, v_type, v, weights, first..end, out);
        }
        span
    }

    /// This head's part of the sequence's block at `index`, of keys or of values with `dim` components.
    fn head_block<'b>(
        &self,
        bytes: &'b [u8],
        kv_type: KvType,
        dim: usize,
        index: usize,
    ) -> &'b [u8] {
        let head_bytes = kv_type.bytes(KV_BLOCK * dim);
        let head = self.table[index] as usize * self.shape.n_head_kv + self.head_kv;
        &bytes[head * head_bytes..][..head_bytes]
    }
}
