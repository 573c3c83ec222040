//! Q5_0: blocks of 32 values, `value = scale * (q - 16)` with q in 0..=31.
//!
//! 22 bytes: f16 scale, u32 with the fifth bit of value `i` at bit `i`, then 16 bytes whose low halves belong to values
//! 0-15 and high halves to values 16-31. Source: ggml `block_q5_0`, `quantize_row_q5_0_ref`.

use super::{QuantType, blocks, f16_at, largest_with_sign, rows};
use crate::layout::{TypeLayout, type_id};

const VALUES: usize = 32;
const BYTES: usize = 22;

pub(super) const QUANT: QuantType = QuantType {
    id: type_id::Q5_0,
    layout: TypeLayout {
        name: "Q5_0",
        values_per_block: VALUES as u64,
        bytes_per_block: BYTES as u64,
    },
    dequantize,
    quantize: Some(quantize),
};

fn dequantize(bytes: &[u8], values: &mut [f32]) {
    for (block, row) in blocks::<BYTES, VALUES>(bytes, values) {
        let scale = f16_at(block[0], block[1]);
        for (value, quant) in row.iter_mut().zip(unpack(&block[2..])) {
            *value = scale * (f32::from(quant) - 16.0);
        }
    }
}

fn quantize(values: &[f32], out: &mut Vec<u8>) {
    for row in rows::<VALUES>(values) {
        // The largest value becomes q = 0 whatever its sign, as in Q4_0.
        let scale = largest_with_sign(row) / -16.0;
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        out.extend(half::f16::from_f32(scale).to_le_bytes());
        pack(&row.map(|value| ((value * inverse + 16.5) as u8).min(31)), out);
    }
}

/// The 5-bit values of 4 bytes of upper bits and 16 bytes of lower ones, in the order of the row.
pub(super) fn unpack(bytes: &[u8]) -> [u8; VALUES] {
    let (upper, lower) = bytes.split_at(4);
    let upper = u32::from_le_bytes([upper[0], upper[1], upper[2], upper[3]]);
    let mut quants = [0; VALUES];
    let (low, high) = quants.split_at_mut(VALUES / 2);
    for (place, ((packed, low), high)) in lower.iter().zip(low).zip(high).enumerate() {
        *low = packed & 0xf | ((upper >> place) as u8 & 1) << 4;
        *high = packed >> 4 | ((upper >> (place + 16)) as u8 & 1) << 4;
    }
    quants
}

/// Appends 5-bit values as [`unpack`] reads them.
pub(super) fn pack(quants: &[u8; VALUES], out: &mut Vec<u8>) {
    let upper = quants.iter().rfold(0u32, |bits, quant| bits << 1 | u32::from(quant >> 4));
    out.extend(upper.to_le_bytes());
    let (low, high) = quants.split_at(VALUES / 2);
    out.extend(low.iter().zip(high).map(|(low, high)| low & 0xf | high << 4));
}

#[cfg(test)]
mod tests {
    use super::{VALUES, dequantize, pack, quantize, unpack};

    #[test]
    fn packing_keeps_every_value() {
        let quants: [u8; VALUES] = std::array::from_fn(|index| (index * 13 % 32) as u8);
        let mut bytes = Vec::new();
        pack(&quants, &mut bytes);
        assert_eq!(unpack(&bytes), quants);
        bytes.clear();
        pack(&std::array::from_fn(|index| if index == 17 { 31 } else { 0 }), &mut bytes);
        assert_eq!(bytes[..6], [0, 0, 2, 0, 0, 0xf0]);
    }

    #[test]
    fn the_largest_value_is_exact_and_the_other_end_is_clipped() {
        let mut values = [0.0; VALUES];
        values[..4].copy_from_slice(&[-8.0, 8.0, 0.25, 0.2]);
        let mut block = Vec::new();
        quantize(&values, &mut block);
        let mut back = [0.0; VALUES];
        dequantize(&block, &mut back);
        assert_eq!(back[..4], [-8.0, 7.5, 0.5, 0.0]);
    }
}
