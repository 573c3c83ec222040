//! Scores and sums of a block of the cache in 512-bit registers, in the order of sums of the scalar bodies.

use std::arch::x86_64::{__m512, _mm512_fmadd_ps, _mm512_set1_ps, _mm512_setzero_ps};

use super::SPAN;
use crate::elementwise::LANES;
use crate::kv::{KV_BLOCK, KvType};
use crate::x86::{load_f16x16, load_f32_bytes, load_f32x16, store_f32x16};

/// 16 stored values from value `index` on.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn load<const F16: bool>(bytes: &[u8], index: usize) -> __m512 {
    if F16 { load_f16x16(bytes, 2 * index) } else { load_f32_bytes(bytes, 4 * index) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
pub(super) fn score_block(
    k_type: KvType,
    q: &[f32],
    k: &[u8],
    weights: &mut [[f32; SPAN]],
    first: usize,
) {
    match k_type {
        KvType::F16 => score_heads::<true>(q, k, weights, first),
        KvType::F32 => score_heads::<false>(q, k, weights, first),
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
fn score_heads<const F16: bool>(q: &[f32], k: &[u8], weights: &mut [[f32; SPAN]], first: usize) {
    match weights.len() {
        1 => score::<F16, 1>(q, k, weights, first),
        2 => score::<F16, 2>(q, k, weights, first),
        3 => score::<F16, 3>(q, k, weights, first),
        4 => score::<F16, 4>(q, k, weights, first),
        5 => score::<F16, 5>(q, k, weights, first),
        6 => score::<F16, 6>(q, k, weights, first),
        7 => score::<F16, 7>(q, k, weights, first),
        _ => score::<F16, 8>(q, k, weights, first),
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
fn score<const F16: bool, const H: usize>(
    q: &[f32],
    k: &[u8],
    weights: &mut [[f32; SPAN]],
    first: usize,
) {
    let head_dim = q.len() / H;
    let q: [&[f32]; H] = std::array::from_fn(|h| &q[h * head_dim..(h + 1) * head_dim]);
    let mut acc = [[_mm512_setzero_ps(); KV_BLOCK / LANES]; H];
    for d in 0..head_dim {
        let k = [load::<F16>(k, d * KV_BLOCK), load::<F16>(k, d * KV_BLOCK + LANES)];
        for (acc, q) in acc.iter_mut().zip(&q) {
            let q = _mm512_set1_ps(q[d]);
            acc[0] = _mm512_fmadd_ps(q, k[0], acc[0]);
            acc[1] = _mm512_fmadd_ps(q, k[1], acc[1]);
        }
    }
    for (weights, acc) in weights.iter_mut().zip(acc) {
        let (scores, _) = weights[first..first + KV_BLOCK].as_chunks_mut::<LANES>();
        for (scores, acc) in scores.iter_mut().zip(acc) {
            store_f32x16(scores, acc);
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
pub(super) fn add_values(
    v_type: KvType,
    v: &[u8],
    weights: &[[f32; SPAN]],
    first: usize,
    out: &mut [f32],
) {
    match v_type {
        KvType::F16 => add_heads::<true>(v, weights, first, out),
        KvType::F32 => add_heads::<false>(v, weights, first, out),
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
fn add_heads<const F16: bool>(v: &[u8], weights: &[[f32; SPAN]], first: usize, out: &mut [f32]) {
    let v = Values::<F16> { v, value_dim: out.len() / weights.len() };
    match weights.len() {
        1 => v.add::<1>(weights, first, out),
        2 => v.add::<2>(weights, first, out),
        3 => v.add::<3>(weights, first, out),
        4 => v.add::<4>(weights, first, out),
        5 => v.add::<5>(weights, first, out),
        6 => v.add::<6>(weights, first, out),
        7 => v.add::<7>(weights, first, out),
        _ => v.add::<8>(weights, first, out),
    }
}

/// The values of a block that a row attends to, `[n_valid, value_dim]`.
#[derive(Clone, Copy)]
struct Values<'a, const F16: bool> {
    v: &'a [u8],
    value_dim: usize,
}

impl<const F16: bool> Values<'_, F16> {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
    fn add<const H: usize>(self, weights: &[[f32; SPAN]], first: usize, out: &mut [f32]) {
        let n_valid = self.v.len() / if F16 { 2 } else { 4 } / self.value_dim;
        let weights: [&[f32]; H] = std::array::from_fn(|h| &weights[h][first..first + n_valid]);
        // As many columns at once as the sums of all heads leave registers for.
        let at_once = if H > 4 { 2 } else { 4 };
        for column in (0..self.value_dim).step_by(at_once * LANES) {
            match at_once.min((self.value_dim - column) / LANES) {
                1 => self.add_columns::<H, 1>(&weights, column, out),
                2 => self.add_columns::<H, 2>(&weights, column, out),
                3 => self.add_columns::<H, 3>(&weights, column, out),
                _ => self.add_columns::<H, 4>(&weights, column, out),
            }
        }
    }

    /// `16 C` columns from `column` on, each value widened once for all heads.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
    fn add_columns<const H: usize, const C: usize>(
        self,
        weights: &[&[f32]; H],
        column: usize,
        out: &mut [f32],
    ) {
        let mut acc = [[_mm512_setzero_ps(); C]; H];
        for (acc, out) in acc.iter_mut().zip(out.chunks_exact(self.value_dim)) {
            let (out, _) = out[column..].as_chunks();
            for (acc, out) in acc.iter_mut().zip(out) {
                *acc = load_f32x16(out);
            }
        }
        for slot in 0..weights[0].len() {
            let mut values = [_mm512_setzero_ps(); C];
            for (c, value) in values.iter_mut().enumerate() {
                *value = load::<F16>(self.v, slot * self.value_dim + column + c * LANES);
            }
            for (acc, weights) in acc.iter_mut().zip(weights) {
                let weight = _mm512_set1_ps(weights[slot]);
                for (acc, value) in acc.iter_mut().zip(values) {
                    *acc = _mm512_fmadd_ps(weight, value, *acc);
                }
            }
        }
        for (acc, out) in acc.iter().zip(out.chunks_exact_mut(self.value_dim)) {
            let (out, _) = out[column..].as_chunks_mut();
            for (acc, out) in acc.iter().zip(out) {
                store_f32x16(out, *acc);
            }
        }
    }
}
