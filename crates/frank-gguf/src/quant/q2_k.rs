//! Q2_K: blocks of 256 values in 16 groups of 16, `value = scale * q - minimum` with q in 0..=3.
//!
//! 84 bytes: 16 bytes whose low half is a group's factor for its scale and high half that for its minimum, 64 bytes of
//! quants, f16 `d`, f16 `dmin`. Group scale is `d * factor`, minimum `dmin * factor`. Each half of 128 values has 32
//! bytes of quants: the values 32 apart share a byte, the first in its lowest bits. Source: ggml `block_q2_K`,
//! `dequantize_row_q2_K`.

use super::{QuantType, blocks, f16_at};
use crate::layout::{TypeLayout, type_id};

const VALUES: usize = 256;
const BYTES: usize = 84;

pub(super) const QUANT: QuantType = QuantType {
    id: type_id::Q2_K,
    layout: TypeLayout {
        name: "Q2_K",
        values_per_block: VALUES as u64,
        bytes_per_block: BYTES as u64,
    },
    dequantize,
    quantize: None,
};

fn dequantize(bytes: &[u8], values: &mut [f32]) {
    for (block, row) in blocks::<BYTES, VALUES>(bytes, values) {
        let d = f16_at(block[80], block[81]);
        let d_min = f16_at(block[82], block[83]);
        let (groups, _) = row.as_chunks_mut::<16>();
        for (index, (group, factors)) in groups.iter_mut().zip(&block[..16]).enumerate() {
            let scale = d * f32::from(factors & 0xf);
            let minimum = d_min * f32::from(factors >> 4);
            let quants = &block[16 + 32 * (index / 8) + 16 * (index % 2)..];
            let shift = 2 * (index / 2 % 4);
            for (value, packed) in group.iter_mut().zip(quants) {
                *value = scale * f32::from(packed >> shift & 3) - minimum;
            }
        }
    }
}
