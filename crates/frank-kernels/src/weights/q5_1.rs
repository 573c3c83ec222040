//! Q5_1: blocks of 32 five-bit quants `q` with a scale `d` and a minimum `m`; a value is `d q + m`.
//!
//! Per block, in order, as for Q4_1: `acc = fma(d * s, Σ q a, acc)`, then `acc = fma(m, s * Σ a, acc)`.

use frank_gguf::type_id;

use super::interleaved::{Block, Interleaved, add_scaled};
use super::packed::PackedType;
use super::q5_0::five_bits;
use super::{WeightKernel, interleaved};
use crate::activations::QuantBlock;
use crate::lanes::Lanes;

pub(crate) const KERNEL: WeightKernel = interleaved::kernel::<Q5_1>(type_id::Q5_1);

struct Q5_1;

impl Interleaved for Q5_1 {
    /// Raw block: d, m (f16), the fifth bits of all values, then the nibbles of Q4_1.
    const PACKED: PackedType = PackedType::with_f16s(32, 2, 5);

    #[inline(always)]
    fn add_block<L: Lanes, const R: usize>(
        lanes: L,
        weights: Block<'_>,
        rows: &[&[QuantBlock]; R],
        acc: &mut [L::Floats; R],
    ) {
        let q = five_bits(lanes, weights);
        let (d, m) = (weights.f16s(lanes, 0), weights.f16s(lanes, 1));
        for (acc, row) in acc.iter_mut().zip(rows) {
            let a = &row[0];
            let dot = lanes.dot_unsigned::<5, 8>(0, &q, &a.quants);
            add_scaled(lanes, acc, d, a.scale, dot);
            *acc = lanes.fma(m, lanes.splat(a.offset), *acc);
        }
    }
}
