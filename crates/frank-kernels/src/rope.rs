//! Rotary position embedding: a table of angles per batch row, and the rotation of heads.

use crate::cpu::{for_each_isa, isa};
use crate::elementwise::share_mut;
use crate::pool::Pool;

/// Cosines and sines of a batch's positions, `[n_rows, n_rot / 2]` each.
///
/// The angle of pair `i` at position `p` is `p * inverse_frequency[i]`, rounded to f32 once; cosine and sine are
/// taken of that in f64 and rounded.
#[derive(Debug, Default)]
pub struct RopeTable {
    n_pairs: usize,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl RopeTable {
    /// Room for `n_rows` rows of `n_pairs` pairs; nothing is allocated later for that many or fewer.
    #[must_use]
    pub fn with_capacity(n_rows: usize, n_pairs: usize) -> Self {
        Self { n_pairs, cos: vec![0.0; n_rows * n_pairs], sin: vec![0.0; n_rows * n_pairs] }
    }

    /// Bytes that [`RopeTable::with_capacity`] takes for one row.
    #[must_use]
    pub fn row_bytes(n_pairs: usize) -> usize {
        2 * n_pairs * size_of::<f32>()
    }

    /// Fills the table for `positions`, one row each; cosines and sines are taken times `magnitude`.
    pub fn fill(&mut self, positions: &[u32], inverse_frequency: &[f32], magnitude: f32) {
        self.n_pairs = inverse_frequency.len();
        self.cos.clear();
        self.sin.clear();
        for &position in positions {
            for frequency in inverse_frequency {
                #[expect(clippy::cast_precision_loss, reason = "positions are below 2^24")]
                let angle = position as f32 * frequency;
                let (sin, cos) = f64::from(angle).sin_cos();
                #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is the point")]
                let (sin, cos) = (sin as f32, cos as f32);
                self.cos.push(cos * magnitude);
                self.sin.push(sin * magnitude);
            }
        }
    }
}

/// Which values of a head rotate together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopePairs {
    /// `(x[2i], x[2i + 1])`.
    Adjacent,
    /// `(x[i], x[i + n_pairs])`.
    Halves,
}

/// Rotates the pairs of each head in place.
///
/// Shapes: `x` is `[n_rows, n_head, head_dim]`; the first `2 * n_pairs` values of a head rotate.
///
/// # Panics
/// When `x` is not whole rows, or a head is smaller than the table's pairs.
pub fn rope(pool: &mut Pool, x: &mut [f32], head_dim: usize, pairs: RopePairs, table: &RopeTable) {
    let n_rows = table.cos.len() / table.n_pairs;
    assert!(2 * table.n_pairs <= head_dim, "{} pairs in heads of {head_dim}", table.n_pairs);
    assert!(x.len().is_multiple_of(n_rows * head_dim), "{} values in {n_rows} rows", x.len());
    let row = x.len() / n_rows;
    share_mut(pool, x, row, &|x, range| {
        let first = range.start / row * table.n_pairs;
        let cos = table.cos[first..].chunks_exact(table.n_pairs);
        let angles = cos.zip(table.sin[first..].chunks_exact(table.n_pairs));
        for (x, (cos, sin)) in x.chunks_exact_mut(row).zip(angles) {
            match pairs {
                RopePairs::Adjacent => rotate_adjacent(isa(), x, head_dim, cos, sin),
                RopePairs::Halves => rotate_halves(isa(), x, head_dim, cos, sin),
            }
        }
    });
}

for_each_isa! {
    fn rotate_adjacent(x: &mut [f32], head_dim: usize, cos: &[f32], sin: &[f32]) = rotate_adjacent_body
}

for_each_isa! {
    fn rotate_halves(x: &mut [f32], head_dim: usize, cos: &[f32], sin: &[f32]) = rotate_halves_body
}

#[inline(always)]
fn rotate_adjacent_body(x: &mut [f32], head_dim: usize, cos: &[f32], sin: &[f32]) {
    for head in x.chunks_exact_mut(head_dim) {
        let (pairs, _) = head.as_chunks_mut::<2>();
        for (([a, b], cos), sin) in pairs.iter_mut().zip(cos).zip(sin) {
            rotate(a, b, *cos, *sin);
        }
    }
}

#[inline(always)]
fn rotate_halves_body(x: &mut [f32], head_dim: usize, cos: &[f32], sin: &[f32]) {
    for head in x.chunks_exact_mut(head_dim) {
        let (first, second) = head[..2 * cos.len()].split_at_mut(cos.len());
        for (((a, b), cos), sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
            rotate(a, b, *cos, *sin);
        }
    }
}

#[inline(always)]
fn rotate(a: &mut f32, b: &mut f32, cos: f32, sin: f32) {
    (*a, *b) = (a.mul_add(cos, -(*b * sin)), a.mul_add(sin, *b * cos));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Isa;
    use proptest::prelude::*;

    fn table(positions: &[u32]) -> RopeTable {
        let mut table = RopeTable::default();
        table.fill(positions, &[std::f32::consts::FRAC_PI_2], 1.0);
        table
    }

    #[test]
    fn position_zero_does_not_rotate() {
        let mut x = [1.0, 2.0, 3.0, 4.0];
        rope(&mut Pool::new(1), &mut x, 4, RopePairs::Adjacent, &table(&[0]));
        assert_eq!(x, [1.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn a_quarter_turn_swaps_the_pair_in_each_head_and_leaves_the_rest() {
        let mut x = [1.0, 0.0, 9.0, 9.0, 0.0, 2.0, 9.0, 9.0];
        rope(&mut Pool::new(1), &mut x, 4, RopePairs::Adjacent, &table(&[1]));
        let expected = [0.0, 1.0, 9.0, 9.0, -2.0, 0.0, 9.0, 9.0];
        for (x, e) in x.iter().zip(expected) {
            assert!((x - e).abs() < 1e-6, "{x} is not {e}");
        }
    }

    #[test]
    fn each_row_turns_by_its_own_position() {
        let mut x = [1.0, 0.0, 1.0, 0.0];
        rope(&mut Pool::new(1), &mut x, 2, RopePairs::Adjacent, &table(&[2, 4]));
        assert!((x[0] + 1.0).abs() < 1e-6 && (x[2] - 1.0).abs() < 1e-5, "{x:?}");
    }

    #[test]
    fn threads_share_rows_without_a_change() {
        let positions: Vec<u32> = (0..900).collect();
        let (head_dim, n_head) = (6, 5);
        let mut table = RopeTable::default();
        table.fill(&positions, &[1.0, 0.3, 0.01], 1.0);
        let rotated = |n_threads| {
            let values = (0u16..).take(900 * head_dim * n_head);
            let mut x: Vec<f32> = values.map(|i| f32::from(i % 977)).collect();
            rope(&mut Pool::new(n_threads), &mut x, head_dim, RopePairs::Halves, &table);
            x
        };
        assert_eq!(rotated(1), rotated(3));
    }

    #[test]
    fn halves_pair_each_value_with_its_place_in_the_second_half() {
        let mut table = RopeTable::default();
        let quarter = std::f32::consts::FRAC_PI_2;
        table.fill(&[1], &[quarter, 2.0 * quarter], 0.5);
        // Two heads of five: the fifth value does not rotate. A quarter turn and a half turn, at half the length.
        let mut x = [1.0, 3.0, 0.0, 0.0, 9.0, 0.0, 0.0, 2.0, 4.0, 9.0];
        rope(&mut Pool::new(1), &mut x, 5, RopePairs::Halves, &table);
        let expected = [0.0, -1.5, 0.5, 0.0, 9.0, -1.0, 0.0, 0.0, -2.0, 9.0];
        for (x, e) in x.iter().zip(expected) {
            assert!((x - e).abs() < 1e-6, "{x} is not {e}");
        }
    }

    proptest! {
        #[test]
        fn every_instruction_set_rotates_to_the_same_bits(
            x in prop::collection::vec(-1e2f32..1e2, 3 * 70), n_pairs in 1usize..36, position in 0u32..100_000,
        ) {
            let mut table = RopeTable::default();
            let frequencies: Vec<f32> = (0u8..).take(n_pairs).map(|i| 0.7f32.powi(i.into())).collect();
            table.fill(&[position], &frequencies, 1.1);
            for rotate in [rotate_adjacent, rotate_halves] {
                let rotated = |isa| {
                    let mut x = x.clone();
                    rotate(isa, &mut x, 70, &table.cos, &table.sin);
                    x.into_iter().map(f32::to_bits).collect::<Vec<_>>()
                };
                prop_assert_eq!(rotated(Isa::Scalar), rotated(Isa::Avx2));
                prop_assert_eq!(rotated(Isa::Scalar), rotated(Isa::Avx512Vnni));
            }
        }
    }
}
