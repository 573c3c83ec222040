//! Rows of activations in the two forms that matrix products read: f32, and 8-bit blocks made per row.

use crate::cpu::{Isa, for_each_isa};

/// Values of a block, of quantized activations and of the weights that are multiplied with them.
pub(crate) const QUANT_BLOCK: usize = 32;

/// Rows of activations, `[n_rows, n_in]`, with their 8-bit form.
///
/// A block of 32 values is stored as `q = round(x * (127 / max|x|))`, ties to even, with the scale `max|x| / 127`.
/// A row's blocks depend on that row alone, so a row computes the same whatever its batch mates are.
#[derive(Debug, Default)]
pub struct Activations {
    n_rows: usize,
    n_in: usize,
    /// `[n_rows, n_blocks * 32]`; the tail of the last block is zero.
    quants: Vec<i8>,
    /// `[n_rows, n_blocks]`.
    scales: Vec<f32>,
    /// Sum of the quants of each block, `[n_rows, n_blocks]`.
    sums: Vec<i32>,
}

/// One row of quantized activations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuantRow<'a> {
    pub(crate) quants: &'a [[i8; QUANT_BLOCK]],
    pub(crate) scales: &'a [f32],
    pub(crate) sums: &'a [i32],
}

impl Activations {
    /// Room for `n_rows` rows of `n_in` values; nothing is allocated later for that many or fewer.
    #[must_use]
    pub fn with_capacity(n_rows: usize, n_in: usize) -> Self {
        let n_blocks = n_in.div_ceil(QUANT_BLOCK);
        // Zeroed and not only reserved: the pages are touched now and not in the first request.
        Self {
            n_rows,
            n_in,
            quants: vec![0; n_rows * n_blocks * QUANT_BLOCK],
            scales: vec![0.0; n_rows * n_blocks],
            sums: vec![0; n_rows * n_blocks],
        }
    }

    /// Bytes that [`Activations::with_capacity`] takes for one row.
    #[must_use]
    pub fn row_bytes(n_in: usize) -> usize {
        n_in.div_ceil(QUANT_BLOCK) * (QUANT_BLOCK + size_of::<f32>() + size_of::<i32>())
    }

    /// Quantizes `x`, `[n_rows, n_in]`.
    ///
    /// # Panics
    /// When `x` is not whole rows.
    pub(crate) fn quantize_with(&mut self, isa: Isa, x: &[f32], n_in: usize) {
        assert!(
            n_in > 0 && x.len().is_multiple_of(n_in),
            "{} values are no rows of {n_in}",
            x.len()
        );
        let n_blocks = n_in.div_ceil(QUANT_BLOCK);
        self.n_in = n_in;
        self.n_rows = x.len() / n_in;
        self.quants.resize(self.n_rows * n_blocks * QUANT_BLOCK, 0);
        self.scales.resize(self.n_rows * n_blocks, 0.0);
        self.sums.resize(self.n_rows * n_blocks, 0);
        let (quants, _) = self.quants.as_chunks_mut::<QUANT_BLOCK>();
        let rows = x.chunks_exact(n_in).zip(quants.chunks_exact_mut(n_blocks));
        let meta = self.scales.chunks_exact_mut(n_blocks).zip(self.sums.chunks_exact_mut(n_blocks));
        for ((x, quants), (scales, sums)) in rows.zip(meta) {
            quantize_row(isa, x, quants, scales, sums);
        }
    }

    /// Rows held.
    pub(crate) fn n_rows(&self) -> usize {
        self.n_rows
    }

    pub(crate) fn row(&self, row: usize) -> QuantRow<'_> {
        let n_blocks = self.n_in.div_ceil(QUANT_BLOCK);
        let blocks = row * n_blocks..(row + 1) * n_blocks;
        let (quants, _) = self.quants.as_chunks::<QUANT_BLOCK>();
        QuantRow {
            quants: &quants[blocks.clone()],
            scales: &self.scales[blocks.clone()],
            sums: &self.sums[blocks],
        }
    }
}

for_each_isa! {
    /// Quantizes one row, the last block padded with zeros.
    fn quantize_row(x: &[f32], quants: &mut [[i8; QUANT_BLOCK]], scales: &mut [f32], sums: &mut [i32]) = quantize_row_body
}

#[inline(always)]
fn quantize_row_body(
    x: &[f32],
    quants: &mut [[i8; QUANT_BLOCK]],
    scales: &mut [f32],
    sums: &mut [i32],
) {
    let (whole, tail) = x.as_chunks::<QUANT_BLOCK>();
    let mut padded = [0.0; QUANT_BLOCK];
    padded[..tail.len()].copy_from_slice(tail);
    let blocks = whole.iter().chain((!tail.is_empty()).then_some(&padded));
    for (((x, q), scale), sum) in blocks.zip(quants).zip(scales).zip(sums) {
        (*scale, *sum) = quantize_block(x, q);
    }
}

/// Returns scale and sum. A block of zeros, or one that holds a NaN or an infinity as its largest value, has a
/// scale that says so; its quants are in range whatever the input was.
#[inline(always)]
fn quantize_block(x: &[f32; QUANT_BLOCK], q: &mut [i8; QUANT_BLOCK]) -> (f32, i32) {
    // `max` of the absolute bits: the bits of positive floats order as integers, and a NaN is above all numbers.
    let max = x.iter().fold(0u32, |max, v| max.max(v.to_bits() & 0x7fff_ffff));
    let max = f32::from_bits(max);
    let inverse = if max > 0.0 { 127.0 / max } else { 0.0 };
    let mut sum = 0;
    for (q, x) in q.iter_mut().zip(x) {
        // A product beyond a quant's range can come from NaN or from a subnormal `max`; the cast saturates.
        #[expect(clippy::cast_possible_truncation, reason = "the cast saturates and NaN becomes 0")]
        let rounded = (x * inverse).round_ties_even().clamp(-127.0, 127.0) as i8;
        *q = rounded;
        sum += i32::from(rounded);
    }
    (max / 127.0, sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn quantized(isa: Isa, x: &[f32]) -> Activations {
        let mut activations = Activations::default();
        activations.quantize_with(isa, x, x.len());
        activations
    }

    #[test]
    fn the_largest_value_of_a_block_becomes_127() {
        let mut x = [0.5; 40];
        x[3] = -2.0;
        let a = quantized(Isa::Scalar, &x);
        assert_eq!(a.row(0).quants[0][3], -127);
        assert_eq!(a.row(0).quants[0][0], 32); // 31.75, to the nearest
        assert_eq!(a.row(0).quants[1][..9], [127, 127, 127, 127, 127, 127, 127, 127, 0]);
        assert_eq!(a.row(0).scales, [2.0 / 127.0, 0.5 / 127.0]);
        assert_eq!(a.row(0).sums, [31 * 32 - 127, 8 * 127]);
    }

    #[test]
    fn zeros_stay_zeros() {
        let a = quantized(Isa::Scalar, &[0.0; 32]);
        assert_eq!((a.row(0).quants[0], a.row(0).scales[0]), ([0; 32], 0.0));
    }

    proptest! {
        #[test]
        fn every_instruction_set_quantizes_to_the_same_bits(bits in prop::collection::vec(any::<u32>(), 1..200)) {
            let x: Vec<f32> = bits.into_iter().map(f32::from_bits).collect();
            let scalar = quantized(Isa::Scalar, &x);
            for isa in [Isa::Avx2, Isa::Avx512Vnni] {
                let other = quantized(isa, &x);
                prop_assert_eq!(&scalar.quants, &other.quants);
                prop_assert_eq!(&scalar.sums, &other.sums);
                let bits = |a: &Activations| a.scales.iter().map(|s| s.to_bits()).collect::<Vec<_>>();
                prop_assert_eq!(bits(&scalar), bits(&other));
            }
        }
    }
}
