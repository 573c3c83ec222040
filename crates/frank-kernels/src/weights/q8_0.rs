//! Q8_0: blocks of 32 eight-bit quants `q` with a scale `d`; a value is `d q`.
//!
//! Per block, in order: `acc = fma(d * s, Σ q a, acc)` for activations `a` of scale `s`.

use frank_gguf::type_id;

use super::interleaved::{Block, Interleaved, Parts, Quants};
use super::packed::PackedType;
use super::scaling::Scaled;
use super::{WeightKernel, interleaved};
use crate::lanes::Lanes;

pub(crate) const KERNEL: WeightKernel = interleaved::kernel::<Q8_0>(type_id::Q8_0);

struct Q8_0;

impl Interleaved for Q8_0 {
    /// Raw block: d (f16), then 32 signed bytes.
    const PACKED: PackedType = PackedType::with_f16s(32, 1, 8);
    const QUANTS: Quants = Quants::Signed;
    type Scaling = Scaled;

    #[inline(always)]
    fn unpack<L: Lanes>(lanes: L, weights: Block<'_>, parts: &mut impl Parts<L, Scaled>) {
        let mut q: [L::Words; 8] = weights.words(lanes, 0);
        for q in &mut q {
            *q = lanes.signed(*q);
        }
        let d = weights.f16s(lanes, 0);
        parts.add(lanes, 0, &q, [d]);
    }
}
