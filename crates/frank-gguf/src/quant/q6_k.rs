//! Q6_K: blocks of 256 values in 16 groups of 16, `value = d * scale * (q - 32)` with q in 0..=63.
//!
//! 210 bytes: 128 bytes with the lower 4 bits, 64 bytes with the upper 2 bits, 16 signed bytes of group scales, f16
//! `d`. Each half of 128 values has 64 and 32 bytes of them: the values 32 apart share an upper byte (2 bits each, the
//! first lowest), those 64 apart a lower byte. Source: ggml `block_q6_K`, `dequantize_row_q6_K`.

use super::{QuantType, blocks, f16_at};
use crate::layout::{TypeLayout, type_id};

const VALUES: usize = 256;
const BYTES: usize = 210;

pub(super) const QUANT: QuantType = QuantType {
    id: type_id::Q6_K,
    layout: TypeLayout {
        name: "Q6_K",
        values_per_block: VALUES as u64,
        bytes_per_block: BYTES as u64,
    },
    dequantize,
    quantize: None,
};

fn dequantize(bytes: &[u8], values: &mut [f32]) {
    for (block, row) in blocks::<BYTES, VALUES>(bytes, values) {
        let d = f16_at(block[208], block[209]);
        let (lowers, _) = block[..128].as_chunks::<64>();
        let (uppers, _) = block[128..192].as_chunks::<32>();
        let (scales, _) = block[192..208].as_chunks::<8>();
        let (halves, _) = row.as_chunks_mut::<128>();
        for (((lower, upper), scales), half) in lowers.iter().zip(uppers).zip(scales).zip(halves) {
            let scales = scales.map(|scale| d * f32::from(scale.cast_signed()));
            let (quarters, _) = half.as_chunks_mut::<32>();
            for (quarter_index, quarter) in quarters.iter_mut().enumerate() {
                let lower = &lower[32 * (quarter_index % 2)..];
                let shift = 4 * (quarter_index / 2);
                for (place, (value, (lower, upper))) in
                    quarter.iter_mut().zip(lower.iter().zip(upper)).enumerate()
                {
                    let quant = lower >> shift & 0xf | (upper >> (2 * quarter_index) & 3) << 4;
                    *value = scales[2 * quarter_index + place / 16] * (f32::from(quant) - 32.0);
                }
            }
        }
    }
}
