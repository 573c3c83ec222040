//! Q2_K: blocks of 256 two-bit quants `q` with scales `d`, `dmin`; each 16 values have their own four-bit scale `sc` and
//! minimum `m`. A value is `d sc q - dmin m`.
//!
//! Per 32 values, in order: `acc = fma(d * s, t, acc)`, then `acc = fma(-(dmin * s), u, acc)` for activations `a` of scale
//! `s`, where `t = sc0 Σ q a + sc1 Σ q a` and `u = m0 Σ a + m1 Σ a`, one sum for each 16 values. `t` and `u` are exact:
//! at most `2 * 15 * 16 * 3 * 127` and `2 * 15 * 16 * 127` in size, below 2^24.

use frank_gguf::type_id;

use super::interleaved::{Block, Interleaved};
use super::packed::{Order, PackedType};
use super::{WeightKernel, interleaved};
use crate::activations::QuantBlock;
use crate::lanes::Lanes;

pub(crate) const KERNEL: WeightKernel = interleaved::kernel::<Q2K>(type_id::Q2_K);

/// The word of quants after those of scales.
const QUANTS: usize = 4;

struct Q2K;

impl Interleaved for Q2K {
    /// Raw block: for each 16 values a byte with its scale in the low and its minimum in the high half, as four words;
    /// for each half of 128 values eight words, of which group `i` of four has the bits at `2 i` of each byte; then d,
    /// dmin (f16).
    const PACKED: PackedType =
        PackedType { order: Order::WordsFirst, ..PackedType::with_f16s(256, 2, 20) };

    #[inline(always)]
    fn add_block<L: Lanes, const R: usize>(
        lanes: L,
        weights: Block<'_>,
        rows: &[&[QuantBlock]; R],
        acc: &mut [L::Floats; R],
    ) {
        let (d, dmin) = (weights.f16s(lanes, 0), weights.f16s(lanes, 1));
        for half in 0..2 {
            let mut bits: [L::Words; 8] = weights.words(lanes, QUANTS + 8 * half);
            for group in 0..4 {
                let mut q = bits;
                for (q, bits) in q.iter_mut().zip(&mut bits) {
                    *q = lanes.and(*q, lanes.splat_byte(3));
                    *bits = lanes.shr(*bits, 2);
                }
                let (q, _) = q.as_chunks::<4>();
                let scales = weights.word(lanes, 2 * half + group / 2);
                let scales = lanes.shr(scales, 16 * (group as u32 % 2));
                let (sc0, m0) = (four_bits(lanes, scales, 0), four_bits(lanes, scales, 4));
                let (sc1, m1) = (four_bits(lanes, scales, 8), four_bits(lanes, scales, 12));
                for (acc, row) in acc.iter_mut().zip(rows) {
                    let a = &row[4 * half + group];
                    let [(a0, sum0), (a1, sum1)] = a.halves();
                    let dot0 = lanes.dot_unsigned::<4, 4>(0, &q[0], a0);
                    let dot1 = lanes.dot_unsigned::<4, 4>(0, &q[1], a1);
                    let t = lanes.mul(sc0, lanes.to_floats(dot0));
                    let t = lanes.fma(sc1, lanes.to_floats(dot1), t);
                    let u = lanes.mul(m0, integer(lanes, sum0));
                    let u = lanes.fma(m1, integer(lanes, sum1), u);
                    let s = lanes.splat(a.scale);
                    *acc = lanes.fma(lanes.mul(d, s), t, *acc);
                    *acc = lanes.neg_fma(lanes.mul(dmin, s), u, *acc);
                }
            }
        }
    }
}

/// The four bits of each word from `shift` on.
#[inline(always)]
fn four_bits<L: Lanes>(lanes: L, words: L::Words, shift: u32) -> L::Floats {
    lanes.to_floats(lanes.and(lanes.shr(words, shift), lanes.splat_word(15)))
}

/// One integer below 2^24 in size in every lane.
#[inline(always)]
fn integer<L: Lanes>(lanes: L, n: i32) -> L::Floats {
    lanes.to_floats(lanes.splat_word(n.cast_unsigned()))
}
