//! Matrix products over the compute pool. The threads share groups of output columns, never a sum.

use std::ops::Range;

use crate::activations::{Activations, Order};
use crate::columns::Columns;
use crate::cpu::{Isa, isa};
use crate::disjoint::Disjoint;
use crate::matrix::{Input, Matrix};
use crate::pool::Pool;
#[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
use crate::weights::tiles::{self, TileScratch};
use crate::weights::{GROUP_ROWS, GroupDots, TILE_ROWS};

/// Tasks per thread: small enough that a thread which lost its core for a while does not hold up the others.
const TASKS_PER_THREAD: usize = 8;

/// Rows from which on tile registers are faster than vector registers: Q4_1 is slower by tiles at 8 rows (0.7 times the
/// speed), about equal at 16 (0.95), and faster at 64 (1.2).
const TILES_ROWS_MIN: usize = 32;

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
    let few_rows = x.len() < TILES_ROWS_MIN * n_in;
    let isa = if few_rows { isa().min(Isa::Avx512Vnni) } else { isa() };
    matmul_with(isa, pool, x, n_in, quants, products);
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
    products.iter().for_each(|product| product.check(n_in, n_rows));
    let isa = isa.min(crate::cpu::isa());
    let order = if isa == Isa::Amx { Order::Tiles } else { Order::Rows };
    if products.iter().any(|product| product.matrix.reads_quants()) {
        quants.quantize(isa, pool, x, n_in, order);
    }
    let input = Input { x, n_in, quants };
    let n_groups: usize = products.iter().map(|p| p.matrix.shape().n_groups()).sum();
    let per_task = n_groups.div_ceil(pool.n_threads() * TASKS_PER_THREAD);
    let job = Job { isa, products: &*products, input, n_rows };
    pool.run(n_groups.div_ceil(per_task), &|task| {
        let groups = task * per_task..((task + 1) * per_task).min(n_groups);
        match order {
            Order::Rows => job.compute(groups),
            Order::Tiles => job.compute_by_tiles(groups),
        }
    });
}

/// All products of a job, as every thread sees them.
struct Job<'a> {
    isa: Isa,
    products: &'a [Product<'a>],
    input: Input<'a>,
    n_rows: usize,
}

impl Job<'_> {
    /// Computes groups counted over all products.
    fn compute(&self, groups: Range<usize>) {
        let mut tile = [[0.0; GROUP_ROWS]; TILE_ROWS];
        for group in groups {
            let (product, group) = locate(self.products, group);
            product.compute_group(self.isa, group, self.input, self.n_rows, &mut tile);
        }
    }

    /// As [`Job::compute`], with activations in tiles.
    #[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
    fn compute_by_tiles(&self, groups: Range<usize>) {
        let Input { quants, n_in, .. } = self.input;
        let mut scratch = None;
        let rows_at_once = tiles::rows_at_once(n_in);
        for first_row in (0..self.n_rows).step_by(rows_at_once) {
            let rows = first_row..self.n_rows.min(first_row + rows_at_once);
            for group in groups.clone() {
                let (product, group) = locate(self.products, group);
                let Some(dot) = product.matrix.tile_dot() else { continue };
                let scratch = scratch.get_or_insert_with(|| TileScratch::new(self.n_rows));
                let weights = product.matrix.group(group);
                dot(weights, quants, rows.clone(), scratch, product.columns(group));
            }
        }
        let mut tile = [[0.0; GROUP_ROWS]; TILE_ROWS];
        for group in groups {
            let (product, group) = locate(self.products, group);
            if product.matrix.tile_dot().is_none() {
                product.compute_group(self.isa, group, self.input, self.n_rows, &mut tile);
            }
        }
    }

    #[cfg(not(all(target_arch = "x86_64", not(frank_scalar))))]
    fn compute_by_tiles(&self, groups: Range<usize>) {
        unreachable!("groups {groups:?}: this build has no tiles");
    }
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
    /// Panics when it is no product with `n_rows` rows of `n_in` values.
    fn check(&self, n_in: usize, n_rows: usize) {
        let shape = self.matrix.shape();
        assert_eq!(shape.n_in(), n_in, "activations and weights have the same inner size");
        assert_eq!(
            self.out_len,
            n_rows * shape.n_out(),
            "the output holds a row for each row of x"
        );
    }

    /// `tile` is scratch.
    fn compute_group(
        &self,
        isa: Isa,
        group: usize,
        input: Input<'_>,
        n_rows: usize,
        tile: &mut [GroupDots; TILE_ROWS],
    ) {
        let mut columns = self.columns(group);
        for first_row in (0..n_rows).step_by(TILE_ROWS) {
            let tile = &mut tile[..TILE_ROWS.min(n_rows - first_row)];
            self.matrix.dot_group(isa, group, input, first_row, tile);
            for (row, dots) in (first_row..).zip(&*tile) {
                columns.store(row, dots);
            }
        }
    }

    /// The place of a group's dots; each group is computed by one task.
    fn columns(&self, group: usize) -> Columns<'_> {
        let n_out = self.matrix.shape().n_out();
        let first = group * GROUP_ROWS;
        // SAFETY: each group is computed by one task, and groups are ranges of columns without overlap.
        unsafe { Columns::new(self.out, n_out, first, GROUP_ROWS.min(n_out - first)) }
    }
}

#[cfg(test)]
mod tests;
