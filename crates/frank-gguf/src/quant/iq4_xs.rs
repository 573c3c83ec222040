//! IQ4_XS: blocks of 256 values in 8 groups of 32, `value = d * (factor - 32) * STEPS[q]` with the steps of IQ4_NL.
//!
//! 136 bytes: f16 `d`, u16 with the upper 2 bits of each group's factor, 4 bytes with their lower 4 bits (two in a
//! byte, the first in the low half), then 16 bytes for each group whose low halves are its first 16 values. Source:
//! ggml `block_iq4_xs`, `dequantize_row_iq4_xs`.

use super::iq4_nl::STEPS;
use super::{QuantType, blocks, f16_at};
use crate::layout::{TypeLayout, type_id};

const VALUES: usize = 256;
const BYTES: usize = 136;

pub(super) const QUANT: QuantType = QuantType {
    id: type_id::IQ4_XS,
    layout: TypeLayout {
        name: "IQ4_XS",
        values_per_block: VALUES as u64,
        bytes_per_block: BYTES as u64,
    },
    dequantize,
    quantize: None,
};

fn dequantize(bytes: &[u8], values: &mut [f32]) {
    for (block, row) in blocks::<BYTES, VALUES>(bytes, values) {
        let d = f16_at(block[0], block[1]);
        let uppers = u16::from_le_bytes([block[2], block[3]]);
        let (quants, _) = block[8..].as_chunks::<16>();
        let (groups, _) = row.as_chunks_mut::<32>();
        for (index, (group, quants)) in groups.iter_mut().zip(quants).enumerate() {
            let lower = block[4 + index / 2] >> (4 * (index % 2)) & 0xf;
            let upper = (uppers >> (2 * index)) as u8 & 3;
            let scale = d * (f32::from(lower | upper << 4) - 32.0);
            let (low, high) = group.split_at_mut(16);
            for ((packed, low), high) in quants.iter().zip(low).zip(high) {
                *low = scale * f32::from(STEPS[usize::from(packed & 0xf)]);
                *high = scale * f32::from(STEPS[usize::from(packed >> 4)]);
            }
        }
    }
}
