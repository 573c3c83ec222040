//! IQ2_S: blocks of 256 values in 16 groups of 16, each of 2 signed points of a grid of 1024.
//!
//! 82 bytes: f16 `d`; a byte for each point with the lower 8 bits of its index; a byte for each with the signs of its
//! values; 8 bytes with the upper 2 bits of the index of 4 points each; 8 bytes with a 4-bit factor for each group, the
//! first in the low half. Group scale is `d * (factor + 1/2) / 4`. Source: ggml `block_iq2_s`, `dequantize_row_iq2_s`.

use super::grids::{IQ2_S, write_signed};
use super::{QuantType, blocks, f16_at};
use crate::layout::{TypeLayout, type_id};

const VALUES: usize = 256;
const BYTES: usize = 82;

pub(super) const QUANT: QuantType = QuantType {
    id: type_id::IQ2_S,
    layout: TypeLayout {
        name: "IQ2_S",
        values_per_block: VALUES as u64,
        bytes_per_block: BYTES as u64,
    },
    dequantize,
    quantize: None,
};

fn dequantize(bytes: &[u8], values: &mut [f32]) {
    for (block, row) in blocks::<BYTES, VALUES>(bytes, values) {
        let d = f16_at(block[0], block[1]);
        let (lowers, signs) = (&block[2..34], &block[34..66]);
        let (uppers, factors) = (&block[66..74], &block[74..82]);
        let (points, _) = row.as_chunks_mut::<8>();
        for (index, (values, (lower, signs))) in
            points.iter_mut().zip(lowers.iter().zip(signs)).enumerate()
        {
            let factor = factors[index / 4] >> (4 * (index / 2 % 2)) & 0xf;
            let scale = d * (0.5 + f32::from(factor)) * 0.25;
            let upper = uppers[index / 4] >> (2 * (index % 4)) & 3;
            let point = usize::from(*lower) | usize::from(upper) << 8;
            write_signed(values, scale, &IQ2_S[point], *signs);
        }
    }
}
