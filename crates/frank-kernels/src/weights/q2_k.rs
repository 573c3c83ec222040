//! Q2_K: blocks of 256 two-bit quants `q` with scales `d`, `dmin`; each 16 values have their own four-bit scale `sc` and
//! minimum `m`. A value is `d sc q - dmin m`.
//!
//! Per 32 values, in order: `acc = fma(d * s, t, acc)`, then `acc = fma(-(dmin * s), u, acc)` for activations `a` of scale
//! `s`, where `t = sc0 Σ q a + sc1 Σ q a` and `u = m0 Σ a + m1 Σ a`, one sum for each 16 values. `t` and `u` are exact:
//! at most `2 * 15 * 16 * 3 * 127` and `2 * 15 * 16 * 127` in size, below 2^24.

use frank_gguf::type_id;

use super::interleaved::{Block, Interleaved, Parts, Quants};
use super::packed::{Order, PackedType};
use super::scaling::ShiftedHalves;
use super::{WeightKernel, interleaved};
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
    const QUANTS: Quants = Quants::Unsigned { bits: 4, less: 0 };
    type Scaling = ShiftedHalves;

    #[inline(always)]
    fn unpack<L: Lanes>(lanes: L, weights: Block<'_>, parts: &mut impl Parts<L, ShiftedHalves>) {
        let d = weights.f16s(lanes, 0);
        let less_dmin = lanes.mul(weights.f16s(lanes, 1), lanes.splat(-1.0));
        for half in 0..2 {
            let mut bits: [L::Words; 8] = weights.words(lanes, QUANTS + 8 * half);
            for group in 0..4 {
                let mut q = bits;
                for (q, bits) in q.iter_mut().zip(&mut bits) {
                    *q = lanes.and(*q, lanes.splat_byte(3));
                    *bits = lanes.shr(*bits, 2);
                }
                let scales = weights.word(lanes, 2 * half + group / 2);
                let scales = lanes.shr(scales, 16 * (group as u32 % 2));
                let (sc0, m0) = (four_bits(lanes, scales, 0), four_bits(lanes, scales, 4));
                let (sc1, m1) = (four_bits(lanes, scales, 8), four_bits(lanes, scales, 12));
                parts.add(lanes, 4 * half + group, &q, [d, less_dmin, sc0, sc1, m0, m1]);
            }
        }
    }
}

/// The four bits of each word from `shift` on.
#[inline(always)]
fn four_bits<L: Lanes>(lanes: L, words: L::Words, shift: u32) -> L::Floats {
    lanes.to_floats(lanes.and(lanes.shr(words, shift), lanes.splat_word(15)))
}
