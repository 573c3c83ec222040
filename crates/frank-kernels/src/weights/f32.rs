//! F32 weights: rows as they are in the file, dots in 16 lanes.
//!
//! Lane `l` sums the products at `l, l + 16, …` by fused multiply-add in order, the last part of a row padded with
//! zeros; then the lanes are added in halves.

use super::{GROUP_ROWS, Lanes};
use crate::cpu::{Isa, for_each_isa};
use crate::elementwise::{LANES, sum_lanes};

/// Dots of up to 16 weight rows with each row of `x`, `[out.len(), n_in]`.
pub(crate) fn dot(isa: Isa, weights: &[f32], x: &[f32], n_in: usize, out: &mut [Lanes]) {
    dot_rows(isa, weights, x, n_in, out);
}

for_each_isa! {
    fn dot_rows(weights: &[f32], x: &[f32], n_in: usize, out: &mut [Lanes]) = dot_body
}

#[inline(always)]
fn dot_body(weights: &[f32], x: &[f32], n_in: usize, out: &mut [Lanes]) {
    for (x, out) in x.chunks_exact(n_in).zip(out) {
        *out = [0.0; GROUP_ROWS];
        for (w, out) in weights.chunks_exact(n_in).zip(out.iter_mut()) {
            *out = dot_row(w, x);
        }
    }
}

#[inline(always)]
fn dot_row(w: &[f32], x: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let (w, w_tail) = w.as_chunks::<LANES>();
    let (x, x_tail) = x.as_chunks::<LANES>();
    for (w, x) in w.iter().zip(x) {
        for l in 0..LANES {
            lanes[l] = w[l].mul_add(x[l], lanes[l]);
        }
    }
    if !w_tail.is_empty() {
        let (w, x) = (padded(w_tail), padded(x_tail));
        for l in 0..LANES {
            lanes[l] = w[l].mul_add(x[l], lanes[l]);
        }
    }
    sum_lanes(lanes)
}

/// The last part of a row, filled up with zeros.
#[inline(always)]
pub(crate) fn padded(tail: &[f32]) -> [f32; LANES] {
    let mut all = [0.0; LANES];
    all[..tail.len()].copy_from_slice(tail);
    all
}
