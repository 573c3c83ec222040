//! Q4_1: blocks of 32 four-bit quants `q` with a scale `d` and a minimum `m`; a value is `d q + m`.
//!
//! The dot of a block with activations `a` of scale `s` is `d s * Σ q a + m * (s Σ a)`. Per block, in order:
//! `acc = fma(d * s, Σ q a, acc)`, then `acc = fma(m, s * Σ a, acc)`.

use frank_gguf::type_id;

use super::interleaved::{Block, Interleaved, Parts, Quants};
use super::packed::PackedType;
use super::scaling::Shifted;
use super::{WeightKernel, interleaved};
use crate::lanes::Lanes;

pub(crate) const KERNEL: WeightKernel = interleaved::kernel::<Q4_1>(type_id::Q4_1);

struct Q4_1;

impl Interleaved for Q4_1 {
    /// Raw block: d, m (f16), then byte `j` holds value `j` in its low and value `j + 16` in its high half.
    const PACKED: PackedType = PackedType::with_f16s(32, 2, 4);
    const QUANTS: Quants = Quants::Unsigned { bits: 4, less: 0 };
    type Scaling = Shifted;

    #[inline(always)]
    fn unpack<L: Lanes>(lanes: L, weights: Block<'_>, parts: &mut impl Parts<L, Shifted>) {
        let q = weights.nibbles(lanes, 0);
        let (d, m) = (weights.f16s(lanes, 0), weights.f16s(lanes, 1));
        parts.add(lanes, 0, &q, [d, m]);
    }
}
