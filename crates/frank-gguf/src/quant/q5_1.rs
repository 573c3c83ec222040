//! Q5_1: blocks of 32 values, `value = scale * q + minimum` with q in 0..=31.
//!
//! 24 bytes: f16 scale, f16 minimum, then the 5-bit values as Q5_0 packs them.
//! Source: ggml `block_q5_1`, `quantize_row_q5_1_ref`.

use super::{QuantType, blocks, f16_at, q5_0, rows};
use crate::layout::{TypeLayout, type_id};

const VALUES: usize = 32;
const BYTES: usize = 24;

pub(super) const QUANT: QuantType = QuantType {
    id: type_id::Q5_1,
    layout: TypeLayout {
        name: "Q5_1",
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
        for (value, quant) in row.iter_mut().zip(q5_0::unpack(&block[4..])) {
            // The product is exact in f32 (11 by 5 bits), so a fused and a plain multiply-add agree.
            *value = scale * f32::from(quant) + minimum;
        }
    }
}

fn quantize(values: &[f32], out: &mut Vec<u8>) {
    for row in rows::<VALUES>(values) {
        let minimum = row.iter().fold(f32::MAX, |a, &b| if b < a { b } else { a });
        let maximum = row.iter().fold(f32::MIN, |a, &b| if b > a { b } else { a });
        let scale = (maximum - minimum) / 31.0;
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        out.extend(half::f16::from_f32(scale).to_le_bytes());
        out.extend(half::f16::from_f32(minimum).to_le_bytes());
        q5_0::pack(&row.map(|value| (((value - minimum) * inverse + 0.5) as u8).min(31)), out);
    }
}

#[cfg(test)]
mod tests {
    use super::{VALUES, dequantize, quantize};

    #[test]
    fn a_ramp_of_thirty_two_steps_is_exact() {
        let values: [f32; VALUES] = std::array::from_fn(|index| -3.0 + 0.5 * index as f32);
        let mut block = Vec::new();
        quantize(&values, &mut block);
        assert_eq!(block[..8], [0x00, 0x38, 0x00, 0xc2, 0, 0, 0xff, 0xff], "scale 0.5, minimum -3");
        let mut back = [0.0; VALUES];
        dequantize(&block, &mut back);
        assert_eq!(back, values);
    }
}
