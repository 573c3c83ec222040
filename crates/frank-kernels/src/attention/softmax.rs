//! From the scores of a span to its weights, and the merging of spans, in an order that no instruction set changes.

use std::ops::Range;

use super::{AttentionShape, SPAN};
use crate::cpu::{Isa, for_each_isa};
use crate::elementwise::{LANES, sum_lanes};
use crate::exp::{exp, tanh};

/// Maximum and sum of weights of what was merged so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Running {
    pub(super) max: f32,
    pub(super) sum: f32,
}

impl Running {
    /// Before the first span.
    pub(super) const NOTHING: Self = Self { max: f32::NEG_INFINITY, sum: 0.0 };

    /// A sink before the first span: one weight, whose value is zero.
    pub(super) fn sink(logit: f32) -> Self {
        Self { max: logit, sum: 1.0 }
    }

    /// Takes a span in; gives the factors of the output so far and of the span's.
    #[inline(always)]
    fn join(&mut self, span: Self) -> (f32, f32) {
        let max = self.max.max(span.max);
        let (old, new) = (exp(self.max - max), exp(span.max - max));
        *self = Self { max, sum: self.sum.mul_add(old, span.sum * new) };
        (old, new)
    }
}

/// Turns the scores of places `seen` into weights relative to their maximum.
///
/// Places beside them that share 16 lanes with them weigh nothing; whole lanes without a place are not read or written:
/// they would add zeros.
pub(super) fn soften(
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

/// As [`merge`] for the first span, whose output `out` already is: what comes before it has none.
pub(super) fn merge_first(isa: Isa, running: &mut Running, span: Running, out: &mut [f32]) {
    if running.sum == 0.0 {
        *running = span;
    } else {
        merge_after_sink(isa, running, span, out);
    }
}

for_each_isa! {
    fn merge_after_sink(running: &mut Running, span: Running, out: &mut [f32]) = merge_after_sink_body
}

#[inline(always)]
fn merge_after_sink_body(running: &mut Running, span: Running, out: &mut [f32]) {
    let (_, new) = running.join(span);
    out.iter_mut().for_each(|x| *x *= new);
}

for_each_isa! {
    /// Joins a span to what came before: both are brought to the larger maximum.
    pub(super) fn merge(running: &mut Running, span: Running, out: &mut [f32], span_out: &[f32]) = merge_body
}

#[inline(always)]
fn merge_body(running: &mut Running, span: Running, out: &mut [f32], span_out: &[f32]) {
    let (old, new) = running.join(span);
    for (out, span_out) in out.iter_mut().zip(span_out) {
        *out = if old == 0.0 { span_out * new } else { out.mul_add(old, span_out * new) };
    }
}
