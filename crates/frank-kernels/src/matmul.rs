//! Matrix products over the compute pool. The threads share groups of output columns, never a sum.

mod grouped;
mod job;

use crate::activations::Activations;
use crate::cpu::Isa;
use crate::matrix::Matrix;
use crate::pool::Pool;
use job::{Means, Output, Rows, multiply};

pub use grouped::{GroupedProduct, RowGroup, matmul_grouped};

/// Rows from which on tile registers are faster than vector registers: Q4_1 is slower by tiles at 8 rows (0.7 times the
/// speed), about equal at 16 (0.95), and faster at 64 (1.2).
const TILES_ROWS_MIN: usize = 32;

/// Rows of a group from which on they are: a task of a grouped job has enough to do that its preparation of the registers
/// counts for less. At 16 rows for each of 32 experts of 2048 x 768 tiles have 1.2 to 1.4 times the speed, for Q2_K 0.95.
const TILES_GROUP_ROWS_MIN: usize = 16;

/// One product of a job: `out = x · weightᵀ`.
#[derive(Debug)]
pub struct Product<'a> {
    /// All rows.
    group: [RowGroup<'a>; 1],
    out: Output<'a>,
}

impl<'a> Product<'a> {
    /// The product with `matrix`, written to `out`, `[n_rows, matrix.n_out]`.
    #[must_use]
    pub fn new(matrix: Matrix<'a>, out: &'a mut [f32]) -> Self {
        let n_rows = out.len() / matrix.shape().n_out();
        Self { group: [RowGroup { rows: 0..n_rows, matrix }], out: Output::new(out) }
    }
}

impl Rows for Product<'_> {
    fn groups(&self) -> &[RowGroup<'_>] {
        &self.group
    }

    fn out(&self) -> Output<'_> {
        self.out
    }
}

/// Multiplies the rows of `x`, `[n_rows, n_in]`, with each matrix of `products` in one job.
///
/// `quants` is scratch for the 8-bit form of `x`, made when a matrix reads it. Cost: reads each matrix once.
///
/// # Panics
/// When a length does not fit.
pub fn matmul(
    pool: &mut Pool,
    x: &[f32],
    n_in: usize,
    quants: &mut Activations,
    products: &mut [Product<'_>],
) {
    let means = Means { isa: Isa::Amx, tiles_from: TILES_ROWS_MIN };
    multiply(means, pool, x, n_in, quants, products);
}

#[cfg(test)]
mod tests;
