//! IQ4_NL: blocks of 32 four-bit indices into 16 uneven steps, with a scale `d`; a value is `d STEPS[q]`.
//!
//! Per block, in order: `acc = fma(d * s, Σ STEPS[q] a, acc)` for activations `a` of scale `s`.

use frank_gguf::type_id;

use super::interleaved::{Block, Interleaved, Parts, Quants};
use super::packed::PackedType;
use super::scaling::Scaled;
use super::{WeightKernel, interleaved};
use crate::lanes::Lanes;

pub(crate) const KERNEL: WeightKernel = interleaved::kernel::<Iq4Nl>(type_id::IQ4_NL);

/// Source: ggml `kvalues_iq4nl`.
pub(super) const STEPS: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

struct Iq4Nl;

impl Interleaved for Iq4Nl {
    /// Raw block: d (f16), then indices as the nibbles of Q4_0.
    const PACKED: PackedType = PackedType::with_f16s(32, 1, 4);
    const QUANTS: Quants = Quants::Signed;
    type Scaling = Scaled;

    #[inline(always)]
    fn unpack<L: Lanes>(lanes: L, weights: Block<'_>, parts: &mut impl Parts<L, Scaled>) {
        let (q, d) = (looked_up(lanes, weights, 0, &STEPS), weights.f16s(lanes, 0));
        parts.add(lanes, 0, &q, [d]);
    }
}

/// The entries of `table` for the nibbles of words `first .. first + 4`, ready for [`Lanes::dot_signed`].
#[inline(always)]
pub(super) fn looked_up<L: Lanes>(
    lanes: L,
    weights: Block<'_>,
    first: usize,
    table: &[i8; 16],
) -> [L::Words; 8] {
    let table = lanes.signed(lanes.table(bytemuck::cast_ref(table)));
    let mut q = weights.nibbles(lanes, first);
    for q in &mut q {
        *q = lanes.lookup(table, *q);
    }
    q
}
