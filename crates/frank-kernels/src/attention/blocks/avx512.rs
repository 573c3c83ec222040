//! Scores and sums of a block of the cache in 512-bit registers, in the order of sums of the scalar bodies.

mod stored;

use std::arch::x86_64::{__m512, _mm512_fmadd_ps, _mm512_set1_ps, _mm512_setzero_ps};
use std::ops::Range;

use super::SPAN;
use crate::elementwise::LANES;
use crate::kv::tile::TILE;
use crate::kv::{KV_BLOCK, KvType};
use crate::x86::{load_f32x16, store_f32x16};
use stored::{F16, F32, Q4_0, Q8_0, Stored};

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
pub(super) fn score_block(
    k_type: KvType,
    q: &[f32],
    k: &[u8],
    weights: &mut [[f32; SPAN]],
    first: usize,
) {
    match k_type {
        KvType::F32 => score_heads::<F32>(q, k, weights, first),
        KvType::F16 => score_heads::<F16>(q, k, weights, first),
        KvType::Q8_0 => score_heads::<Q8_0>(q, k, weights, first),
        KvType::Q4_0 => score_heads::<Q4_0>(q, k, weights, first),
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
fn score_heads<const T: u8>(q: &[f32], k: &[u8], weights: &mut [[f32; SPAN]], first: usize) {
    let k = Stored::<T> { bytes: k };
    match weights.len() {
        1 => score::<T, 1>(q, k, weights, first),
        2 => score::<T, 2>(q, k, weights, first),
        3 => score::<T, 3>(q, k, weights, first),
        4 => score::<T, 4>(q, k, weights, first),
        5 => score::<T, 5>(q, k, weights, first),
        6 => score::<T, 6>(q, k, weights, first),
        7 => score::<T, 7>(q, k, weights, first),
        _ => score::<T, 8>(q, k, weights, first),
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
fn score<const T: u8, const H: usize>(
    q: &[f32],
    k: Stored<'_, T>,
    weights: &mut [[f32; SPAN]],
    first: usize,
) {
    let head_dim = q.len() / H;
    let q: [&[f32]; H] = std::array::from_fn(|h| &q[h * head_dim..(h + 1) * head_dim]);
    let mut acc = [[_mm512_setzero_ps(); KV_BLOCK / LANES]; H];
    for tile in (0..head_dim).step_by(TILE) {
        let scales = k.scales(tile / TILE);
        for d in tile..head_dim.min(tile + TILE) {
            let k = k.keys(d, scales);
            for (acc, q) in acc.iter_mut().zip(&q) {
                let q = _mm512_set1_ps(q[d]);
                acc[0] = _mm512_fmadd_ps(q, k[0], acc[0]);
                acc[1] = _mm512_fmadd_ps(q, k[1], acc[1]);
            }
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
    seen: Range<usize>,
    out: &mut [f32],
) {
    match v_type {
        KvType::F32 => add_heads::<F32>(v, weights, seen, out),
        KvType::F16 => add_heads::<F16>(v, weights, seen, out),
        KvType::Q8_0 => add_heads::<Q8_0>(v, weights, seen, out),
        KvType::Q4_0 => add_heads::<Q4_0>(v, weights, seen, out),
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
fn add_heads<const T: u8>(v: &[u8], weights: &[[f32; SPAN]], seen: Range<usize>, out: &mut [f32]) {
    let value_dim = out.len() / weights.len();
    let v = Values::<T> { v: Stored { bytes: v }, value_dim, first_slot: seen.start % KV_BLOCK };
    match weights.len() {
        1 => v.add::<1>(weights, seen, out),
        2 => v.add::<2>(weights, seen, out),
        3 => v.add::<3>(weights, seen, out),
        4 => v.add::<4>(weights, seen, out),
        5 => v.add::<5>(weights, seen, out),
        6 => v.add::<6>(weights, seen, out),
        7 => v.add::<7>(weights, seen, out),
        _ => v.add::<8>(weights, seen, out),
    }
}

/// The values of a block from `first_slot` on.
#[derive(Clone, Copy)]
struct Values<'a, const T: u8> {
    v: Stored<'a, T>,
    value_dim: usize,
    first_slot: usize,
}

impl<const T: u8> Values<'_, T> {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
    fn add<const H: usize>(self, weights: &[[f32; SPAN]], seen: Range<usize>, out: &mut [f32]) {
        let weights: [&[f32]; H] = std::array::from_fn(|h| &weights[h][seen.clone()]);
        // As many columns at once as the sums of all heads leave registers for. Tiles are two columns each.
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
        let scales = self.scales::<C>(column);
        for slot in 0..weights[0].len() {
            let values = self.columns::<C>(self.first_slot + slot, column, &scales);
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

    /// Scales of the tiles of `16 C` columns, where the type has tiles.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
    #[inline]
    fn scales<const C: usize>(self, column: usize) -> [[[f32; LANES]; 2]; 2] {
        let mut scales = [[[0.0; LANES]; 2]; 2];
        for (tile, scales) in (column / TILE..).zip(&mut scales[..C / 2]) {
            *scales = self.v.scale_values(tile);
        }
        scales
    }

    /// `16 C` columns of one position.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
    #[inline]
    fn columns<const C: usize>(
        self,
        slot: usize,
        column: usize,
        scales: &[[[f32; LANES]; 2]; 2],
    ) -> [__m512; C] {
        let mut values = [_mm512_setzero_ps(); C];
        if T == F32 || T == F16 {
            for (c, value) in values.iter_mut().enumerate() {
                *value = self.v.floats(slot * self.value_dim + column + c * LANES);
            }
            return values;
        }
        let tiles = values.as_chunks_mut::<2>().0.iter_mut().zip(scales);
        for (tile, (values, scales)) in (column / TILE..).zip(tiles) {
            *values = self.v.tile_values(tile, slot, scales.as_flattened()[slot]);
        }
        values
    }
}
