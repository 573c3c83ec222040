//! Rows of activations in the 8-bit blocks that products with interleaved weights read.

use crate::cpu::{Isa, for_each_isa};

/// Values of a block, of quantized activations and of the weights that are multiplied with them.
pub(crate) const QUANT_BLOCK: usize = 32;

/// Rows of activations, `[n_rows, n_in]`, in 8 bits: scratch of a product.
///
/// A block of 32 values is stored as `q = round(x * (127 / max|x|))`, ties to even, with the scale `max|x| / 127`.
/// A row's blocks depend on that row alone, so a row computes the same whatever its batch mates are.
#[derive(Debug, Default)]
pub struct Activations {
    n_rows: usize,
    n_in: usize,
    /// `[n_rows, n_blocks]`.
    blocks: Vec<QuantBlock>,
}

/// 32 quantized activations, with what dot products want to know of them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct QuantBlock {
    /// From -127 to 127, in words of four; zero past the end of the row.
    pub(crate) quants: [[i8; 4]; QUANT_BLOCK / 4],
    /// What one step of a quant is worth.
    pub(crate) scale: f32,
    /// `scale * Σ quants`, rounded.
    pub(crate) offset: f32,
    /// Sums of both halves of the quants.
    half_sums: [i16; 2],
}

impl QuantBlock {
    /// Words and sum of each half of the quants.
    #[inline(always)]
    pub(crate) fn halves(&self) -> [(&[[i8; 4]; QUANT_BLOCK / 8], i32); 2] {
        let (halves, _) = self.quants.as_chunks();
        [(&halves[0], self.half_sums[0].into()), (&halves[1], self.half_sums[1].into())]
    }

    /// Sum of the quants.
    #[inline(always)]
    pub(crate) fn sum(&self) -> i32 {
        i32::from(self.half_sums[0]) + i32::from(self.half_sums[1])
    }
}

impl Activations {
    /// Room for `n_rows` rows of `n_in` values; nothing is allocated later for that many or fewer.
    #[must_use]
    pub fn with_capacity(n_rows: usize, n_in: usize) -> Self {
        let n_blocks = n_rows * n_in.div_ceil(QUANT_BLOCK);
        // Written and not only reserved: the pages are touched now and not in the first request.
        let touched = QuantBlock { scale: 1.0, ..QuantBlock::default() };
        Self { n_rows, n_in, blocks: vec![touched; n_blocks] }
    }

    /// Bytes that [`Activations::with_capacity`] takes for one row.
    #[must_use]
    pub fn row_bytes(n_in: usize) -> usize {
        n_in.div_ceil(QUANT_BLOCK) * size_of::<QuantBlock>()
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
        self.blocks.resize(self.n_rows * n_blocks, QuantBlock::default());
        for (x, blocks) in x.chunks_exact(n_in).zip(self.blocks.chunks_exact_mut(n_blocks)) {
            quantize_row(isa, x, blocks);
        }
    }

    /// The blocks of one row.
    pub(crate) fn row(&self, row: usize) -> &[QuantBlock] {
        let n_blocks = self.n_in.div_ceil(QUANT_BLOCK);
        &self.blocks[row * n_blocks..(row + 1) * n_blocks]
    }
}

for_each_isa! {
    /// Quantizes one row, the last block padded with zeros.
    fn quantize_row(x: &[f32], blocks: &mut [QuantBlock]) = quantize_row_body
}

#[inline(always)]
fn quantize_row_body(x: &[f32], blocks: &mut [QuantBlock]) {
    let (whole, tail) = x.as_chunks::<QUANT_BLOCK>();
    let mut padded = [0.0; QUANT_BLOCK];
    padded[..tail.len()].copy_from_slice(tail);
    let values = whole.iter().chain((!tail.is_empty()).then_some(&padded));
    for (x, block) in values.zip(blocks) {
        *block = quantize_block(x);
    }
}

/// 1.5 * 2^23: a small float added to it is rounded to a whole number, ties to even, in the lowest bits of the sum.
const ROUND: f32 = 12_582_912.0;

/// A block of zeros, or one that holds a NaN or an infinity as its largest value, has a
/// scale that says so; its quants are in range whatever the input was.
#[inline(always)]
fn quantize_block(x: &[f32; QUANT_BLOCK]) -> QuantBlock {
    // `max` of the absolute bits: the bits of positive floats order as integers, and a NaN is above all numbers.
    let max = x.iter().fold(0u32, |max, v| max.max(v.to_bits() & 0x7fff_ffff));
    let max = f32::from_bits(max);
    let inverse = if max > 0.0 { 127.0 / max } else { 0.0 };
    let mut quants = [0i8; QUANT_BLOCK];
    for (q, x) in quants.iter_mut().zip(x) {
        let product = x * inverse;
        // NaN and products beyond a quant's range come from NaN, from infinities, or from a subnormal `max`.
        let bounded = if product.is_nan() { 0.0 } else { product.clamp(-127.0, 127.0) };
        *q = (bounded + ROUND).to_bits() as i8;
    }
    let (low, high) = quants.split_at(QUANT_BLOCK / 2);
    let half_sums = [low, high].map(|half| half.iter().map(|&q| i16::from(q)).sum::<i16>());
    let scale = max / 127.0;
    let offset = scale * (f32::from(half_sums[0]) + f32::from(half_sums[1]));
    QuantBlock { quants: bytemuck::cast(quants), scale, offset, half_sums }
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
        let [first, second] = a.row(0) else { panic!("two blocks") };
        assert_eq!(first.quants[0], [32, 32, 32, -127]); // 31.75, to the nearest
        assert_eq!(second.quants[..3], [[127; 4], [127; 4], [0; 4]]);
        assert_eq!([first.scale, second.scale], [2.0 / 127.0, 0.5 / 127.0]);
        assert_eq!([first.sum(), second.sum()], [31 * 32 - 127, 8 * 127]);
        assert_eq!(first.halves().map(|(_, sum)| sum), [15 * 32 - 127, 16 * 32]);
        assert_eq!(second.offset, 0.5 / 127.0 * 8.0 * 127.0);
    }

    #[test]
    fn zeros_stay_zeros() {
        assert_eq!(quantized(Isa::Scalar, &[0.0; 32]).row(0), [QuantBlock::default()]);
    }

    proptest! {
        #[test]
        fn every_instruction_set_quantizes_to_the_same_bits(bits in prop::collection::vec(any::<u32>(), 1..200)) {
            let x: Vec<f32> = bits.into_iter().map(f32::from_bits).collect();
            // Which NaN comes out is not specified; that one comes out is.
            let bits = |x: f32| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() };
            let parts = |isa| quantized(isa, &x).blocks.iter().map(|b| (b.quants, b.half_sums, bits(b.scale), bits(b.offset))).collect::<Vec<_>>();
            prop_assert_eq!(parts(Isa::Scalar), parts(Isa::Avx2));
            prop_assert_eq!(parts(Isa::Scalar), parts(Isa::Avx512Vnni));
        }
    }
}
