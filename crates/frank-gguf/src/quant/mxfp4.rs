//! MXFP4: blocks of 32 4-bit floats (E2M1) with a power of two as their scale (E8M0).
//!
//! 17 bytes: exponent `e`, then 16 bytes whose low halves are values 0-15 and high halves values 16-31.
//! `value = 2^(e - 128) * DOUBLED[q]`: the table holds twice the value of an E2M1, the scale is halved, and so neither
//! has a fraction.
//! Source: OCP Microscaling Formats 1.0; ggml `block_mxfp4`, `quantize_row_mxfp4_ref`.

use super::{QuantType, blocks, rows};
use crate::layout::{TypeLayout, type_id};

const VALUES: usize = 32;
const BYTES: usize = 17;

pub(super) const QUANT: QuantType = QuantType {
    id: type_id::MXFP4,
    layout: TypeLayout {
        name: "MXFP4",
        values_per_block: VALUES as u64,
        bytes_per_block: BYTES as u64,
    },
    dequantize,
    quantize: Some(quantize),
};

/// Twice the value of each E2M1: sign, two bits of exponent, one of mantissa.
pub(super) const DOUBLED: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

fn dequantize(bytes: &[u8], values: &mut [f32]) {
    for (block, row) in blocks::<BYTES, VALUES>(bytes, values) {
        let scale = scale(block[0]);
        let (low, high) = row.split_at_mut(VALUES / 2);
        for ((packed, low), high) in block[1..].iter().zip(low).zip(high) {
            *low = scale * f32::from(DOUBLED[usize::from(packed & 0xf)]);
            *high = scale * f32::from(DOUBLED[usize::from(packed >> 4)]);
        }
    }
}

/// `2^(exponent - 128)`. Exponents 0 and 1 give subnormal numbers; 255 is no NaN here, as in ggml.
fn scale(exponent: u8) -> f32 {
    f32::from_bits(match exponent {
        0 => 0x0020_0000,
        1 => 0x0040_0000,
        _ => u32::from(exponent - 1) << 23,
    })
}

fn quantize(values: &[f32], out: &mut Vec<u8>) {
    for row in rows::<VALUES>(values) {
        let largest = row.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
        // Values between 6 and 8 times the scale are clipped to 6: the rule of the OCP paper.
        let exponent = if largest > 0.0 { (largest.log2().floor() - 2.0 + 127.0) as u8 } else { 0 };
        let scale = scale(exponent);
        let quant = |value: f32| {
            let error = |q: usize| (scale * f32::from(DOUBLED[q]) - value).abs();
            (1..16).fold(0, |best, q| if error(q) < error(best) { q } else { best }) as u8
        };
        out.push(exponent);
        let (low, high) = row.split_at(VALUES / 2);
        out.extend(low.iter().zip(high).map(|(&low, &high)| quant(low) | quant(high) << 4));
    }
}

#[cfg(test)]
mod tests {
    use super::{VALUES, dequantize, quantize, scale};

    #[test]
    fn the_scale_is_a_power_of_two_for_every_exponent() {
        for exponent in 0..=255u8 {
            assert_eq!(f64::from(scale(exponent)), 2f64.powi(i32::from(exponent) - 128));
        }
    }

    #[test]
    fn floats_of_four_bits_are_exact() {
        let mut values = [0.0; VALUES];
        values[..8].copy_from_slice(&[6.0, -6.0, 4.0, 3.0, -2.0, 1.5, 1.0, 0.5]);
        let mut block = Vec::new();
        quantize(&values, &mut block);
        assert_eq!(block[..9], [127, 7, 0xf, 6, 5, 0xc, 3, 2, 1]);
        let mut back = [0.0; VALUES];
        dequantize(&block, &mut back);
        assert_eq!(back, values);
    }
}
