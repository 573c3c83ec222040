//! NVFP4: blocks of 64 4-bit floats (E2M1) in 4 groups of 16, each with an 8-bit float as its scale (UE4M3).
//!
//! 36 bytes: 4 scales, then 8 bytes for each group whose low halves are its first 8 values and high halves the others.
//! The floats are held doubled and the scales halved, as in MXFP4. Source: ggml `block_nvfp4`, `dequantize_row_nvfp4`.

use super::mxfp4::DOUBLED;
use super::{QuantType, blocks};
use crate::layout::{TypeLayout, type_id};

const VALUES: usize = 64;
const BYTES: usize = 36;

pub(super) const QUANT: QuantType = QuantType {
    id: type_id::NVFP4,
    layout: TypeLayout {
        name: "NVFP4",
        values_per_block: VALUES as u64,
        bytes_per_block: BYTES as u64,
    },
    dequantize,
    quantize: None,
};

fn dequantize(bytes: &[u8], values: &mut [f32]) {
    for (block, row) in blocks::<BYTES, VALUES>(bytes, values) {
        let (scales, quants) = block.split_at(4);
        let (groups, _) = row.as_chunks_mut::<16>();
        for ((group, quants), &bits) in groups.iter_mut().zip(quants.as_chunks::<8>().0).zip(scales)
        {
            let scale = half_scale(bits);
            let (low, high) = group.split_at_mut(8);
            for ((packed, low), high) in quants.iter().zip(low).zip(high) {
                *low = scale * f32::from(DOUBLED[usize::from(packed & 0xf)]);
                *high = scale * f32::from(DOUBLED[usize::from(packed >> 4)]);
            }
        }
    }
}

/// Half the value of 4 bits of exponent (bias 7) and 3 of mantissa. The top bit is not read, as in ggml, and 0x7f,
/// which would be a NaN, is 0.
fn half_scale(bits: u8) -> f32 {
    let mantissa = f32::from(bits & 7);
    let power = |exponent: u32| f32::from_bits((127 + exponent) << 23) / 1024.0;
    match (bits >> 3) & 0xf {
        _ if bits == 0x7f => 0.0,
        // mantissa / 8 * 2^-6, halved
        0 => mantissa * power(0),
        // (1 + mantissa / 8) * 2^(exponent - 7), halved
        exponent => (8.0 + mantissa) * power(u32::from(exponent) - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::half_scale;

    #[test]
    fn scales_are_half_of_their_eight_bit_floats() {
        for (bits, scale) in [
            (0, 0.0),
            (1, 1.0 / 512.0),
            (7, 7.0 / 512.0),
            (8, 1.0 / 64.0),
            (0x38, 1.0),
            (0x7e, 448.0),
        ] {
            assert_eq!(half_scale(bits) * 2.0, scale, "{bits:#x}");
        }
        assert_eq!(half_scale(0x7f), 0.0);
    }
}
