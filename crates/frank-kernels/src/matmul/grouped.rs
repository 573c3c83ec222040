//! Products of runs of rows with a matrix for each: the experts of a mixture, or the heads of latent attention.

use std::ops::Range;

use super::TILES_GROUP_ROWS_MIN;
use super::job::{Means, Output, Rows, multiply};
use crate::activations::Activations;
use crate::cpu::Isa;
use crate::matrix::Matrix;
use crate::pool::Pool;

/// Consecutive rows of activations that are multiplied with one matrix.
#[derive(Debug, Clone)]
pub struct RowGroup<'a> {
    /// The rows of `x` and of the output; may be empty.
    pub rows: Range<usize>,
    /// What they are multiplied with.
    pub matrix: Matrix<'a>,
}

/// One product of a grouped job: `out[rows] = x[rows] · matrixᵀ` for each of its groups.
#[derive(Debug)]
pub struct GroupedProduct<'a> {
    groups: &'a [RowGroup<'a>],
    out: Output<'a>,
}

impl<'a> GroupedProduct<'a> {
    /// The product of `groups`, whose rows ascend without overlap and whose matrices have one output size, written to
    /// `out`, `[n_rows, n_out]`. Rows that no group has are not written.
    #[must_use]
    pub fn new(groups: &'a [RowGroup<'a>], out: &'a mut [f32]) -> Self {
        Self { groups, out: Output::new(out) }
    }
}

impl Rows for GroupedProduct<'_> {
    fn groups(&self) -> &[RowGroup<'_>] {
        self.groups
    }

    fn out(&self) -> Output<'_> {
        self.out
    }
}

/// Multiplies runs of the rows of `x`, `[n_rows, n_in]`, with a matrix for each run, for each of `products`, in one job.
///
/// All products have groups of the same rows. The bits are those of [`matmul`](super::matmul) of each group alone.
/// `quants` is scratch for the 8-bit form of `x`, made of the rows in groups when a matrix reads it. Cost: reads each
/// matrix once that has rows.
///
/// # Panics
/// When a length does not fit, or the rows of groups do not ascend or are not the same in each product.
pub fn matmul_grouped(
    pool: &mut Pool,
    x: &[f32],
    n_in: usize,
    quants: &mut Activations,
    products: &mut [GroupedProduct<'_>],
) {
    let means = Means { isa: Isa::Amx, tiles_from: TILES_GROUP_ROWS_MIN };
    multiply(means, pool, x, n_in, quants, products);
}
