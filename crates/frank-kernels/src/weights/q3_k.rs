//! Q3_K: blocks of 256 three-bit quants `q` with a scale `d`; each 16 values have their own six-bit scale `sc`. A value is
//! `d (sc - 32) (q - 4)`.
//!
//! Per 32 values, in order: `acc = fma(d * s, t, acc)` for activations `a` of scale `s`, where
//! `t = (sc0 - 32) Σ (q - 4) a + (sc1 - 32) Σ (q - 4) a`, one sum for each 16 values. `t` is exact: at most
//! `2 * 32 * 16 * 4 * 127` in size, below 2^24.

use frank_gguf::type_id;

use super::interleaved::{Block, Interleaved, Parts, Quants};
use super::iq4_xs::less_32;
use super::packed::{Order, PackedType};
use super::scaling::Halves;
use super::{WeightKernel, interleaved};
use crate::lanes::Lanes;

pub(crate) const KERNEL: WeightKernel = interleaved::kernel::<Q3K>(type_id::Q3_K);

/// The word of lower bits after those of upper bits.
const LOWER: usize = 8;
/// The word of scales after those of lower bits.
const SCALES: usize = 24;

struct Q3K;

impl Interleaved for Q3K {
    /// Raw block: eight words of upper bits, of which group `i` of eight has bit `i` of each byte; for each half of 128
    /// values eight words, of which group `i` of four has the two bits at `2 i` of each byte; scales as three words;
    /// then d (f16).
    const PACKED: PackedType =
        PackedType { order: Order::WordsFirst, ..PackedType::with_f16s(256, 1, 27) };
    const QUANTS: Quants = Quants::Unsigned { bits: 4, less: 4 };
    type Scaling = Halves;

    #[inline(always)]
    fn unpack<L: Lanes>(lanes: L, weights: Block<'_>, parts: &mut impl Parts<L, Halves>) {
        let d = weights.f16s(lanes, 0);
        let scales: [L::Words; 3] = weights.words(lanes, SCALES);
        let mut upper: [L::Words; 8] = weights.words(lanes, 0);
        for half in 0..2 {
            let mut lower: [L::Words; 8] = weights.words(lanes, LOWER + 8 * half);
            for group in 0..4 {
                let mut q = lower;
                for ((q, lower), upper) in q.iter_mut().zip(&mut lower).zip(&mut upper) {
                    let high = lanes.and(lanes.shl(*upper, 2), lanes.splat_byte(4));
                    *q = lanes.or(lanes.and(*q, lanes.splat_byte(3)), high);
                    (*lower, *upper) = (lanes.shr(*lower, 2), lanes.shr(*upper, 1));
                }
                let first = 8 * half + 2 * group;
                let (sc0, sc1) = (scale(lanes, &scales, first), scale(lanes, &scales, first + 1));
                parts.add(lanes, 4 * half + group, &q, [d, sc0, sc1]);
            }
        }
    }
}

/// Scale `i` of 16, less 32.
///
/// The lower four bits of scales 0 to 7 are the low halves of bytes 0 to 7, those of 8 to 15 the high halves; the upper
/// two bits of scale `i` are at `2 (i / 4)` of byte `8 + i % 4`.
#[inline(always)]
fn scale<L: Lanes>(lanes: L, scales: &[L::Words; 3], i: usize) -> L::Floats {
    let byte = 8 * (i as u32 % 4);
    let lower = lanes.shr(scales[i / 4 % 2], byte + 4 * (i as u32 / 8));
    let lower = lanes.and(lower, lanes.splat_word(15));
    let upper = lanes.shr(scales[2], byte + 2 * (i as u32 / 4));
    let upper = lanes.and(lanes.shl(upper, 4), lanes.splat_word(0x30));
    less_32(lanes, lanes.or(lower, upper))
}
