//! Q8_0: blocks of 32 values, `value = scale * q` with q in -127..=127.
//!
//! 34 bytes: f16 scale, then 32 signed bytes. Source: ggml `block_q8_0`, `quantize_row_q8_0_ref`.

use super::{QuantType, blocks, f16_at, rows};
use crate::layout::{TypeLayout, type_id};

const VALUES: usize = 32;
const BYTES: usize = 34;

pub(super) const QUANT: QuantType = QuantType {
    id: type_id::Q8_0,
    layout: TypeLayout {
        name: "Q8_0",
        values_per_block: VALUES as u64,
        bytes_per_block: BYTES as u64,
    },
    dequantize,
    quantize: Some(quantize),
};

fn dequantize(bytes: &[u8], values: &mut [f32]) {
    for (block, row) in blocks::<BYTES, VALUES>(bytes, values) {
        let scale = f16_at(block[0], block[1]);
        for (quant, value) in block[2..].iter().zip(row) {
            *value = f32::from(quant.cast_signed()) * scale;
        }
    }
}

fn quantize(values: &[f32], out: &mut Vec<u8>) {
    for row in rows::<VALUES>(values) {
        let largest = row.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
        let scale = largest / 127.0;
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        out.extend(half::f16::from_f32(scale).to_le_bytes());
        // `round` is half away from zero, as C's roundf.
        out.extend(row.iter().map(|value| ((value * inverse).round() as i8).cast_unsigned()));
    }
}

#[cfg(test)]
mod tests {
    use super::{VALUES, dequantize, quantize};

    #[test]
    fn halves_are_rounded_away_from_zero() {
        let mut values = [0.0; VALUES];
        values[..4].copy_from_slice(&[127.0, 2.5, -2.5, 3.5]);
        let mut block = Vec::new();
        quantize(&values, &mut block);
        assert_eq!(block[..6], [0x00, 0x3c, 127, 3, (-3i8).cast_unsigned(), 4]);
        let mut back = [0.0; VALUES];
        dequantize(&block, &mut back);
        assert_eq!(back[..4], [127.0, 3.0, -3.0, 4.0]);
    }
}
