//! TQ1_0: blocks of 256 ternary values, `value = scale * t` with t in -1..=1, five of them in a byte.
//!
//! 54 bytes: 32 bytes for values 0-159, 16 for values 160-239, 4 for values 240-255 (four in a byte), f16 scale. A byte
//! is the fraction `0.t0 t1 t2 t3 t4` in base 3, with t + 1 as digits, times 256 and rounded up: multiplied by 3 it has
//! the next digit above its 8 bits. Values that share a byte lie 32, 16 or 4 apart, the first in the first digit.
//! Source: ggml `block_tq1_0`, `quantize_row_tq1_0_ref`.

use super::{QuantType, blocks, f16_at, rows, ternary};
use crate::layout::{TypeLayout, type_id};

const VALUES: usize = 256;
const BYTES: usize = 54;

pub(super) const QUANT: QuantType = QuantType {
    id: type_id::TQ1_0,
    layout: TypeLayout {
        name: "TQ1_0",
        values_per_block: VALUES as u64,
        bytes_per_block: BYTES as u64,
    },
    dequantize,
    quantize: Some(quantize),
};

/// The parts of a block: where its bytes begin, how many they are, where its values begin, and how many are in a byte.
const PARTS: [(usize, usize, usize, usize); 3] = [(0, 32, 0, 5), (32, 16, 160, 5), (48, 4, 240, 4)];

fn dequantize(bytes: &[u8], values: &mut [f32]) {
    for (block, row) in blocks::<BYTES, VALUES>(bytes, values) {
        let scale = f16_at(block[52], block[53]);
        for (from, n_bytes, to, n_digits) in PARTS {
            let part = &block[from..from + n_bytes];
            let digits = row[to..to + n_bytes * n_digits].chunks_exact_mut(n_bytes);
            for (digits, power) in digits.zip([1u8, 3, 9, 27, 81]) {
                for (value, packed) in digits.iter_mut().zip(part) {
                    let digit = (u16::from(packed.wrapping_mul(power)) * 3) >> 8;
                    *value = scale * (f32::from(digit) - 1.0);
                }
            }
        }
    }
}

fn quantize(values: &[f32], out: &mut Vec<u8>) {
    for row in rows::<VALUES>(values) {
        let (scale, digits) = ternary(row);
        for (_, n_bytes, from, n_digits) in PARTS {
            let part = &digits[from..from + n_bytes * n_digits];
            out.extend((0..n_bytes).map(|place| {
                let digits = part[place..].iter().step_by(n_bytes);
                let number: u16 = digits
                    .zip([81, 27, 9, 3, 1])
                    .map(|(&digit, power)| u16::from(digit) * power)
                    .sum();
                (number * 256).div_ceil(243) as u8
            }));
        }
        out.extend(scale);
    }
}

#[cfg(test)]
mod tests {
    use super::{VALUES, dequantize, quantize};

    #[test]
    fn ternary_values_are_exact() {
        let values: [f32; VALUES] =
            std::array::from_fn(|index| 0.75 * ((index * 7 % 3) as f32 - 1.0));
        let mut block = Vec::new();
        quantize(&values, &mut block);
        let mut back = [0.0; VALUES];
        dequantize(&block, &mut back);
        assert_eq!(back, values);
    }
}
