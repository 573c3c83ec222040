//! Scores and sums over one block of the cache: plain bodies, and the choice of a hand-written form.

#[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
mod avx512;

use super::SPAN;
use crate::cpu::{Isa, for_each_isa};
use crate::kv::{KV_BLOCK, KvType, value};

/// Scores of one block of keys, `[head_dim, KV_BLOCK]`, for each head of `q`, to `weights[head][first ..]`.
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

/// Adds the values of one block, `[n_valid, value_dim]`, times their weights to `out`, `[n_heads, value_dim]`.
pub(super) fn add_values(
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
    let value_dim = out.len() / weights.len();
    let n_valid = v.len() / v_type.value_bytes() / value_dim;
    for (out, weights) in out.chunks_exact_mut(value_dim).zip(weights) {
        for (slot, weight) in weights[first..first + n_valid].iter().enumerate() {
            for (d, out) in out.iter_mut().enumerate() {
                *out = weight.mul_add(value(v_type, v, slot * value_dim + d), *out);
            }
        }
    }
}
