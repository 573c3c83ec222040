//! IQ2_XXS: blocks of 256 values in 8 groups of 32, each of 4 signed points of a grid of 256.
//!
//! 66 bytes: f16 `d`, then for each group 4 bytes that choose its points and a u32 with 4 times 7 bits of signs below a
//! 4-bit factor. Group scale is `d * (factor + 1/2) / 4`. Source: ggml `block_iq2_xxs`, `dequantize_row_iq2_xxs`.

use super::grids::{IQ2_XXS, even_signs, write_signed};
use super::{QuantType, blocks, f16_at};
use crate::layout::{TypeLayout, type_id};

const VALUES: usize = 256;
const BYTES: usize = 66;

pub(super) const QUANT: QuantType = QuantType {
    id: type_id::IQ2_XXS,
    layout: TypeLayout {
        name: "IQ2_XXS",
        values_per_block: VALUES as u64,
        bytes_per_block: BYTES as u64,
    },
    dequantize,
    quantize: None,
};

fn dequantize(bytes: &[u8], values: &mut [f32]) {
    for (block, row) in blocks::<BYTES, VALUES>(bytes, values) {
        let d = f16_at(block[0], block[1]);
        let (groups, _) = row.as_chunks_mut::<32>();
        for (group, &[p0, p1, p2, p3, w0, w1, w2, w3]) in
            groups.iter_mut().zip(block[2..].as_chunks().0)
        {
            let word = u32::from_le_bytes([w0, w1, w2, w3]);
            let scale = d * (0.5 + (word >> 28) as f32) * 0.25;
            let (points, _) = group.as_chunks_mut::<8>();
            for (place, (values, point)) in points.iter_mut().zip([p0, p1, p2, p3]).enumerate() {
                let signs = even_signs(word >> (7 * place));
                write_signed(values, scale, &IQ2_XXS[usize::from(point)], signs);
            }
        }
    }
}
