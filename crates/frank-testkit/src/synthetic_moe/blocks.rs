//! Random quantized blocks whose values have about mean 0 and a given deviation. Made directly: nothing is quantized.

use frank_gguf::type_id;
use half::f16;

use crate::random::Random;

/// A type that can be made.
#[derive(Debug)]
pub(super) struct BlockType {
    pub(super) type_id: u32,
    /// Values of a block.
    pub(super) values: u64,
    /// Bytes of a block.
    pub(super) bytes: u64,
    /// Writes one block: the deviation of its values, then its bytes.
    pub(super) fill: fn(&mut Random, f32, &mut [u8]),
}

pub(super) const Q4_0: BlockType =
    BlockType { type_id: type_id::Q4_0, values: 32, bytes: 18, fill: q4_0 };
pub(super) const Q8_0: BlockType =
    BlockType { type_id: type_id::Q8_0, values: 32, bytes: 34, fill: q8_0 };
pub(super) const Q4_K: BlockType =
    BlockType { type_id: type_id::Q4_K, values: 256, bytes: 144, fill: q4_k };
pub(super) const Q6_K: BlockType =
    BlockType { type_id: type_id::Q6_K, values: 256, bytes: 210, fill: q6_k };

/// Deviation of the numbers 0 to 15.
const NIBBLE_DEVIATION: f32 = 4.61;
/// Deviation of the numbers -128 to 127.
const BYTE_DEVIATION: f32 = 73.9;
/// Deviation of the numbers 0 to 63.
const SIX_BITS_DEVIATION: f32 = 18.47;
/// Root of the mean square of the numbers 16 to 47.
const Q4_K_SCALE: f32 = 32.83;
/// Root of the mean square of the numbers 32 to 63.
const Q6_K_SCALE: f32 = 48.38;

fn put_f16(bytes: &mut [u8], value: f32) {
    bytes.copy_from_slice(&f16::from_f32(value).to_le_bytes());
}

fn q4_0(random: &mut Random, deviation: f32, block: &mut [u8]) {
    random.fill(block);
    put_f16(&mut block[..2], deviation / NIBBLE_DEVIATION);
}

fn q8_0(random: &mut Random, deviation: f32, block: &mut [u8]) {
    random.fill(block);
    put_f16(&mut block[..2], deviation / BYTE_DEVIATION);
}

/// `w = d * sc * (q - 7.5)`: each group's minimum is its scale, and `dmin = 7.5 * d`.
fn q4_k(random: &mut Random, deviation: f32, block: &mut [u8]) {
    random.fill(block);
    let d = f16::from_f32(deviation / (NIBBLE_DEVIATION * Q4_K_SCALE));
    put_f16(&mut block[..2], d.to_f32());
    put_f16(&mut block[2..4], 7.5 * d.to_f32());
    // Eight random scales of six bits, 16 to 47.
    let mut scales = [0u8; 8];
    random.fill(&mut scales);
    let scales = scales.map(|byte| 16 + byte % 32);
    let (low, high) = scales.split_at(4);
    for (group, (low, high)) in low.iter().zip(high).enumerate() {
        block[4 + group] = low | (high >> 4) << 6;
        block[8 + group] = low | (high >> 4) << 6;
        block[12 + group] = (high & 15) | (high & 15) << 4;
    }
}

fn q6_k(random: &mut Random, deviation: f32, block: &mut [u8]) {
    random.fill(block);
    for scale in &mut block[192..208] {
        *scale = 32 + *scale % 32;
    }
    put_f16(&mut block[208..], deviation / (SIX_BITS_DEVIATION * Q6_K_SCALE));
}

#[cfg(test)]
mod tests {
    use frank_gguf::quant::quant_type;

    use super::{BlockType, Q4_0, Q4_K, Q6_K, Q8_0};
    use crate::random::Random;

    /// Mean and deviation of the values of many blocks.
    fn mean_and_deviation(kind: &BlockType, deviation: f32) -> (f64, f64) {
        let mut random = Random::new(7, 0);
        let mut block = vec![0; kind.bytes as usize];
        let mut values = vec![0.0; kind.values as usize];
        let (mut sum, mut squares, mut n) = (0.0, 0.0, 0.0);
        for _ in 0..2000 {
            (kind.fill)(&mut random, deviation, &mut block);
            (quant_type(kind.type_id).expect("a known type").dequantize)(&block, &mut values);
            n += values.len() as f64;
            sum += values.iter().copied().map(f64::from).sum::<f64>();
            squares += values.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>();
        }
        let mean: f64 = sum / n;
        (mean, (squares / n - mean * mean).sqrt())
    }

    #[test]
    fn values_of_every_type_have_mean_0_and_the_deviation_asked_for() {
        for kind in [Q4_0, Q8_0, Q4_K, Q6_K] {
            let (mean, deviation) = mean_and_deviation(&kind, 0.02);
            assert!(mean.abs() < 0.003, "type {}: mean {mean}", kind.type_id);
            assert!((deviation / 0.02 - 1.0).abs() < 0.05, "type {}: {deviation}", kind.type_id);
        }
    }
}
