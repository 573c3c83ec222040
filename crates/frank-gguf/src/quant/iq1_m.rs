//! IQ1_M: blocks of 256 values in 16 groups of 16, each of 2 points of the ternary grid of IQ1_S.
//!
//! 56 bytes: a byte for each point with the lower 8 bits of its index; for each point 4 bits, the first in the low half
//! of a byte: the upper 3 bits of its index and the sign of its shift; 4 u16 with a 3-bit factor for 4 groups each,
//! below 4 bits of the f16 `d`, whose lowest are in the first. `value = d * (1 + 2 * factor) * (step + shift)` as in
//! IQ1_S. Source: ggml `block_iq1_m`, `iq1m_scale_t`, `dequantize_row_iq1_m`.

use super::iq1_s::{shift, write_shifted};
use super::{QuantType, blocks, f16_at};
use crate::layout::{TypeLayout, type_id};

const VALUES: usize = 256;
const BYTES: usize = 56;

pub(super) const QUANT: QuantType = QuantType {
    id: type_id::IQ1_M,
    layout: TypeLayout {
        name: "IQ1_M",
        values_per_block: VALUES as u64,
        bytes_per_block: BYTES as u64,
    },
    dequantize,
    quantize: None,
};

fn dequantize(bytes: &[u8], values: &mut [f32]) {
    for (block, row) in blocks::<BYTES, VALUES>(bytes, values) {
        let (lowers, rest) = block.split_at(32);
        let (uppers, scales) = rest.split_at(16);
        let d = f16_at(scales[1] >> 4 | scales[3] & 0xf0, scales[5] >> 4 | scales[7] & 0xf0);
        let (points, _) = row.as_chunks_mut::<8>();
        for (index, (values, lower)) in points.iter_mut().zip(lowers).enumerate() {
            let word = u16::from_le_bytes([scales[index / 8 * 2], scales[index / 8 * 2 + 1]]);
            let factor = word >> (3 * (index / 2 % 4)) & 7;
            let upper = uppers[index / 2] >> (4 * (index % 2));
            let point = usize::from(*lower) | usize::from(upper & 7) << 8;
            write_shifted(values, d * f32::from(1 + 2 * factor), point, shift(upper & 8 != 0));
        }
    }
}
