//! Q5_K: blocks of 256 values in 8 groups of 32, `value = scale * q - minimum` with q in 0..=31.
//!
//! 176 bytes: `d`, `dmin` and factors as in Q4_K; 32 bytes whose bit `g` is the fifth bit of group `g`; then 4 times 32
//! bytes whose low halves are one group and high halves the next. Source: ggml `block_q5_K`, `dequantize_row_q5_K`.

use super::{QuantType, blocks, q4_k};
use crate::layout::{TypeLayout, type_id};

const VALUES: usize = 256;
const BYTES: usize = 176;

pub(super) const QUANT: QuantType = QuantType {
    id: type_id::Q5_K,
    layout: TypeLayout {
        name: "Q5_K",
        values_per_block: VALUES as u64,
        bytes_per_block: BYTES as u64,
    },
    dequantize,
    quantize: None,
};

fn dequantize(bytes: &[u8], values: &mut [f32]) {
    for (block, row) in blocks::<BYTES, VALUES>(bytes, values) {
        let groups = q4_k::groups(block);
        let upper = &block[16..48];
        let (halves, _) = block[48..].as_chunks::<32>();
        let (pairs, _) = row.as_chunks_mut::<64>();
        let (pairs_of_groups, _) = groups.as_chunks::<2>();
        for (pair_index, ((packed, pair), [first, second])) in
            halves.iter().zip(pairs).zip(pairs_of_groups).enumerate()
        {
            let (low, high) = pair.split_at_mut(32);
            for (((packed, upper), low), high) in packed.iter().zip(upper).zip(low).zip(high) {
                let upper = upper >> (2 * pair_index);
                *low = first.value(packed & 0xf | (upper & 1) << 4);
                *high = second.value(packed >> 4 | (upper & 2) << 3);
            }
        }
    }
}
