//! F16: IEEE half, rounded to nearest even.

use super::{QuantType, blocks, f16_at};
use crate::layout::{TypeLayout, type_id};

pub(super) const QUANT: QuantType = QuantType {
    id: type_id::F16,
    layout: TypeLayout { name: "F16", values_per_block: 1, bytes_per_block: 2 },
    dequantize,
    quantize: Some(quantize),
};

fn dequantize(bytes: &[u8], values: &mut [f32]) {
    for (&[low, high], [value]) in blocks::<2, 1>(bytes, values) {
        *value = f16_at(low, high);
    }
}

fn quantize(values: &[f32], out: &mut Vec<u8>) {
    out.extend(values.iter().flat_map(|&value| half::f16::from_f32(value).to_le_bytes()));
}
