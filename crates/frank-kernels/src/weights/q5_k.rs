//! Q5_K: blocks of 256 five-bit quants `q` with scales `d`, `dmin`; each 32 values have their own six-bit scale `sc` and
//! minimum `m`. A value is `d sc q - dmin m`.
//!
//! Per 32 values, in order, as for Q4_K: `acc = fma((d sc) * s, Σ q a, acc)`, then `acc = fma(-(dmin m), s * Σ a, acc)`.

use frank_gguf::type_id;

use super::interleaved::{Block, Interleaved, Parts, Quants, high_nibbles, low_nibbles};
use super::packed::PackedType;
use super::q4_k::Scales;
use super::scaling::Shifted;
use super::{WeightKernel, interleaved};
use crate::lanes::Lanes;

pub(crate) const KERNEL: WeightKernel = interleaved::kernel::<Q5K>(type_id::Q5_K);

/// The word of fifth bits after those of scales.
const HIGH: usize = 3;
/// The word of lower bits after those of fifth bits.
const QUANTS: usize = 11;

struct Q5K;

impl Interleaved for Q5K {
    /// Raw block: the scales of Q4_K, 32 bytes of fifth bits, then the quants of Q4_K. Value `j` of group `i` has its
    /// fifth bit at bit `i` of byte `j`.
    const PACKED: PackedType = PackedType::with_f16s(256, 2, 43);
    const QUANTS: Quants = Quants::Unsigned { bits: 5, less: 0 };
    type Scaling = Shifted;

    #[inline(always)]
    fn unpack<L: Lanes>(lanes: L, weights: Block<'_>, parts: &mut impl Parts<L, Shifted>) {
        let scales = Scales::new(lanes, weights);
        let sixteen = lanes.splat_byte(16);
        for half in 0..2 {
            // Bits 0 to 3 move up to the place of a 16, bits 4 to 7 down: up they would leave the word.
            let mut bits: [L::Words; 8] = weights.words(lanes, HIGH);
            if half == 0 {
                for bits in &mut bits {
                    *bits = lanes.shl(*bits, 4);
                }
            }
            for pair in 2 * half..2 * half + 2 {
                let mut q: [L::Words; 8] = weights.words(lanes, QUANTS + 8 * pair);
                let mut high = q;
                for ((q, high), bits) in q.iter_mut().zip(&mut high).zip(&mut bits) {
                    let next = lanes.shr(*bits, 1);
                    *high = lanes.or(high_nibbles(lanes, *q), lanes.and(next, sixteen));
                    *q = lanes.or(low_nibbles(lanes, *q), lanes.and(*bits, sixteen));
                    *bits = lanes.shr(next, 1);
                }
                parts.add(lanes, 2 * pair, &q, scales.of(lanes, 2 * pair));
                parts.add(lanes, 2 * pair + 1, &high, scales.of(lanes, 2 * pair + 1));
            }
        }
    }
}
