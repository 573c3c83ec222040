//! BF16: the upper half of an f32, rounded to nearest even.
//!
//! Source: ggml `ggml_compute_fp32_to_bf16`.

use super::{QuantType, blocks};
use crate::layout::{TypeLayout, type_id};

pub(super) const QUANT: QuantType = QuantType {
    id: type_id::BF16,
    layout: TypeLayout { name: "BF16", values_per_block: 1, bytes_per_block: 2 },
    dequantize,
    quantize: Some(quantize),
};

fn dequantize(bytes: &[u8], values: &mut [f32]) {
    for (block, [value]) in blocks::<2, 1>(bytes, values) {
        // Not through `half`, which would make every NaN a quiet one.
        *value = f32::from_bits(u32::from(u16::from_le_bytes(*block)) << 16);
    }
}

fn quantize(values: &[f32], out: &mut Vec<u8>) {
    out.extend(values.iter().flat_map(|&value| half::bf16::from_f32(value).to_le_bytes()));
}
