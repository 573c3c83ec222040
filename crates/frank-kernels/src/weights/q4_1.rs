//! Q4_1: blocks of 32 four-bit quants `q` with a scale `d` and a minimum `m`; a value is `d q + m`.
//!
//! The dot of a block with 8-bit activations `a` of scale `s` is `d s * Σ q a + m * (s Σ a)`. Per block, in order:
//! `acc = fma(d * s, Σ q a, acc)`, then `acc = fma(m, s * Σ a, acc)`.

use half::f16;

use super::packed::PackedType;
use super::{GROUP_ROWS, Lanes};
use crate::activations::{QUANT_BLOCK, QuantRow};
use crate::cpu::{Isa, for_each_isa};

/// Raw block: d, m (f16), then byte `j` holds value `j` in its low and value `j + 16` in its high half.
pub(crate) const PACKED: PackedType =
    PackedType { raw_block_bytes: 20, quant_bytes: 16, n_scales: 2 };

const QUANT_BYTES: usize = GROUP_ROWS * 16;
const SCALE_BYTES: usize = GROUP_ROWS * 2 * 2;

/// Values of one block as it is in the file.
pub(crate) fn decode_block(raw: &[u8], out: &mut [f32]) {
    let d = f16::from_le_bytes([raw[0], raw[1]]).to_f32();
    let m = f16::from_le_bytes([raw[2], raw[3]]).to_f32();
    let (low, high) = out.split_at_mut(QUANT_BLOCK / 2);
    for ((q, low), high) in raw[4..20].iter().zip(low).zip(high) {
        *low = f32::from(q & 15) * d + m;
        *high = f32::from(q >> 4) * d + m;
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
            #[expect(clippy::cast_precision_loss, reason = "|Σ a| is at most 32 * 127")]
            let offset = s * row.sums[block] as f32;
            for (lane, acc) in out.iter_mut().enumerate() {
                let scale = |i: usize| f16::from_le_bytes([scales[i], scales[i + 1]]).to_f32();
                let (d, m) = (scale(2 * lane), scale(2 * (GROUP_ROWS + lane)));
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "at most 32 * 15 * 127, exact in f32"
                )]
                let sum = lane_sum(quants, lane, a) as f32;
                *acc = (d * s).mul_add(sum, *acc);
                *acc = m.mul_add(offset, *acc);
            }
        }
    }
}

#[inline(always)]
fn lane_sum(quants: &[u8; QUANT_BYTES], lane: usize, a: &[i8; QUANT_BLOCK]) -> i32 {
    let mut sum = 0;
    for i in 0..QUANT_BLOCK / 2 {
        let q = quants[(i / 4) * GROUP_ROWS * 4 + lane * 4 + i % 4];
        sum += i32::from(q & 15) * i32::from(a[i])
            + i32::from(q >> 4) * i32::from(a[i + QUANT_BLOCK / 2]);
    }
    sum
}

#[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
mod avx512 {
    use std::arch::x86_64::{
        __m512i, _mm512_and_si512, _mm512_cvtepi32_ps, _mm512_dpbusd_epi32, _mm512_fmadd_ps,
        _mm512_mul_ps, _mm512_set1_epi8, _mm512_set1_ps, _mm512_setzero_ps, _mm512_setzero_si512,
        _mm512_srli_epi16,
    };

    use super::{Lanes, PACKED, QUANT_BYTES, QuantRow, SCALE_BYTES};
    use crate::weights::tiles;
    use crate::x86::{broadcast_word, load_512, load_f16x16, store_f32x16};

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
    pub(super) fn dot(group: &[u8], rows: &[QuantRow<'_>], out: &mut [Lanes]) {
        tiles!(tile, group, rows, out);
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
    fn tile<const R: usize>(group: &[u8], rows: &[QuantRow<'_>; R], out: &mut [Lanes; R]) {
        let n_blocks = rows[0].quants.len();
        let (quants, scales) = PACKED.split(group, n_blocks);
        let (quants, _) = quants.as_chunks::<QUANT_BYTES>();
        let (scales, _) = scales.as_chunks::<SCALE_BYTES>();
        let mut acc = [_mm512_setzero_ps(); R];
        for (block, (quants, scales)) in quants.iter().zip(scales).enumerate() {
            let w = unpack(quants);
            let (d, m) = (load_f16x16(scales, 0), load_f16x16(scales, 32));
            for (acc, row) in acc.iter_mut().zip(rows) {
                let a = &row.quants[block];
                let mut sum = _mm512_setzero_si512();
                for (word, w) in w.iter().enumerate() {
                    sum = _mm512_dpbusd_epi32(sum, *w, broadcast_word(a, word));
                }
                let s = row.scales[block];
                #[expect(clippy::cast_precision_loss, reason = "|Σ a| is at most 32 * 127")]
                let offset = s * row.sums[block] as f32;
                *acc = _mm512_fmadd_ps(
                    _mm512_mul_ps(d, _mm512_set1_ps(s)),
                    _mm512_cvtepi32_ps(sum),
                    *acc,
                );
                *acc = _mm512_fmadd_ps(m, _mm512_set1_ps(offset), *acc);
            }
        }
        for (out, acc) in out.iter_mut().zip(acc) {
            store_f32x16(out, acc);
        }
    }

    /// Word `k` of the result holds values `4 k ..` of each row, as bytes.
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn unpack(quants: &[u8; QUANT_BYTES]) -> [__m512i; 8] {
        let nibble = _mm512_set1_epi8(15);
        let mut words = [_mm512_setzero_si512(); 8];
        for i in 0..4 {
            let q = load_512(quants, 64 * i);
            words[i] = _mm512_and_si512(q, nibble);
            words[i + 4] = _mm512_and_si512(_mm512_srli_epi16::<4>(q), nibble);
        }
        words
    }
}
