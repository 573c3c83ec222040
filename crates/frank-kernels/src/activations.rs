//! Rows of activations in the 8-bit blocks that products with interleaved weights read.

use std::ops::Range;

use crate::cpu::{Isa, for_each_isa};
use crate::disjoint::Disjoint;
use crate::pool::Pool;

/// Values of a block, of quantized activations and of the weights that are multiplied with them.
pub(crate) const QUANT_BLOCK: usize = 32;

/// Rows of a tile.
pub(crate) const TILE: usize = 16;

/// Rows that a task quantizes, about.
const TASK_ROWS: usize = 16;

/// How the blocks of the rows of a piece follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// `[n_rows, n_blocks]`: row after row.
    Rows,
    /// `[n_blocks, n_rows]`: what tile registers load.
    Tiles,
}

/// Consecutive rows, as many as a tile has or fewer, and the order of their blocks.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub(crate) rows: Range<usize>,
    pub(crate) order: Order,
}

/// Rows of activations, `[n_rows, n_in]`, in 8 bits: scratch of a product.
///
/// A block of 32 values is stored as `q = round(x * (127 / max|x|))`, ties to even, with the scale `max|x| / 127`.
/// A row's blocks depend on that row alone, so a row computes the same whatever its batch mates are. Pieces of rows have
/// their blocks in the place of these rows, each piece in its own order.
#[derive(Debug, Default)]
pub struct Activations {
    n_in: usize,
    /// A block for each row and each of its blocks.
    blocks: Vec<QuantBlock>,
}

/// 32 quantized activations, with what dot products want to know of them. Aligned so that of four blocks in a row one
/// has its quants in two cache lines.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[repr(C, align(16))]
pub(crate) struct QuantBlock {
    /// From -127 to 127, in words of four; zero past the end of the row.
    pub(crate) quants: [[i8; 4]; QUANT_BLOCK / 4],
    /// What one step of a quant is worth.
    pub(crate) scale: f32,
    /// `scale * Σ quants`, rounded.
    pub(crate) offset: f32,
    /// Sums of both halves of the quants.
    pub(crate) half_sums: [i16; 2],
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
        Self { n_in, blocks: vec![touched; n_blocks] }
    }

    /// Bytes that [`Activations::with_capacity`] takes for one row.
    #[must_use]
    pub fn row_bytes(n_in: usize) -> usize {
        n_in.div_ceil(QUANT_BLOCK).saturating_mul(size_of::<QuantBlock>())
    }

    /// Quantizes the rows of `pieces`, which ascend without overlap, of `x`, `[n_rows, n_in]`, with all threads of `pool`.
    /// What stands in the place of other rows is not specified.
    ///
    /// # Panics
    /// When `x` is not whole rows, a piece has other rows, or two pieces overlap.
    pub(crate) fn quantize(
        &mut self,
        isa: Isa,
        pool: &mut Pool,
        x: &[f32],
        n_in: usize,
        pieces: &(impl Iterator<Item = Piece> + Clone + Sync),
    ) {
        assert!(
            n_in > 0 && x.len().is_multiple_of(n_in),
            "{} values are no rows of {n_in}",
            x.len()
        );
        self.n_in = n_in;
        let n_blocks = self.n_blocks();
        self.blocks.resize(x.len() / n_in * n_blocks, QuantBlock::default());
        let (mut n_pieces, mut n_rows, mut end) = (0, 0, 0);
        for Piece { rows, .. } in pieces.clone() {
            assert!(end <= rows.start, "pieces ascend without overlap");
            n_pieces += 1;
            n_rows += rows.len();
            end = rows.end;
        }
        let n_tasks = n_rows.div_ceil(TASK_ROWS);
        let blocks = Disjoint::new(&mut self.blocks);
        pool.run(n_tasks, &|task| {
            let (first, end) = (task * n_pieces / n_tasks, (task + 1) * n_pieces / n_tasks);
            for Piece { rows, order } in pieces.clone().skip(first).take(end - first) {
                let x = &x[rows.start * n_in..rows.end * n_in];
                // SAFETY: the blocks of these rows lie together in both orders, and no other piece has these rows, as was just checked.
                let blocks =
                    unsafe { blocks.range_mut(rows.start * n_blocks, rows.len() * n_blocks) };
                for (i, x) in x.chunks_exact(n_in).enumerate() {
                    match order {
                        Order::Rows => quantize_row(isa, x, &mut blocks[i * n_blocks..], 1),
                        Order::Tiles => quantize_row(isa, x, &mut blocks[i..], rows.len()),
                    }
                }
            }
        });
    }

    /// Blocks of a row.
    pub(crate) fn n_blocks(&self) -> usize {
        self.n_in.div_ceil(QUANT_BLOCK)
    }

    /// The blocks of one row, which is in a piece with the order of rows.
    pub(crate) fn row(&self, row: usize) -> &[QuantBlock] {
        self.piece(row..row + 1)
    }

    /// The blocks of the rows of a piece in its order.
    pub(crate) fn piece(&self, rows: Range<usize>) -> &[QuantBlock] {
        let n_blocks = self.n_blocks();
        &self.blocks[rows.start * n_blocks..rows.end * n_blocks]
    }
}

for_each_isa! {
    /// Quantizes one row to every `stride`-th of `blocks`, the last block padded with zeros.
    fn quantize_row(x: &[f32], blocks: &mut [QuantBlock], stride: usize) = quantize_row_body
}

#[inline(always)]
fn quantize_row_body(x: &[f32], blocks: &mut [QuantBlock], stride: usize) {
    let (whole, tail) = x.as_chunks::<QUANT_BLOCK>();
    let mut padded = [0.0; QUANT_BLOCK];
    padded[..tail.len()].copy_from_slice(tail);
    let values = whole.iter().chain((!tail.is_empty()).then_some(&padded));
    for (x, block) in values.zip(blocks.iter_mut().step_by(stride)) {
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
        let row = std::iter::once(Piece { rows: 0..1, order: Order::Rows });
        activations.quantize(isa, &mut Pool::new(1), x, x.len(), &row);
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

    #[test]
    fn tiles_hold_the_same_blocks_as_rows() {
        let (n_in, n_rows) = (70, 37);
        let x: Vec<f32> = (0..n_in * n_rows).map(|i| (i as f32 * 0.7).sin()).collect();
        let in_order = |order, n_threads| {
            let pieces = (0..n_rows).step_by(TILE);
            let pieces = pieces.map(|row| Piece { rows: row..n_rows.min(row + TILE), order });
            let mut activations = Activations::default();
            activations.quantize(Isa::Amx, &mut Pool::new(n_threads), &x, n_in, &pieces);
            activations
        };
        let (rows, tiles) = (in_order(Order::Rows, 1), in_order(Order::Tiles, 2));
        for first_row in (0..n_rows).step_by(TILE) {
            let height = TILE.min(n_rows - first_row);
            let tile = tiles.piece(first_row..first_row + height);
            for (i, block) in tile.iter().enumerate() {
                assert_eq!(block, &rows.row(first_row + i % height)[i / height], "{first_row} {i}");
            }
        }
    }

    #[test]
    fn pieces_have_their_own_orders_and_leave_rows_out() {
        let n_in = 64;
        let x: Vec<f32> = (0..n_in * 9).map(|i| (i as f32 * 0.7).sin()).collect();
        let pieces = [(1..3, Order::Tiles), (3..4, Order::Rows), (6..9, Order::Tiles)];
        let mut activations = Activations::default();
        let each = pieces.iter().map(|(rows, order)| Piece { rows: rows.clone(), order: *order });
        activations.quantize(Isa::Scalar, &mut Pool::new(2), &x, n_in, &each);
        for (rows, order) in pieces {
            for (i, row) in rows.clone().enumerate() {
                let alone = quantized(Isa::Scalar, &x[row * n_in..][..n_in]);
                let piece = activations.piece(rows.clone());
                let (first, second) = match order {
                    Order::Rows => (2 * i, 2 * i + 1),
                    Order::Tiles => (i, rows.len() + i),
                };
                assert_eq!([piece[first], piece[second]], alone.row(0), "row {row}");
            }
        }
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
            prop_assert_eq!(parts(Isa::Scalar), parts(Isa::Amx));
        }
    }
}
