//! Q3_K: blocks of 256 values in 16 groups of 16, `value = d * (factor - 32) * q` with q in -4..=3.
//!
//! 110 bytes: 32 bytes of upper bits, 64 bytes of lower ones, 12 bytes of packed 6-bit factors, f16 `d`. The lower two
//! bits lie as in Q2_K; bit `i` of the upper bytes belongs to values `32 * i..`, and 4 is subtracted where it is 0.
//! Source: ggml `block_q3_K`, `dequantize_row_q3_K`.

use super::{QuantType, blocks, f16_at};
use crate::layout::{TypeLayout, type_id};

const VALUES: usize = 256;
const BYTES: usize = 110;

pub(super) const QUANT: QuantType = QuantType {
    id: type_id::Q3_K,
    layout: TypeLayout {
        name: "Q3_K",
        values_per_block: VALUES as u64,
        bytes_per_block: BYTES as u64,
    },
    dequantize,
    quantize: None,
};

fn dequantize(bytes: &[u8], values: &mut [f32]) {
    for (block, row) in blocks::<BYTES, VALUES>(bytes, values) {
        let d = f16_at(block[108], block[109]);
        let factors = factors(&block[96..108]);
        let (groups, _) = row.as_chunks_mut::<16>();
        for (index, (group, factor)) in groups.iter_mut().zip(factors).enumerate() {
            let scale = d * (f32::from(factor) - 32.0);
            let uppers = &block[16 * (index % 2)..];
            let lowers = &block[32 + 32 * (index / 8) + 16 * (index % 2)..];
            let shift = 2 * (index / 2 % 4);
            for (value, (lower, upper)) in group.iter_mut().zip(lowers.iter().zip(uppers)) {
                let quant = lower >> shift & 3 | (upper >> (index / 2) & 1) << 2;
                *value = scale * (f32::from(quant) - 4.0);
            }
        }
    }
}

/// The 6-bit factor of each group: lower halves of the first 8 bytes, then upper halves, for the lower 4 bits; and the
/// last 4 bytes for the upper 2 bits, of which groups 4 apart share a byte.
fn factors(packed: &[u8]) -> [u8; 16] {
    std::array::from_fn(|group| {
        let lower = packed[group % 8] >> (4 * (group / 8)) & 0xf;
        let upper = packed[8 + group % 4] >> (2 * (group / 4)) & 3;
        lower | upper << 4
    })
}

#[cfg(test)]
mod tests {
    use super::factors;

    #[test]
    fn each_factor_takes_its_own_six_bits() {
        let mut packed = [0; 12];
        packed[1] = 0x5a;
        packed[9] = 0b11_10_01_00;
        let mut expected = [0; 16];
        (expected[1], expected[5], expected[9], expected[13]) = (0xa, 0x10, 0x25, 0x30);
        assert_eq!(factors(&packed), expected);
    }
}
