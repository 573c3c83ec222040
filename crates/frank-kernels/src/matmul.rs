//! Matrix products over the compute pool. The threads share groups of output columns, never a sum.

use crate::activations::Activations;
use crate::cpu::{Isa, isa};
use crate::disjoint::Disjoint;
use crate::matrix::{Input, Matrix};
use crate::pool::Pool;
use crate::weights::{GROUP_ROWS, GroupDots, TILE_ROWS};

/// Tasks per thread: small enough that a thread which lost its core for a while does not hold up the others.
const TASKS_PER_THREAD: usize = 8;

/// One product of a job: `out = x · weightᵀ`.
#[derive(Debug)]
pub struct Product<'a> {
    matrix: Matrix<'a>,
    out: Disjoint<'a, f32>,
    out_len: usize,
}

impl<'a> Product<'a> {
    /// The product with `matrix`, written to `out`, `[n_rows, matrix.n_out]`.
    #[must_use]
    pub fn new(matrix: Matrix<'a>, out: &'a mut [f32]) -> Self {
        Self { matrix, out_len: out.len(), out: Disjoint::new(out) }
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
    matmul_with(isa(), pool, x, n_in, quants, products);
}

pub(crate) fn matmul_with(
    isa: Isa,
    pool: &mut Pool,
    x: &[f32],
    n_in: usize,
    quants: &mut Activations,
    products: &mut [Product<'_>],
) {
    assert!(n_in > 0 && x.len().is_multiple_of(n_in), "{} values are no rows of {n_in}", x.len());
    let n_rows = x.len() / n_in;
    if n_rows == 0 || products.is_empty() {
        return;
    }
    for product in &*products {
        let shape = product.matrix.shape();
        assert_eq!(shape.n_in(), n_in, "activations and weights have the same inner size");
        assert_eq!(
            product.out_len,
            n_rows * shape.n_out(),
            "the output holds a row for each row of x"
        );
    }
    if products.iter().any(|product| product.matrix.reads_quants()) {
        quants.quantize_with(isa, x, n_in);
    }
    let input = Input { x, n_in, quants };
    let n_groups: usize = products.iter().map(|p| p.matrix.shape().n_groups()).sum();
    let per_task = n_groups.div_ceil(pool.n_threads() * TASKS_PER_THREAD);
    let products = &*products;
    pool.run(n_groups.div_ceil(per_task), &|task| {
        let mut tile = [[0.0; GROUP_ROWS]; TILE_ROWS];
        for group in task * per_task..((task + 1) * per_task).min(n_groups) {
            let (product, group) = locate(products, group);
            product.compute_group(isa, group, input, n_rows, &mut tile);
        }
    });
}

/// The product and its own group for a group counted over all products.
fn locate<'p, 'a>(products: &'p [Product<'a>], mut group: usize) -> (&'p Product<'a>, usize) {
    for product in products {
        let n_groups = product.matrix.shape().n_groups();
        if group < n_groups {
            return (product, group);
        }
        group -= n_groups;
    }
    unreachable!("group {group} past the last product");
}

impl Product<'_> {
    /// `tile` is scratch.
    fn compute_group(
        &self,
        isa: Isa,
        group: usize,
        input: Input<'_>,
        n_rows: usize,
        tile: &mut [GroupDots; TILE_ROWS],
    ) {
        let n_out = self.matrix.shape().n_out();
        let first_column = group * GROUP_ROWS;
        let n_columns = GROUP_ROWS.min(n_out - first_column);
        for first_row in (0..n_rows).step_by(TILE_ROWS) {
            let tile = &mut tile[..TILE_ROWS.min(n_rows - first_row)];
            self.matrix.dot_group(isa, group, input, first_row, tile);
            for (row, lanes) in (first_row..).zip(&*tile) {
                // SAFETY: each group is computed by one task, and groups are ranges of columns without overlap.
                let out = unsafe { self.out.range_mut(row * n_out + first_column, n_columns) };
                out.copy_from_slice(&lanes[..n_columns]);
            }
        }
    }
}

#[cfg(test)]
mod tests;
