//! TQ2_0: blocks of 256 ternary values, `value = scale * t` with t in -1..=1, four of them in a byte.
//!
//! 66 bytes: 64 bytes of t + 1 in 2 bits, f16 scale. Each half of 128 values has 32 bytes: the values 32 apart share a
//! byte, the first in its lowest bits. Nothing makes a 3 there, which would be t = 2.
//! Source: ggml `block_tq2_0`, `quantize_row_tq2_0_ref`.

use super::{QuantType, blocks, f16_at, rows, ternary};
use crate::layout::{TypeLayout, type_id};

const VALUES: usize = 256;
const BYTES: usize = 66;

pub(super) const QUANT: QuantType = QuantType {
    id: type_id::TQ2_0,
    layout: TypeLayout {
        name: "TQ2_0",
        values_per_block: VALUES as u64,
        bytes_per_block: BYTES as u64,
    },
    dequantize,
    quantize: Some(quantize),
};

fn dequantize(bytes: &[u8], values: &mut [f32]) {
    for (block, row) in blocks::<BYTES, VALUES>(bytes, values) {
        let scale = f16_at(block[64], block[65]);
        let (packed, _) = block.as_chunks::<32>();
        let (halves, _) = row.as_chunks_mut::<128>();
        for (packed, half) in packed.iter().zip(halves) {
            for (quarter, shift) in half.as_chunks_mut::<32>().0.iter_mut().zip([0, 2, 4, 6]) {
                for (value, packed) in quarter.iter_mut().zip(packed) {
                    *value = scale * (f32::from(packed >> shift & 3) - 1.0);
                }
            }
        }
    }
}

fn quantize(values: &[f32], out: &mut Vec<u8>) {
    for row in rows::<VALUES>(values) {
        let (scale, digits) = ternary(row);
        for half in digits.as_chunks::<128>().0 {
            out.extend((0..32).map(|place| {
                let digit = |quarter: usize| half[32 * quarter + place];
                digit(0) | digit(1) << 2 | digit(2) << 4 | digit(3) << 6
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
