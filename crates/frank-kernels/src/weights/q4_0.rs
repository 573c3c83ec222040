//! Q4_0: blocks of 32 four-bit quants `q` with a scale `d`; a value is `d (q - 8)`.
//!
//! Per block, in order: `acc = fma(d * s, Σ (q - 8) a, acc)` for activations `a` of scale `s`.

use frank_gguf::type_id;

use super::interleaved::{Block, Interleaved, Parts, Quants};
use super::packed::PackedType;
use super::scaling::Scaled;
use super::{WeightKernel, interleaved};
use crate::lanes::Lanes;

pub(crate) const KERNEL: WeightKernel = interleaved::kernel::<Q4_0>(type_id::Q4_0);

struct Q4_0;

impl Interleaved for Q4_0 {
    /// Raw block: d (f16), then byte `j` holds value `j` in its low and value `j + 16` in its high half.
    const PACKED: PackedType = PackedType::with_f16s(32, 1, 4);
    const QUANTS: Quants = Quants::Unsigned { bits: 4, less: 8 };
    type Scaling = Scaled;

    #[inline(always)]
    fn unpack<L: Lanes>(lanes: L, weights: Block<'_>, parts: &mut impl Parts<L, Scaled>) {
        let (q, d) = (weights.nibbles(lanes, 0), weights.f16s(lanes, 0));
        parts.add(lanes, 0, &q, [d]);
    }
}
