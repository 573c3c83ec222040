//! IQ2_XS: blocks of 256 values in 16 groups of 16, each of 2 signed points of a grid of 512.
//!
//! 74 bytes: f16 `d`; for each point a u16 with 9 bits that choose it below 7 bits of signs; 8 bytes with a 4-bit
//! factor for each group, the first in the low half. Group scale is `d * (factor + 1/2) / 4`. Source: ggml
//! `block_iq2_xs`, `dequantize_row_iq2_xs`.

use super::grids::{IQ2_XS, even_signs, write_signed};
use super::{QuantType, blocks, f16_at};
use crate::layout::{TypeLayout, type_id};

const VALUES: usize = 256;
const BYTES: usize = 74;

pub(super) const QUANT: QuantType = QuantType {
    id: type_id::IQ2_XS,
    layout: TypeLayout {
        name: "IQ2_XS",
        values_per_block: VALUES as u64,
        bytes_per_block: BYTES as u64,
    },
    dequantize,
    quantize: None,
};

fn dequantize(bytes: &[u8], values: &mut [f32]) {
    for (block, row) in blocks::<BYTES, VALUES>(bytes, values) {
        let d = f16_at(block[0], block[1]);
        let (words, factors) = block[2..].split_at(64);
        let (points, _) = row.as_chunks_mut::<8>();
        for (index, (values, word)) in points.iter_mut().zip(words.as_chunks().0).enumerate() {
            let factor = factors[index / 4] >> (4 * (index / 2 % 2)) & 0xf;
            let scale = d * (0.5 + f32::from(factor)) * 0.25;
            let word = u16::from_le_bytes(*word);
            let signs = even_signs(u32::from(word >> 9));
            write_signed(values, scale, &IQ2_XS[usize::from(word % 512)], signs);
        }
    }
}
