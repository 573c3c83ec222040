//! Scores and sums over one block of the cache: plain bodies, and the choice of a hand-written form.

#[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
mod avx512;

use std::ops::Range;

use super::SPAN;
use crate::cpu::{Isa, for_each_isa};
use crate::kv::tile::{TILE, TileType, scales};
use crate::kv::{KV_BLOCK, KvType, value};

/// Scores of one block of keys, as a head has it, for each head of `q`, to `weights[head][first ..]`.
pub(super) fn score_block(
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
    match TileType::of(k_type) {
        None => score_block_plain(isa, k_type == KvType::F16, q, k, weights, first),
        Some(tile_type) => score_tiles_plain(isa, tile_type, q, k, weights, first),
    }
}

for_each_isa! {
    fn score_block_plain(half: bool, q: &[f32], k: &[u8], weights: &mut [[f32; SPAN]], first: usize) = score_block_body
}

for_each_isa! {
    fn score_tiles_plain(tile_type: TileType, q: &[f32], k: &[u8], weights: &mut [[f32; SPAN]], first: usize) = score_tiles_body
}

/// Keys of floats are `[head_dim, KV_BLOCK]`.
#[inline(always)]
fn score_block_body(half: bool, q: &[f32], k: &[u8], weights: &mut [[f32; SPAN]], first: usize) {
    let head_dim = q.len() / weights.len();
    for (q, weights) in q.chunks_exact(head_dim).zip(weights) {
        let scores = &mut weights[first..first + KV_BLOCK];
        scores.fill(0.0);
        for (d, q) in q.iter().enumerate() {
            for (slot, score) in scores.iter_mut().enumerate() {
                *score = q.mul_add(value(half, k, d * KV_BLOCK + slot), *score);
            }
        }
    }
}

#[inline(always)]
fn score_tiles_body(
    tile_type: TileType,
    q: &[f32],
    k: &[u8],
    weights: &mut [[f32; SPAN]],
    first: usize,
) {
    let head_dim = q.len() / weights.len();
    for weights in &mut *weights {
        weights[first..first + KV_BLOCK].fill(0.0);
    }
    for (tile, d) in k.chunks_exact(tile_type.tile_bytes()).zip((0..head_dim).step_by(TILE)) {
        let scales = scales(tile);
        for line in 0..TILE {
            let mut keys = tile_type.line(tile, line);
            keys.iter_mut().zip(scales).for_each(|(key, scale)| *key *= scale);
            for (head, weights) in weights.iter_mut().enumerate() {
                let q = q[head * head_dim + d + line];
                for (score, key) in weights[first..first + KV_BLOCK].iter_mut().zip(keys) {
                    *score = q.mul_add(key, *score);
                }
            }
        }
    }
}

/// Adds the values of one block, as a head has it, of the places `seen` of the span, times their weights to `out`,
/// `[n_heads, value_dim]`.
pub(super) fn add_values(
    isa: Isa,
    v_type: KvType,
    v: &[u8],
    weights: &[[f32; SPAN]],
    seen: Range<usize>,
    out: &mut [f32],
) {
    #[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
    if isa.min(crate::cpu::isa()) >= Isa::Avx512Vnni {
        // SAFETY: `isa()` found AVX-512 on this CPU.
        return unsafe { avx512::add_values(v_type, v, weights, seen, out) };
    }
    match TileType::of(v_type) {
        None => add_values_plain(isa, v_type == KvType::F16, v, weights, seen, out),
        Some(tile_type) => add_tiles_plain(isa, tile_type, v, weights, seen, out),
    }
}

for_each_isa! {
    fn add_values_plain(half: bool, v: &[u8], weights: &[[f32; SPAN]], seen: Range<usize>, out: &mut [f32]) = add_values_body
}

for_each_isa! {
    fn add_tiles_plain(tile_type: TileType, v: &[u8], weights: &[[f32; SPAN]], seen: Range<usize>, out: &mut [f32]) = add_tiles_body
}

/// Values of floats are `[KV_BLOCK, value_dim]`.
#[inline(always)]
fn add_values_body(
    half: bool,
    v: &[u8],
    weights: &[[f32; SPAN]],
    seen: Range<usize>,
    out: &mut [f32],
) {
    let value_dim = out.len() / weights.len();
    for (out, weights) in out.chunks_exact_mut(value_dim).zip(weights) {
        for place in seen.clone() {
            let (slot, weight) = (place % KV_BLOCK, weights[place]);
            for (d, out) in out.iter_mut().enumerate() {
                *out = weight.mul_add(value(half, v, slot * value_dim + d), *out);
            }
        }
    }
}

#[inline(always)]
fn add_tiles_body(
    tile_type: TileType,
    v: &[u8],
    weights: &[[f32; SPAN]],
    seen: Range<usize>,
    out: &mut [f32],
) {
    let value_dim = out.len() / weights.len();
    for (tile, d) in v.chunks_exact(tile_type.tile_bytes()).zip((0..value_dim).step_by(TILE)) {
        let scales = scales(tile);
        for place in seen.clone() {
            let slot = place % KV_BLOCK;
            let values = tile_type.line(tile, slot).map(|quant| quant * scales[slot]);
            for (head, weights) in weights.iter().enumerate() {
                let weight = weights[place];
                for (out, value) in out[head * value_dim + d..][..TILE].iter_mut().zip(values) {
                    *out = weight.mul_add(value, *out);
                }
            }
        }
    }
}
