//! IQ4_NL: blocks of 32 values, `value = scale * STEPS[q]` with q in 0..=15.
//!
//! 18 bytes: f16 scale, then 16 bytes whose low halves are values 0-15 and high halves values 16-31.
//! Source: ggml `block_iq4_nl`, `kvalues_iq4nl`, `dequantize_row_iq4_nl`.

use super::{QuantType, blocks, f16_at};
use crate::layout::{TypeLayout, type_id};

const VALUES: usize = 32;
const BYTES: usize = 18;

pub(super) const QUANT: QuantType = QuantType {
    id: type_id::IQ4_NL,
    layout: TypeLayout {
        name: "IQ4_NL",
        values_per_block: VALUES as u64,
        bytes_per_block: BYTES as u64,
    },
    dequantize,
    quantize: None,
};

/// The uneven steps, closer to each other around zero.
pub(super) const STEPS: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

fn dequantize(bytes: &[u8], values: &mut [f32]) {
    for (block, row) in blocks::<BYTES, VALUES>(bytes, values) {
        let scale = f16_at(block[0], block[1]);
        let (low, high) = row.split_at_mut(VALUES / 2);
        for ((packed, low), high) in block[2..].iter().zip(low).zip(high) {
            *low = scale * f32::from(STEPS[usize::from(packed & 0xf)]);
            *high = scale * f32::from(STEPS[usize::from(packed >> 4)]);
        }
    }
}
