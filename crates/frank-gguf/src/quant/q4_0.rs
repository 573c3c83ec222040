//! Q4_0: blocks of 32 values, `value = scale * (q - 8)` with q in 0..=15.
//!
//! 18 bytes: f16 scale, then 16 bytes whose low halves are values 0-15 and high halves values 16-31.
//! Source: ggml `block_q4_0`, `quantize_row_q4_0_ref`.

use super::{QuantType, blocks, f16_at, largest_with_sign, rows};
use crate::layout::{TypeLayout, type_id};

const VALUES: usize = 32;
const BYTES: usize = 18;

pub(super) const QUANT: QuantType = QuantType {
    id: type_id::Q4_0,
    layout: TypeLayout {
        name: "Q4_0",
        values_per_block: VALUES as u64,
        bytes_per_block: BYTES as u64,
    },
    dequantize,
    quantize: Some(quantize),
};

fn dequantize(bytes: &[u8], values: &mut [f32]) {
    for (block, row) in blocks::<BYTES, VALUES>(bytes, values) {
        let scale = f16_at(block[0], block[1]);
        let (low, high) = row.split_at_mut(VALUES / 2);
        for ((packed, low), high) in block[2..].iter().zip(low).zip(high) {
            *low = scale * (f32::from(packed & 0xf) - 8.0);
            *high = scale * (f32::from(packed >> 4) - 8.0);
        }
    }
}

fn quantize(values: &[f32], out: &mut Vec<u8>) {
    for row in rows::<VALUES>(values) {
        // The largest value becomes q = 0 whatever its sign: so one end of the range is exact.
        let scale = largest_with_sign(row) / -8.0;
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        out.extend(half::f16::from_f32(scale).to_le_bytes());
        let quant = |value: f32| ((value * inverse + 8.5) as u8).min(15);
        let (low, high) = row.split_at(VALUES / 2);
        out.extend(low.iter().zip(high).map(|(&low, &high)| quant(low) | quant(high) << 4));
    }
}

#[cfg(test)]
mod tests {
    use super::{VALUES, dequantize, quantize};

    #[test]
    fn the_largest_value_is_exact_and_the_other_end_is_clipped() {
        let mut values = [0.0; VALUES];
        values[..4].copy_from_slice(&[4.0, -4.0, 0.25, 0.2]);
        let mut block = Vec::new();
        quantize(&values, &mut block);
        assert_eq!(block[..6], [0x00, 0xb8, 0x80, 0x8f, 0x88, 0x88], "scale -0.5");
        let mut back = [0.0; VALUES];
        dequantize(&block, &mut back);
        assert_eq!(back[..4], [4.0, -3.5, 0.0, 0.0]);
    }
}
