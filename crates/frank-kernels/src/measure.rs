//! Work for measuring a machine: reading memory, and multiplying a matrix that means nothing. Never looks at a clock.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::activations::Activations;
use crate::cpu::{for_each_isa, isa};
use crate::matmul::{Product, matmul};
use crate::matrix::{Matrix, MatrixShape, PackError};
use crate::pool::Pool;
use crate::weights::WeightType;

/// Bytes that a thread takes at a time: small enough that all threads end together.
const PIECE: usize = 1 << 20;

/// Words that are summed side by side.
const READ_LANES: usize = 64;

/// Reads all of `bytes` with every thread of `pool`, as fast as memory gives them, and returns the wrapping sum of its
/// words of eight bytes. The caller takes the time; a buffer several times as large as the last cache measures memory.
#[must_use]
pub fn read_bandwidth(pool: &mut Pool, bytes: &[u8]) -> u64 {
    let total = AtomicU64::new(0);
    pool.run(bytes.len().div_ceil(PIECE), &|piece| {
        let piece = &bytes[piece * PIECE..];
        let mut sum = 0;
        sum_words(isa(), &piece[..PIECE.min(piece.len())], &mut sum);
        total.fetch_add(sum, Ordering::Relaxed);
    });
    total.into_inner()
}

for_each_isa! {
    fn sum_words(bytes: &[u8], sum: &mut u64) = sum_words_body
}

/// Bytes after the last whole word are a word with zeros behind them.
#[inline(always)]
fn sum_words_body(bytes: &[u8], sum: &mut u64) {
    let (words, tail) = bytes.as_chunks::<8>();
    let (whole, rest) = words.as_chunks::<READ_LANES>();
    let mut lanes = [0u64; READ_LANES];
    for words in whole {
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane = lane.wrapping_add(u64::from_le_bytes(*word));
        }
    }
    let mut last = [0; 8];
    last[..tail.len()].copy_from_slice(tail);
    let rest = rest.iter().chain([&last]).map(|word| u64::from_le_bytes(*word));
    *sum = lanes.into_iter().chain(rest).fold(0, u64::wrapping_add);
}

/// A product of made-up weights with made-up activations: it takes the time that any of its type and size takes.
#[derive(Debug)]
pub struct SyntheticProduct {
    shape: MatrixShape,
    bytes: Vec<u8>,
    n_rows: usize,
    x: Vec<f32>,
    out: Vec<f32>,
    quants: Activations,
}

impl SyntheticProduct {
    /// Weights `[n_out, n_in]` and activations `[n_rows, n_in]`. Takes the memory of both, of the output and of the
    /// scratch now.
    ///
    /// # Errors
    /// [`PackError`] when `n_in` is not whole blocks of the type, or the matrix is empty.
    pub fn new(
        weight_type: WeightType,
        (n_in, n_out): (usize, usize),
        n_rows: usize,
    ) -> Result<Self, PackError> {
        // In every type near enough to 1 that nothing is slow for being tiny or no number.
        const PATTERN: u8 = 0x3c;
        let shape = MatrixShape::new(weight_type, n_in, n_out)?;
        Ok(Self {
            shape,
            bytes: vec![PATTERN; shape.bytes()],
            n_rows,
            x: vec![0.5; n_rows * n_in],
            out: vec![0.0; n_rows * n_out],
            quants: Activations::with_capacity(n_rows, n_in),
        })
    }

    /// Bytes of the weights, which each run reads once.
    #[must_use]
    pub fn weight_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Multiplications with an addition each that a run makes.
    #[must_use]
    pub fn multiply_adds(&self) -> u64 {
        (self.shape.n_in() * self.shape.n_out() * self.n_rows) as u64
    }

    /// Multiplies once with all threads of `pool`; the caller takes the time.
    pub fn run(&mut self, pool: &mut Pool) {
        let matrix = Matrix::new(self.shape, &self.bytes);
        let mut products = [Product::new(matrix, &mut self.out)];
        matmul(pool, &self.x, self.shape.n_in(), &mut self.quants, &mut products);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_read_once() {
        for len in [0, 1, 7, 8, 511, 512, 4099, PIECE, 2 * PIECE + 13] {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 31 + i / 251) as u8).collect();
            let word = |chunk: &[u8]| {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                u64::from_le_bytes(word)
            };
            let expected = bytes.chunks(8).map(word).fold(0, u64::wrapping_add);
            for n_threads in [1, 3] {
                assert_eq!(read_bandwidth(&mut Pool::new(n_threads), &bytes), expected, "{len}");
            }
        }
    }

    #[test]
    fn a_synthetic_product_of_every_type_computes_numbers() {
        for quant in frank_gguf::quant::QUANTS {
            let weight_type = WeightType::of(quant.id).expect("each type can be multiplied");
            let mut product =
                SyntheticProduct::new(weight_type, (256, 18), 3).expect("whole blocks");
            product.run(&mut Pool::new(2));
            assert_eq!(product.multiply_adds(), 256 * 18 * 3);
            let finite = product.out.iter().all(|value| value.is_finite());
            assert!(finite, "{}: {:?}", weight_type.name(), product.out);
        }
    }
}
