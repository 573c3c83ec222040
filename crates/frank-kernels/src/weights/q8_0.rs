//! Q8_0: blocks of 32 eight-bit quants `q` with a scale `d`; a value is `d q`.
//!
//! Per block, in order: `acc = fma(d * s, Σ q a, acc)` for activations `a` of scale `s`.

use half::f16;

use super::packed::PackedType;
use super::{GROUP_ROWS, Lanes};
use crate::activations::{QUANT_BLOCK, QuantRow};
use crate::cpu::{Isa, for_each_isa};

/// Raw block: d (f16), then 32 signed bytes.
pub(crate) const PACKED: PackedType =
    PackedType { raw_block_bytes: 34, quant_bytes: 32, n_scales: 1 };

const QUANT_BYTES: usize = GROUP_ROWS * 32;
const SCALE_BYTES: usize = GROUP_ROWS * 2;

/// Values of one block as it is in the file.
pub(crate) fn decode_block(raw: &[u8], out: &mut [f32]) {
    let d = f16::from_le_bytes([raw[0], raw[1]]).to_f32();
    for (q, out) in raw[2..34].iter().zip(out) {
        *out = f32::from(q.cast_signed()) * d;
    }
}

/// Dots of a group's 16 rows with each of `rows`.
pub(crate) fn dot(isa: Isa, group: &[u8], rows: &[QuantRow<'_>], out: &mut [Lanes]) {
    #[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
    if isa == Isa::Avx512Vnni && crate::cpu::isa() == Isa::Avx512Vnni {
        // SAFETY: `isa()` found AVX-512 VNNI on this CPU.
        return unsafe { avx512::dot(group, rows, out) };
    }
    dot_plain(isa, group, rows, out);
}

for_each_isa! {
    fn dot_plain(group: &[u8], rows: &[QuantRow<'_>], out: &mut [Lanes]) = dot_body
}

#[inline(always)]
fn dot_body(group: &[u8], rows: &[QuantRow<'_>], out: &mut [Lanes]) {
    for (row, out) in rows.iter().zip(out) {
        *out = [0.0; GROUP_ROWS];
        let (quants, scales) = PACKED.split(group, row.quants.len());
        let (quants, _) = quants.as_chunks::<QUANT_BYTES>();
        let (scales, _) = scales.as_chunks::<SCALE_BYTES>();
        for (block, (quants, scales)) in quants.iter().zip(scales).enumerate() {
            let (a, s) = (&row.quants[block], row.scales[block]);
            for (lane, acc) in out.iter_mut().enumerate() {
                let d = f16::from_le_bytes([scales[2 * lane], scales[2 * lane + 1]]).to_f32();
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "at most 32 * 128 * 127, exact in f32"
                )]
                let sum = lane_sum(quants, lane, a) as f32;
                *acc = (d * s).mul_add(sum, *acc);
            }
        }
    }
}

#[inline(always)]
fn lane_sum(quants: &[u8; QUANT_BYTES], lane: usize, a: &[i8; QUANT_BLOCK]) -> i32 {
    let mut sum = 0;
    for (i, a) in a.iter().enumerate() {
        let q = quants[(i / 4) * GROUP_ROWS * 4 + lane * 4 + i % 4].cast_signed();
        sum += i32::from(q) * i32::from(*a);
    }
    sum
}

#[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
mod avx512 {
    use std::arch::x86_64::{
        _mm512_cvtepi32_ps, _mm512_dpbusd_epi32, _mm512_fmadd_ps, _mm512_mul_ps, _mm512_set1_epi8,
        _mm512_set1_epi32, _mm512_set1_ps, _mm512_setzero_ps, _mm512_setzero_si512,
        _mm512_xor_si512,
    };

    use super::{Lanes, PACKED, QUANT_BYTES, QuantRow, SCALE_BYTES};
    use crate::weights::tiles;
    use crate::x86::{broadcast_word, load_512, load_f16x16, store_f32x16};

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
    pub(super) fn dot(group: &[u8], rows: &[QuantRow<'_>], out: &mut [Lanes]) {
        tiles!(tile, group, rows, out);
    }

    /// The instruction multiplies unsigned by signed bytes, so weights are moved up by 128 (a flip of their sign
    /// bit) and `128 Σ a` is taken off again: exact in integers.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
    fn tile<const R: usize>(group: &[u8], rows: &[QuantRow<'_>; R], out: &mut [Lanes; R]) {
        let n_blocks = rows[0].quants.len();
        let (quants, scales) = PACKED.split(group, n_blocks);
        let (quants, _) = quants.as_chunks::<QUANT_BYTES>();
        let (scales, _) = scales.as_chunks::<SCALE_BYTES>();
        let sign = _mm512_set1_epi8(i8::MIN);
        let mut acc = [_mm512_setzero_ps(); R];
        for (block, (quants, scales)) in quants.iter().zip(scales).enumerate() {
            let mut w = [_mm512_setzero_si512(); 8];
            for (word, w) in w.iter_mut().enumerate() {
                *w = _mm512_xor_si512(load_512(quants, 64 * word), sign);
            }
            let d = load_f16x16(scales, 0);
            for (acc, row) in acc.iter_mut().zip(rows) {
                let a = &row.quants[block];
                let mut sum = _mm512_set1_epi32(-128 * row.sums[block]);
                for (word, w) in w.iter().enumerate() {
                    sum = _mm512_dpbusd_epi32(sum, *w, broadcast_word(a, word));
                }
                let scale = _mm512_mul_ps(d, _mm512_set1_ps(row.scales[block]));
                *acc = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(sum), *acc);
            }
        }
        for (out, acc) in out.iter_mut().zip(acc) {
            store_f32x16(out, acc);
        }
    }
}
