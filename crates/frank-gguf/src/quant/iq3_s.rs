//! IQ3_S: blocks of 256 values in 8 groups of 32, each of 8 signed points of a grid of 512.
//!
//! 110 bytes: f16 `d`; a byte for each point with the lower 8 bits of its index; for each group a byte with the ninth
//! bit of its points; a byte of signs for every 2 points; 4 bytes with a 4-bit factor for each group, the first in the
//! low half. Group scale is `d * (1 + 2 * factor)`. Source: ggml `block_iq3_s`, `dequantize_row_iq3_s`.

use super::grids::{IQ3_S, write_signed};
use super::{QuantType, blocks, f16_at};
use crate::layout::{TypeLayout, type_id};

const VALUES: usize = 256;
const BYTES: usize = 110;

pub(super) const QUANT: QuantType = QuantType {
    id: type_id::IQ3_S,
    layout: TypeLayout {
        name: "IQ3_S",
        values_per_block: VALUES as u64,
        bytes_per_block: BYTES as u64,
    },
    dequantize,
    quantize: None,
};

fn dequantize(bytes: &[u8], values: &mut [f32]) {
    for (block, row) in blocks::<BYTES, VALUES>(bytes, values) {
        let d = f16_at(block[0], block[1]);
        let (lowers, uppers) = (&block[2..66], &block[66..74]);
        let (signs, factors) = (&block[74..106], &block[106..110]);
        let (points, _) = row.as_chunks_mut::<4>();
        for (index, (values, lower)) in points.iter_mut().zip(lowers).enumerate() {
            let factor = factors[index / 16] >> (4 * (index / 8 % 2)) & 0xf;
            let scale = d * f32::from(1 + 2 * factor);
            let upper = uppers[index / 8] >> (index % 8) & 1;
            let point = usize::from(*lower) | usize::from(upper) << 8;
            write_signed(values, scale, &IQ3_S[point], signs[index / 2] >> (4 * (index % 2)));
        }
    }
}
