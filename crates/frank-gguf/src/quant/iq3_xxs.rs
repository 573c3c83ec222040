//! IQ3_XXS: blocks of 256 values in 8 groups of 32, each of 8 signed points of a grid of 256.
//!
//! 98 bytes: f16 `d`; a byte for each point that chooses it; for each group a u32 with 4 times 7 bits of signs, each
//! for 2 points, below a 4-bit factor. Group scale is `d * (factor + 1/2) / 2`. Source: ggml `block_iq3_xxs`,
//! `dequantize_row_iq3_xxs`.

use super::grids::{IQ3_XXS, even_signs, write_signed};
use super::{QuantType, blocks, f16_at};
use crate::layout::{TypeLayout, type_id};

const VALUES: usize = 256;
const BYTES: usize = 98;

pub(super) const QUANT: QuantType = QuantType {
    id: type_id::IQ3_XXS,
    layout: TypeLayout {
        name: "IQ3_XXS",
        values_per_block: VALUES as u64,
        bytes_per_block: BYTES as u64,
    },
    dequantize,
    quantize: None,
};

fn dequantize(bytes: &[u8], values: &mut [f32]) {
    for (block, row) in blocks::<BYTES, VALUES>(bytes, values) {
        let d = f16_at(block[0], block[1]);
        let (indices, words) = block[2..].split_at(64);
        let (groups, _) = row.as_chunks_mut::<32>();
        let indices = indices.as_chunks::<8>().0;
        for ((group, indices), word) in groups.iter_mut().zip(indices).zip(words.as_chunks().0) {
            let word = u32::from_le_bytes(*word);
            let scale = d * (0.5 + (word >> 28) as f32) * 0.5;
            let (points, _) = group.as_chunks_mut::<4>();
            for (place, (values, point)) in points.iter_mut().zip(indices).enumerate() {
                let signs = even_signs(word >> (7 * (place / 2))) >> (4 * (place % 2));
                write_signed(values, scale, &IQ3_XXS[usize::from(*point)], signs);
            }
        }
    }
}
