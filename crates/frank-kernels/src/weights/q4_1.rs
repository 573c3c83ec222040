//! Q4_1: blocks of 32 four-bit quants `q` with a scale `d` and a minimum `m`; a value is `d q + m`.
//!
//! The dot of a block with activations `a` of scale `s` is `d s * Σ q a + m * (s Σ a)`. Per block, in order:
//! `acc = fma(d * s, Σ q a, acc)`, then `acc = fma(m, s * Σ a, acc)`.

use frank_gguf::type_id;

use super::interleaved::{Block, Interleaved, add_scaled};
use super::packed::PackedType;
use super::{WeightKernel, interleaved};
use crate::activations::QuantBlock;
use crate::lanes::Lanes;

pub(crate) const KERNEL: WeightKernel = interleaved::kernel::<Q4_1>(type_id::Q4_1);

struct Q4_1;

impl Interleaved for Q4_1 {
    /// Raw block: d, m (f16), then byte `j` holds value `j` in its low and value `j + 16` in its high half.
    const PACKED: PackedType = PackedType::with_f16s(32, 2, 4);

    #[inline(always)]
    fn add_block<L: Lanes, const R: usize>(
        lanes: L,
        weights: Block<'_>,
        rows: &[&[QuantBlock]; R],
        acc: &mut [L::Floats; R],
    ) {
        let q = weights.nibbles(lanes, 0);
        let (d, m) = (weights.f16s(lanes, 0), weights.f16s(lanes, 1));
        for (acc, row) in acc.iter_mut().zip(rows) {
            let a = &row[0];
            let dot = lanes.dot_unsigned::<4, 8>(0, &q, &a.quants);
            add_scaled(lanes, acc, d, a.scale, dot);
            *acc = lanes.fma(m, lanes.splat(a.offset), *acc);
        }
    }
}
