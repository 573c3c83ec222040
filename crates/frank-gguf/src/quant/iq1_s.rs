//! IQ1_S: blocks of 256 values in 8 groups of 32, each of 4 points of a ternary grid of 2048.
//!
//! 50 bytes: f16 `d`; a byte for each point with the lower 8 bits of its index; for each group a u16 with the upper 3
//! bits of its 4 points, a 3-bit factor, and at the top the sign of the shift, which is 1/8 or -1/8.
//! `value = d * (1 + 2 * factor) * (step + shift)`. Source: ggml `block_iq1_s`, `IQ1S_DELTA`, `dequantize_row_iq1_s`.

use super::grids::IQ1;
use super::{QuantType, blocks, f16_at};
use crate::layout::{TypeLayout, type_id};

const VALUES: usize = 256;
const BYTES: usize = 50;

pub(super) const QUANT: QuantType = QuantType {
    id: type_id::IQ1_S,
    layout: TypeLayout {
        name: "IQ1_S",
        values_per_block: VALUES as u64,
        bytes_per_block: BYTES as u64,
    },
    dequantize,
    quantize: None,
};

fn dequantize(bytes: &[u8], values: &mut [f32]) {
    for (block, row) in blocks::<BYTES, VALUES>(bytes, values) {
        let d = f16_at(block[0], block[1]);
        let (lowers, words) = block[2..].split_at(32);
        let (groups, _) = row.as_chunks_mut::<32>();
        let lowers = lowers.as_chunks::<4>().0;
        for ((group, lowers), word) in groups.iter_mut().zip(lowers).zip(words.as_chunks().0) {
            let word = u16::from_le_bytes(*word);
            let scale = d * f32::from(1 + 2 * (word >> 12 & 7));
            let shift = shift(word >> 15 != 0);
            let (points, _) = group.as_chunks_mut::<8>();
            for (place, (values, lower)) in points.iter_mut().zip(lowers).enumerate() {
                let upper = usize::from(word >> (3 * place) & 7);
                write_shifted(values, scale, usize::from(*lower) | upper << 8, shift);
            }
        }
    }
}

/// What is added to the steps of a point.
pub(super) fn shift(negative: bool) -> f32 {
    if negative { -0.125 } else { 0.125 }
}

/// Writes `scale * (step + shift)` for each step of a point of the ternary grid.
pub(super) fn write_shifted(values: &mut [f32; 8], scale: f32, point: usize, shift: f32) {
    for (value, step) in values.iter_mut().zip(&IQ1[point]) {
        *value = scale * (f32::from(*step) + shift);
    }
}
