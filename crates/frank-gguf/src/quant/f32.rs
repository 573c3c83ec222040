//! F32: values as they are.

use super::{QuantType, blocks};
use crate::layout::{TypeLayout, type_id};

pub(super) const QUANT: QuantType = QuantType {
    id: type_id::F32,
    layout: TypeLayout { name: "F32", values_per_block: 1, bytes_per_block: 4 },
    dequantize,
    quantize: Some(quantize),
};

fn dequantize(bytes: &[u8], values: &mut [f32]) {
    for (block, [value]) in blocks::<4, 1>(bytes, values) {
        *value = f32::from_le_bytes(*block);
    }
}

fn quantize(values: &[f32], out: &mut Vec<u8>) {
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}
