//! Q5_0: blocks of 32 five-bit quants `q` with a scale `d`; a value is `d (q - 16)`.
//!
//! Per block, in order: `acc = fma(d * s, Σ (q - 16) a, acc)` for activations `a` of scale `s`.

use frank_gguf::type_id;

use super::interleaved::{Block, Interleaved, Parts, Quants};
use super::packed::PackedType;
use super::scaling::Scaled;
use super::{WeightKernel, interleaved};
use crate::lanes::Lanes;

pub(crate) const KERNEL: WeightKernel = interleaved::kernel::<Q5_0>(type_id::Q5_0);

struct Q5_0;

impl Interleaved for Q5_0 {
    /// Raw block: d (f16), the fifth bits of all values, then the nibbles of Q4_0.
    const PACKED: PackedType = PackedType::with_f16s(32, 1, 5);
    const QUANTS: Quants = Quants::Unsigned { bits: 5, less: 16 };
    type Scaling = Scaled;

    #[inline(always)]
    fn unpack<L: Lanes>(lanes: L, weights: Block<'_>, parts: &mut impl Parts<L, Scaled>) {
        let (q, d) = (five_bits(lanes, weights), weights.f16s(lanes, 0));
        parts.add(lanes, 0, &q, [d]);
    }
}

/// The quants of a block whose word 0 holds the fifth bits, that of value `i` at bit `i`, before four words of nibbles.
#[inline(always)]
pub(super) fn five_bits<L: Lanes>(lanes: L, weights: Block<'_>) -> [L::Words; 8] {
    // 16 at the sizes of single bits, so that bit `j` of byte `j` becomes the 16 of a five-bit quant.
    let sixteens = lanes.table(&[0, 16, 16, 0, 16, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0]);
    let one_each = lanes.splat_word(u32::from_le_bytes([1, 2, 4, 8]));
    let high = weights.word(lanes, 0);
    let mut q = weights.nibbles(lanes, 1);
    for (q, shift) in q.iter_mut().zip([0, 4, 8, 12, 16, 20, 24, 28]) {
        let bits = lanes.repeat_low_byte(lanes.shr(high, shift));
        *q = lanes.or(*q, lanes.lookup(sixteens, lanes.and(bits, one_each)));
    }
    q
}
