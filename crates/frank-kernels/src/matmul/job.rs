//! One job of products: its tasks, which take about the same time each, and what a task computes.
//!
//! A run is a group of rows in one product. A task is some runs, or groups of 16 output columns of one, and computes their
//! dots with all rows of the run. Never a sum that two tasks share.

use std::ops::Range;

use super::RowGroup;
use crate::activations::{Activations, Order, Piece, TILE};
use crate::columns::Columns;
use crate::cpu::{Isa, isa};
use crate::disjoint::Disjoint;
use crate::matrix::{Input, Matrix};
use crate::pool::Pool;
#[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
use crate::weights::tiles::{self, TileScratch};
use crate::weights::{GROUP_ROWS, TILE_ROWS};

/// Tasks per thread: small enough that a thread which lost its core for a while does not hold up the others.
const TASKS_PER_THREAD: usize = 8;

/// The output of a product, `[n_rows, n_out]`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output<'a> {
    values: Disjoint<'a, f32>,
    len: usize,
}

impl<'a> Output<'a> {
    pub(super) fn new(out: &'a mut [f32]) -> Self {
        Self { len: out.len(), values: Disjoint::new(out) }
    }
}

/// A product as a job sees it: groups of rows with a matrix for each, and one output.
pub(super) trait Rows: Sync {
    /// In ascending order.
    fn groups(&self) -> &[RowGroup<'_>];
    fn out(&self) -> Output<'_>;
}

/// With what a job multiplies. The bits are the same.
#[derive(Debug, Clone, Copy)]
pub(super) struct Means {
    /// Lowered to what the CPU has.
    pub(super) isa: Isa,
    /// Rows of a group from which on it is multiplied by tiles, where the instruction set has them.
    pub(super) tiles_from: usize,
}

impl Means {
    /// The order of quantized rows of a group.
    fn order(self, n_rows: usize) -> Order {
        let by_tiles = self.isa == Isa::Amx && n_rows >= self.tiles_from;
        if by_tiles { Order::Tiles } else { Order::Rows }
    }
}

/// Multiplies groups of the rows of `x`, `[n_rows, n_in]`, for each of `products`.
///
/// # Panics
/// When a length does not fit, or the rows of groups do not ascend or are not the same in each product.
pub(super) fn multiply<P: Rows>(
    means: Means,
    pool: &mut Pool,
    x: &[f32],
    n_in: usize,
    quants: &mut Activations,
    products: &[P],
) {
    assert!(n_in > 0 && x.len().is_multiple_of(n_in), "{} values are no rows of {n_in}", x.len());
    check(products, n_in, x.len() / n_in);
    let means = Means { isa: means.isa.min(isa()), ..means };
    if matrices(products).any(Matrix::reads_quants) {
        quants.quantize(means.isa, pool, x, n_in, &pieces(means, products[0].groups()));
    }
    let job = Job { means, products, input: Input { x, n_in, quants } };
    let n_groups: usize = job.runs().map(|run| run.n_groups()).sum();
    let cost: usize = job.runs().map(|run| run.cost()).sum();
    let n_tasks = n_groups.clamp(1, pool.n_threads() * TASKS_PER_THREAD);
    let per_task = cost.div_ceil(n_tasks).max(1);
    let costs_of = |task| task * per_task..(task + 1) * per_task;
    pool.run(cost.div_ceil(per_task), &|task| job.compute(costs_of(task)));
}

/// Panics when `products` are not products with `n_rows` rows of `n_in` values.
fn check<P: Rows>(products: &[P], n_in: usize, n_rows: usize) {
    for product in products {
        let mut end = 0;
        for RowGroup { rows, matrix } in product.groups() {
            assert!(end <= rows.start && rows.start <= rows.end, "rows {rows:?} after row {end}");
            end = rows.end;
            let shape = matrix.shape();
            assert_eq!(shape.n_in(), n_in, "activations and weights have the same inner size");
            let len = product.out().len;
            assert_eq!(len, n_rows * shape.n_out(), "the output holds a row for each row of x");
        }
        assert!(end <= n_rows, "groups end at row {end}, and x has {n_rows}");
        let (groups, first) = (product.groups(), products[0].groups());
        let same = groups.iter().map(|g| &g.rows).eq(first.iter().map(|g| &g.rows));
        assert!(same, "the products have groups of the same rows");
    }
}

/// The matrices of groups that have rows.
fn matrices<P: Rows>(products: &[P]) -> impl Iterator<Item = &Matrix<'_>> {
    let groups = products.iter().flat_map(Rows::groups);
    groups.filter(|group| !group.rows.is_empty()).map(|group| &group.matrix)
}

/// What [`Activations::quantize`] lays out: each group by itself.
fn pieces<'a>(
    means: Means,
    groups: &'a [RowGroup<'a>],
) -> impl Iterator<Item = Piece> + Clone + Sync + use<'a> {
    groups.iter().flat_map(move |RowGroup { rows, .. }| {
        let (order, rows) = (means.order(rows.len()), rows.clone());
        let pieces = rows.clone().step_by(TILE);
        pieces.map(move |first| Piece { rows: first..rows.end.min(first + TILE), order })
    })
}

/// All products of a job, as every thread sees them.
struct Job<'a, P> {
    means: Means,
    products: &'a [P],
    input: Input<'a>,
}

impl<P: Rows> Job<'_, P> {
    /// All groups of all products that have rows.
    fn runs(&self) -> impl Iterator<Item = Run<'_>> {
        self.products.iter().flat_map(|product| {
            let groups = product.groups().iter().filter(|group| !group.rows.is_empty());
            groups.map(|RowGroup { rows, matrix }| Run {
                rows: rows.clone(),
                matrix: *matrix,
                out: product.out().values,
                order: self.means.order(rows.len()),
            })
        })
    }

    /// Computes what begins inside of `costs`, counted over all runs: whole runs, and groups of columns of those that cost
    /// more than a task. All tasks have as many costs.
    fn compute(&self, costs: Range<usize>) {
        let mut start = 0;
        for run in self.runs() {
            // Parts of two runs would read the activations of both once more.
            let n_pieces = if run.cost() <= costs.len() { 1 } else { run.n_groups() };
            let pieces = begun(&costs, start, run.cost() / n_pieces, n_pieces);
            start += run.cost();
            if !pieces.is_empty() {
                let n_groups = run.n_groups() / n_pieces;
                let groups = pieces.start * n_groups..pieces.end * n_groups;
                run.compute(self.means.isa, groups, self.input);
            }
        }
    }
}

/// Which of `n` pieces that cost `each`, the first one from `start` on, begin inside of `costs`.
fn begun(costs: &Range<usize>, start: usize, each: usize, n: usize) -> Range<usize> {
    let before = |cost: usize| cost.saturating_sub(start).div_ceil(each).min(n);
    before(costs.start)..before(costs.end)
}

/// A group of rows in one product.
struct Run<'a> {
    /// Not empty.
    rows: Range<usize>,
    matrix: Matrix<'a>,
    out: Disjoint<'a, f32>,
    /// Of its quantized rows.
    order: Order,
}

impl Run<'_> {
    fn n_groups(&self) -> usize {
        self.matrix.shape().n_groups()
    }

    /// About the time that it takes, in units that all runs of a job share. To read and unpack weights takes as long as to
    /// multiply two rows by vector registers, or 16 rows by tiles, by which one takes half as long.
    fn cost(&self) -> usize {
        let of_group = match self.order {
            Order::Rows => 4 + 2 * self.rows.len(),
            Order::Tiles => 16 + self.rows.len(),
        };
        of_group * self.n_groups()
    }

    /// Computes some groups of columns.
    fn compute(&self, isa: Isa, groups: Range<usize>, input: Input<'_>) {
        if self.order == Order::Tiles && self.matrix.reads_quants() {
            return self.compute_by_tiles(groups, input);
        }
        let mut dots = [[0.0; GROUP_ROWS]; TILE_ROWS];
        for group in groups {
            let mut columns = self.columns(group);
            for first_row in self.rows.clone().step_by(TILE_ROWS) {
                let dots = &mut dots[..TILE_ROWS.min(self.rows.end - first_row)];
                self.matrix.dot_group(isa, group, input, first_row, dots);
                (first_row..).zip(&*dots).for_each(|(row, dots)| columns.store(row, dots));
            }
        }
    }

    #[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
    fn compute_by_tiles(&self, groups: Range<usize>, input: Input<'_>) {
        let dot = self.matrix.tile_dot().expect("what reads quantized rows reads them in tiles");
        let mut scratch = TileScratch::new(self.rows.len());
        let rows_at_once = tiles::rows_at_once(input.n_in);
        for first_row in self.rows.clone().step_by(rows_at_once) {
            let rows = first_row..self.rows.end.min(first_row + rows_at_once);
            for group in groups.clone() {
                let (weights, columns) = (self.matrix.group(group), self.columns(group));
                dot(weights, input.quants, rows.clone(), &mut scratch, columns);
            }
        }
    }

    #[cfg(not(all(target_arch = "x86_64", not(frank_scalar))))]
    fn compute_by_tiles(&self, groups: Range<usize>, _: Input<'_>) {
        unreachable!("groups {groups:?}: this build has no tiles");
    }

    /// The place of a group's dots.
    fn columns(&self, group: usize) -> Columns<'_> {
        let n_out = self.matrix.shape().n_out();
        let columns = group * GROUP_ROWS..n_out.min((group + 1) * GROUP_ROWS);
        // SAFETY: each group of a run is computed by one task; groups of a run are columns without overlap, and runs of a
        // product are rows without overlap.
        unsafe { Columns::new(self.out, n_out, self.rows.clone(), columns) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_piece_begins_in_one_task(
            runs in prop::collection::vec((1usize..900, 1usize..50), 1..40), n_tasks in 1usize..40,
        ) {
            let cost: usize = runs.iter().map(|(each, n)| each * n).sum();
            let per_task = cost.div_ceil(n_tasks);
            let costs_of = |task: usize| task * per_task..(task + 1) * per_task;
            let (mut start, mut costs_of_tasks) = (0, vec![0; n_tasks]);
            for (each, n) in runs.iter().copied() {
                let mut end = 0;
                for (task, costs) in costs_of_tasks.iter_mut().enumerate() {
                    let pieces = begun(&costs_of(task), start, each, n);
                    prop_assert_eq!(pieces.start, end);
                    end = pieces.end;
                    *costs += pieces.len() * each;
                }
                prop_assert_eq!(end, n);
                start += each * n;
            }
            let dearest = runs.iter().map(|(each, _)| *each).max().unwrap_or(0);
            let bound = per_task + dearest;
            prop_assert!(costs_of_tasks.iter().all(|costs| *costs <= bound), "{costs_of_tasks:?}");
        }
    }
}
