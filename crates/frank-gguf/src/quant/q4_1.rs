//! Q4_1: blocks of 32 values, `value = scale * q + minimum` with q in 0..=15.
//!
//! 20 bytes: f16 scale, f16 minimum, then 16 bytes whose low halves are values 0-15 and high halves values 16-31.
//! Source: ggml `block_q4_1`, `quantize_row_q4_1_ref`.

use super::{QuantType, blocks, f16_at, rows};
use crate::layout::{TypeLayout, type_id};

const VALUES: usize = 32;
const BYTES: usize = 20;

pub(super) const QUANT: QuantType = QuantType {
    id: type_id::Q4_1,
    layout: TypeLayout {
        name: "Q4_1",
        values_per_block: VALUES as u64,
        bytes_per_block: BYTES as u64,
    },
    dequantize,
    quantize: Some(quantize),
};

fn dequantize(bytes: &[u8], values: &mut [f32]) {
    for (block, row) in blocks::<BYTES, VALUES>(bytes, values) {
        let scale = f16_at(block[0], block[1]);
        let minimum = f16_at(block[2], block[3]);
        let (low, high) = row.split_at_mut(VALUES / 2);
        for ((packed, low), high) in block[4..].iter().zip(low).zip(high) {
            // The product is exact in f32 (4 by 11 bits), so a fused and a plain multiply-add agree.
            *low = f32::from(packed & 0xf) * scale + minimum;
            *high = f32::from(packed >> 4) * scale + minimum;
        }
    }
}

fn quantize(values: &[f32], out: &mut Vec<u8>) {
    for row in rows::<VALUES>(values) {
        let minimum = row.iter().fold(f32::MAX, |a, &b| if b < a { b } else { a });
        let maximum = row.iter().fold(f32::MIN, |a, &b| if b > a { b } else { a });
        let scale = (maximum - minimum) / 15.0;
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        out.extend(half::f16::from_f32(scale).to_le_bytes());
        out.extend(half::f16::from_f32(minimum).to_le_bytes());
        // Truncation after adding a half, not rounding: ggml's choice, which differs in the last place.
        let quant = |value: f32| (((value - minimum) * inverse + 0.5) as u8).min(15);
        let (low, high) = row.split_at(VALUES / 2);
        out.extend(low.iter().zip(high).map(|(&low, &high)| quant(low) | quant(high) << 4));
    }
}

#[cfg(test)]
mod tests {
    use super::{VALUES, dequantize, quantize};

    #[test]
    fn a_ramp_of_sixteen_steps_is_exact() {
        let values: Vec<f32> = (0..VALUES).map(|index| -2.0 + 0.25 * (index % 16) as f32).collect();
        let mut block = Vec::new();
        quantize(&values, &mut block);
        assert_eq!(block[..4], [0x00, 0x34, 0x00, 0xc0], "scale 0.25 and minimum -2");
        assert_eq!(block[4..], (0..16).map(|q| q | q << 4).collect::<Vec<u8>>()[..]);
        let mut back = [0.0; VALUES];
        dequantize(&block, &mut back);
        assert_eq!(back, values[..]);
    }

    #[test]
    fn equal_values_have_scale_zero() {
        let mut block = Vec::new();
        quantize(&[3.0; VALUES], &mut block);
        assert_eq!(block[..4], [0, 0, 0x00, 0x42]);
        assert_eq!(block[4..], [0; 16]);
    }
}
