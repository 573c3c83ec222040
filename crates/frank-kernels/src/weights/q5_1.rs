//! Q5_1: blocks of 32 five-bit quants `q` with a scale `d` and a minimum `m`; a value is `d q + m`.
//!
//! Per block, in order, as for Q4_1: `acc = fma(d * s, Σ q a, acc)`, then `acc = fma(m, s * Σ a, acc)`.

use frank_gguf::type_id;

use super::interleaved::{Block, Interleaved, Parts, Quants};
use super::packed::PackedType;
use super::q5_0::five_bits;
use super::scaling::Shifted;
use super::{WeightKernel, interleaved};
use crate::lanes::Lanes;

pub(crate) const KERNEL: WeightKernel = interleaved::kernel::<Q5_1>(type_id::Q5_1);

struct Q5_1;

impl Interleaved for Q5_1 {
    /// Raw block: d, m (f16), the fifth bits of all values, then the nibbles of Q4_1.
    const PACKED: PackedType = PackedType::with_f16s(32, 2, 5);
    const QUANTS: Quants = Quants::Unsigned { bits: 5, less: 0 };
    type Scaling = Shifted;

    #[inline(always)]
    fn unpack<L: Lanes>(lanes: L, weights: Block<'_>, parts: &mut impl Parts<L, Shifted>) {
        let q = five_bits(lanes, weights);
        let (d, m) = (weights.f16s(lanes, 0), weights.f16s(lanes, 1));
        parts.add(lanes, 0, &q, [d, m]);
    }
}
