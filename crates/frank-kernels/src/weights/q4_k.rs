//! Q4_K: blocks of 256 four-bit quants `q` with scales `d`, `dmin`; each 32 values have their own six-bit scale `sc` and
//! minimum `m`. A value is `d sc q - dmin m`.
//!
//! Both products of scales are exact in f32. Per 32 values, in order, as for Q4_1: `acc = fma((d sc) * s, Σ q a, acc)`,
//! then `acc = fma(-(dmin m), s * Σ a, acc)` for activations `a` of scale `s`.

use frank_gguf::type_id;

use super::interleaved::{Block, Interleaved, Parts, Quants, high_nibbles, low_nibbles};
use super::packed::PackedType;
use super::scaling::Shifted;
use super::{WeightKernel, interleaved};
use crate::lanes::Lanes;

pub(crate) const KERNEL: WeightKernel = interleaved::kernel::<Q4K>(type_id::Q4_K);

/// The word of quants after those of scales.
const QUANTS: usize = 3;

struct Q4K;

impl Interleaved for Q4K {
    /// Raw block: d, dmin (f16), three words of scales and minimums, then for each 64 values eight words whose low
    /// halves of bytes are the first 32 and whose high halves the other 32.
    const PACKED: PackedType = PackedType::with_f16s(256, 2, 35);
    const QUANTS: Quants = Quants::Unsigned { bits: 4, less: 0 };
    type Scaling = Shifted;

    #[inline(always)]
    fn unpack<L: Lanes>(lanes: L, weights: Block<'_>, parts: &mut impl Parts<L, Shifted>) {
        let scales = Scales::new(lanes, weights);
        for pair in 0..4 {
            let mut q: [L::Words; 8] = weights.words(lanes, QUANTS + 8 * pair);
            let mut high = q;
            for (q, high) in q.iter_mut().zip(&mut high) {
                *high = high_nibbles(lanes, *q);
                *q = low_nibbles(lanes, *q);
            }
            parts.add(lanes, 2 * pair, &q, scales.of(lanes, 2 * pair));
            parts.add(lanes, 2 * pair + 1, &high, scales.of(lanes, 2 * pair + 1));
        }
    }
}

/// Scales and minimums of the eight groups of a block, in words 0 to 2.
///
/// Bytes 0 to 3 and 4 to 7 hold scales and minimums of the first four groups in their lower six bits. Bytes 8 to 11 hold
/// the lower four bits of those of the others, whose upper two are the upper two of bytes 0 to 7.
pub(super) struct Scales<L: Lanes> {
    d: L::Floats,
    /// `-dmin`.
    less_dmin: L::Floats,
    /// Byte `i % 4` of word `i / 4` belongs to group `i`.
    scales: [L::Words; 2],
    minimums: [L::Words; 2],
}

impl<L: Lanes> Scales<L> {
    #[inline(always)]
    pub(super) fn new(lanes: L, weights: Block<'_>) -> Self {
        let [scales, minimums, rest] = weights.words(lanes, 0);
        let six_bits = lanes.splat_byte(0x3f);
        let upper = lanes.splat_byte(0x30);
        let last_scales =
            lanes.or(low_nibbles(lanes, rest), lanes.and(lanes.shr(scales, 2), upper));
        let last_minimums =
            lanes.or(high_nibbles(lanes, rest), lanes.and(lanes.shr(minimums, 2), upper));
        Self {
            d: weights.f16s(lanes, 0),
            less_dmin: lanes.mul(weights.f16s(lanes, 1), lanes.splat(-1.0)),
            scales: [lanes.and(scales, six_bits), last_scales],
            minimums: [lanes.and(minimums, six_bits), last_minimums],
        }
    }

    /// Scale and minimum of group `i`.
    #[inline(always)]
    pub(super) fn of(&self, lanes: L, i: usize) -> [L::Floats; 2] {
        let d = lanes.mul(self.d, byte(lanes, self.scales[i / 4], i % 4));
        let m = lanes.mul(self.less_dmin, byte(lanes, self.minimums[i / 4], i % 4));
        [d, m]
    }
}

/// Byte `i` of each word.
#[inline(always)]
fn byte<L: Lanes>(lanes: L, words: L::Words, i: usize) -> L::Floats {
    let shift = [0, 8, 16, 24][i];
    lanes.to_floats(lanes.and(lanes.shr(words, shift), lanes.splat_word(0xff)))
}
