//! IQ4_XS: blocks of 256 four-bit indices into the steps of IQ4_NL with a scale `d`; each 32 values have their own six-bit
//! scale `sc`. A value is `d (sc - 32) step`.
//!
//! The product of scales is exact in f32. Per 32 values, in order: `acc = fma((d (sc - 32)) * s, Σ step a, acc)` for
//! activations `a` of scale `s`.

use frank_gguf::type_id;

use super::interleaved::{Block, Interleaved, Parts, Quants};
use super::iq4_nl::{STEPS, looked_up};
use super::packed::PackedType;
use super::scaling::Scaled;
use super::{WeightKernel, interleaved};
use crate::lanes::Lanes;

pub(crate) const KERNEL: WeightKernel = interleaved::kernel::<Iq4Xs>(type_id::IQ4_XS);

struct Iq4Xs;

impl Interleaved for Iq4Xs {
    /// Raw block: d (f16), the upper two bits of all scales as 16 bits, a word of their lower four, then for each 32
    /// values the nibbles of IQ4_NL.
    const PACKED: PackedType = PackedType::with_f16s(256, 2, 33);
    const QUANTS: Quants = Quants::Signed;
    type Scaling = Scaled;

    #[inline(always)]
    fn unpack<L: Lanes>(lanes: L, weights: Block<'_>, parts: &mut impl Parts<L, Scaled>) {
        let d = weights.f16s(lanes, 0);
        let (mut lower, mut upper) = (weights.word(lanes, 0), weights.u16s(lanes, 1));
        for group in 0..8 {
            let scale = lanes.or(
                lanes.and(lower, lanes.splat_word(15)),
                lanes.and(lanes.shl(upper, 4), lanes.splat_word(0x30)),
            );
            (lower, upper) = (lanes.shr(lower, 4), lanes.shr(upper, 2));
            let scale = lanes.mul(d, less_32(lanes, scale));
            let q = looked_up(lanes, weights, 1 + 4 * group, &STEPS);
            parts.add(lanes, group, &q, [scale]);
        }
    }
}

/// Six-bit scales as the numbers from -32 to 31 that they stand for.
#[inline(always)]
pub(super) fn less_32<L: Lanes>(lanes: L, scales: L::Words) -> L::Floats {
    lanes.fma(lanes.to_floats(scales), lanes.splat(1.0), lanes.splat(-32.0))
}
