//! Q6_K: blocks of 256 six-bit quants `q` with a scale `d`; each 16 values have their own signed eight-bit scale `sc`.
//! A value is `d sc (q - 32)`.
//!
//! Per 32 values, in order: `acc = fma(d * s, t, acc)` for activations `a` of scale `s`, where
//! `t = sc0 Σ (q - 32) a + sc1 Σ (q - 32) a`, one sum for each 16 values. `t` is exact: it is at most
//! `2 * 128 * 16 * 32 * 127` in size, below 2^24.

use frank_gguf::type_id;

use super::interleaved::{Block, Interleaved, Parts, Quants, high_nibbles, low_nibbles};
use super::packed::{Order, PackedType};
use super::scaling::Halves;
use super::{WeightKernel, interleaved};
use crate::lanes::Lanes;

pub(crate) const KERNEL: WeightKernel = interleaved::kernel::<Q6K>(type_id::Q6_K);

/// The word of upper bits after those of lower bits.
const HIGH: usize = 32;
/// The word of scales after those of upper bits.
const SCALES: usize = 48;

struct Q6K;

impl Interleaved for Q6K {
    /// Raw block: for each half of 128 values 16 words of lower bits, then for each half 8 words of upper bits, then
    /// 16 scales as four words, then d (f16). Of the four groups of 32 in a half, group `i` has its lower bits in the
    /// first or second 8 words (`i` even or odd), in the low or high halves of bytes (`i` below 2 or not), and its
    /// upper bits at bit `2 i` of each byte.
    const PACKED: PackedType =
        PackedType { order: Order::WordsFirst, ..PackedType::with_f16s(256, 1, 52) };
    const QUANTS: Quants = Quants::Unsigned { bits: 6, less: 32 };
    type Scaling = Halves;

    #[inline(always)]
    fn unpack<L: Lanes>(lanes: L, weights: Block<'_>, parts: &mut impl Parts<L, Halves>) {
        let d = weights.f16s(lanes, 0);
        let upper = lanes.splat_byte(0x30);
        for half in 0..2 {
            let mut bits: [L::Words; 8] = weights.words(lanes, HIGH + 8 * half);
            let scales: [L::Words; 2] = weights.words(lanes, SCALES + 2 * half);
            for group in 0..4 {
                let mut q: [L::Words; 8] = weights.words(lanes, 16 * half + 8 * (group % 2));
                for (q, bits) in q.iter_mut().zip(&mut bits) {
                    let lower =
                        if group < 2 { low_nibbles(lanes, *q) } else { high_nibbles(lanes, *q) };
                    *q = lanes.or(lower, lanes.and(lanes.shl(*bits, 4), upper));
                    *bits = lanes.shr(*bits, 2);
                }
                let first = signed_byte(lanes, scales[group / 2], 2 * (group % 2));
                let second = signed_byte(lanes, scales[group / 2], 2 * (group % 2) + 1);
                parts.add(lanes, 4 * half + group, &q, [d, first, second]);
            }
        }
    }
}

/// Byte `i` of each word, signed.
#[inline(always)]
fn signed_byte<L: Lanes>(lanes: L, words: L::Words, i: usize) -> L::Floats {
    let shift = [24, 16, 8, 0][i];
    lanes.to_floats(lanes.shr_signed(lanes.shl(words, shift), 24))
}
