//! F16 weights: rows as they are in the file, widened exactly, dots in 16 lanes as for F32.

use half::f16;

use super::f32::padded;
use super::{GROUP_ROWS, Lanes};
use crate::cpu::{Isa, for_each_isa};
use crate::elementwise::{LANES, sum_lanes};

/// Dots of up to 16 weight rows with each row of `x`, `[out.len(), n_in]`.
pub(crate) fn dot(isa: Isa, weights: &[f16], x: &[f32], n_in: usize, out: &mut [Lanes]) {
    #[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
    if isa == Isa::Avx512Vnni && crate::cpu::isa() == Isa::Avx512Vnni {
        // SAFETY: `isa()` found AVX-512 on this CPU.
        return unsafe { avx512::dot(weights, x, n_in, out) };
    }
    dot_rows(isa, weights, x, n_in, out);
}

for_each_isa! {
    fn dot_rows(weights: &[f16], x: &[f32], n_in: usize, out: &mut [Lanes]) = dot_body
}

#[inline(always)]
fn dot_body(weights: &[f16], x: &[f32], n_in: usize, out: &mut [Lanes]) {
    for (x, out) in x.chunks_exact(n_in).zip(out) {
        *out = [0.0; GROUP_ROWS];
        for (w, out) in weights.chunks_exact(n_in).zip(out.iter_mut()) {
            *out = dot_row(w, x);
        }
    }
}

#[inline(always)]
fn dot_row(w: &[f16], x: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    for (w, x) in w.chunks(LANES).zip(x.chunks(LANES)) {
        let x = padded(x);
        for l in 0..LANES {
            let w = w.get(l).map_or(0.0, |w| w.to_f32());
            lanes[l] = w.mul_add(x[l], lanes[l]);
        }
    }
    sum_lanes(lanes)
}

#[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
mod avx512 {
    use std::arch::x86_64::{_mm512_fmadd_ps, _mm512_setzero_ps};

    use half::f16;

    use super::{GROUP_ROWS, LANES, Lanes, padded, sum_lanes};
    use crate::x86::{load_f16x16, load_f32x16, store_f32x16};

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
    pub(super) fn dot(weights: &[f16], x: &[f32], n_in: usize, out: &mut [Lanes]) {
        for (x, out) in x.chunks_exact(n_in).zip(out) {
            *out = [0.0; GROUP_ROWS];
            for (w, out) in weights.chunks_exact(n_in).zip(out.iter_mut()) {
                *out = dot_row(w, x);
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
    fn dot_row(w: &[f16], x: &[f32]) -> f32 {
        let mut acc = _mm512_setzero_ps();
        let (w, w_tail) = w.as_chunks::<LANES>();
        let (x, x_tail) = x.as_chunks::<LANES>();
        for (w, x) in w.iter().zip(x) {
            acc = _mm512_fmadd_ps(load_f16x16(bytemuck::cast_slice(w), 0), load_f32x16(x), acc);
        }
        if !w_tail.is_empty() {
            let mut w = [f16::ZERO; LANES];
            w[..w_tail.len()].copy_from_slice(w_tail);
            acc = _mm512_fmadd_ps(
                load_f16x16(bytemuck::cast_slice(&w), 0),
                load_f32x16(&padded(x_tail)),
                acc,
            );
        }
        let mut lanes = [0.0; LANES];
        store_f32x16(&mut lanes, acc);
        sum_lanes(lanes)
    }
}
