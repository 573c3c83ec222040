//! Q4_K: blocks of 256 values in 8 groups of 32, `value = scale * q - minimum` with q in 0..=15.
//!
//! 144 bytes: f16 `d`, f16 `dmin`, 12 bytes with a 6-bit factor for scale and for minimum of each group, then 4 times
//! 32 bytes whose low halves are one group and high halves the next. Group scale is `d * factor`,
//! minimum `dmin * factor`. Source: ggml `block_q4_K`, `dequantize_row_q4_K`.

use super::{QuantType, blocks, f16_at};
use crate::layout::{TypeLayout, type_id};

const VALUES: usize = 256;
const BYTES: usize = 144;

pub(super) const QUANT: QuantType = QuantType {
    id: type_id::Q4_K,
    layout: TypeLayout {
        name: "Q4_K",
        values_per_block: VALUES as u64,
        bytes_per_block: BYTES as u64,
    },
    dequantize,
    quantize: None,
};

fn dequantize(bytes: &[u8], values: &mut [f32]) {
    for (block, row) in blocks::<BYTES, VALUES>(bytes, values) {
        let groups = groups(block);
        let (halves, _) = block[16..].as_chunks::<32>();
        let (pairs, _) = row.as_chunks_mut::<64>();
        let (pairs_of_groups, _) = groups.as_chunks::<2>();
        for ((packed, pair), [first, second]) in halves.iter().zip(pairs).zip(pairs_of_groups) {
            let (low, high) = pair.split_at_mut(32);
            for ((packed, low), high) in packed.iter().zip(low).zip(high) {
                *low = first.value(packed & 0xf);
                *high = second.value(packed >> 4);
            }
        }
    }
}

/// Scale and minimum of 32 values.
#[derive(Clone, Copy)]
pub(super) struct Group {
    scale: f32,
    minimum: f32,
}

impl Group {
    /// The product is exact in f32 (11 by 6 by at most 5 bits), so a fused and a plain multiply-subtract agree.
    pub(super) fn value(self, quant: u8) -> f32 {
        self.scale * f32::from(quant) - self.minimum
    }
}

/// The groups of a block that begins with `d`, `dmin` and 12 bytes of packed factors: Q4_K and Q5_K.
///
/// The first four scales and minimums are the lower 6 bits of bytes 0-3 and 4-7; the last four have their lower 4 bits
/// in the halves of bytes 8-11 and their upper 2 bits at the top of bytes 0-3 and 4-7.
pub(super) fn groups(block: &[u8]) -> [Group; 8] {
    let d = f16_at(block[0], block[1]);
    let d_min = f16_at(block[2], block[3]);
    let factors = &block[4..16];
    std::array::from_fn(|group| {
        let (scale, minimum) = match group {
            0..4 => (factors[group] & 0x3f, factors[group + 4] & 0x3f),
            _ => {
                let (lower, place) = (factors[group + 4], group - 4);
                let upper = (factors[place] >> 6 << 4, factors[place + 4] >> 6 << 4);
                (lower & 0xf | upper.0, lower >> 4 | upper.1)
            }
        };
        Group { scale: d * f32::from(scale), minimum: d_min * f32::from(minimum) }
    })
}
