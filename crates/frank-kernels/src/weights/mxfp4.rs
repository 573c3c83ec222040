//! MXFP4: blocks of 32 four-bit floats (E2M1) with a power of two `2^(e - 127)` as their scale (E8M0).
//!
//! Values are doubled so that none has a fraction, and the scale is halved: both exact. Per block, in order:
//! `acc = fma(2^(e - 128) * s, Σ DOUBLED[q] a, acc)` for activations `a` of scale `s`.

use frank_gguf::type_id;

use super::interleaved::{Block, Interleaved, Parts, Quants};
use super::iq4_nl::looked_up;
use super::packed::{Order, PackedType};
use super::scaling::Scaled;
use super::{WeightKernel, interleaved};
use crate::lanes::Lanes;

pub(crate) const KERNEL: WeightKernel = interleaved::kernel::<Mxfp4>(type_id::MXFP4);

/// Twice the value of each E2M1.
const DOUBLED: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

struct Mxfp4;

impl Interleaved for Mxfp4 {
    /// Raw block: e (one byte), then floats as the nibbles of Q4_0.
    const PACKED: PackedType =
        PackedType { values: 32, words: 4, scales: 1, scale_bytes: 1, order: Order::ScalesFirst };
    const QUANTS: Quants = Quants::Signed;
    type Scaling = Scaled;

    #[inline(always)]
    fn unpack<L: Lanes>(lanes: L, weights: Block<'_>, parts: &mut impl Parts<L, Scaled>) {
        let (q, d) = (looked_up(lanes, weights, 0, &DOUBLED), weights.e8m0_halves(lanes));
        parts.add(lanes, 0, &q, [d]);
    }
}
