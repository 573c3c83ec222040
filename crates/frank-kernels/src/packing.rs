//! Rows of many matrices brought into their final layout by all threads of a pool.

use std::sync::{Mutex, PoisonError};

use crate::matrix::MatrixShape;
use crate::pool::Pool;
use crate::weights::GROUP_ROWS;

/// Bytes of rows that a thread packs before it takes more: enough that taking costs nothing, few enough that threads end
/// together.
const TASK_BYTES: usize = 128 << 10;

/// Rows of a matrix that are to be brought to their final place.
#[derive(Debug)]
pub struct PackJob<'a> {
    /// Type and shape of the whole matrix.
    pub shape: MatrixShape,
    /// The first of the rows.
    pub first_row: usize,
    /// Whole rows as they are in the file.
    pub rows: &'a [u8],
    /// The whole matrix in its final layout, [`MatrixShape::bytes`].
    pub bytes: &'a mut [u8],
}

/// Does what [`MatrixShape::pack`] does, for all jobs at once.
///
/// # Panics
/// Where [`MatrixShape::pack`] does.
pub fn pack_all(pool: &mut Pool, jobs: &mut [PackJob<'_>]) {
    let tasks: Vec<Mutex<Task<'_>>> = jobs.iter_mut().flat_map(tasks).map(Mutex::new).collect();
    pool.run(tasks.len(), &|index| {
        let mut task = tasks[index].lock().unwrap_or_else(PoisonError::into_inner);
        let Task { shape, first_row, rows, groups } = &mut *task;
        shape.pack_groups(*first_row, rows, groups);
    });
}

/// Rows of a job, and the groups that they lie in.
struct Task<'a> {
    shape: MatrixShape,
    first_row: usize,
    rows: &'a [u8],
    groups: &'a mut [u8],
}

/// Cuts a job into tasks that share no group.
fn tasks<'a>(job: &'a mut PackJob<'_>) -> Vec<Task<'a>> {
    let PackJob { shape, first_row, rows, bytes } = job;
    shape.check_rows(*first_row, rows, bytes);
    let (row_bytes, group_bytes) = (shape.file_row_bytes(), shape.group_bytes());
    let n_groups = (TASK_BYTES / (GROUP_ROWS * row_bytes)).max(1);
    let start = *first_row / GROUP_ROWS * group_bytes;
    let (mut row, mut rows, mut rest) =
        (*first_row, *rows, bytes.get_mut(start..).unwrap_or_default());
    let mut tasks = Vec::new();
    while !rows.is_empty() {
        let n_rows = n_groups * GROUP_ROWS - row % GROUP_ROWS;
        let (now, later) = rows.split_at(rows.len().min(n_rows * row_bytes));
        let end = rest.len().min(n_groups * group_bytes);
        let (groups, tail) = rest.split_at_mut(end);
        tasks.push(Task { shape: *shape, first_row: row, rows: now, groups });
        (row, rows, rest) = (row + n_rows, later, tail);
    }
    tasks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::WeightType;
    use frank_gguf::quant::QUANTS;

    /// Packs all rows one by one into zeroes: the slowest way, and the plainest.
    fn row_by_row(shape: MatrixShape, rows: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; shape.bytes()];
        for (row, raw) in rows.chunks_exact(shape.file_row_bytes()).enumerate() {
            shape.pack(row, raw, &mut bytes);
        }
        bytes
    }

    fn shapes(n_out: usize) -> impl Iterator<Item = MatrixShape> {
        let of = move |id| MatrixShape::new(WeightType::of(id).expect("a type"), 768, n_out);
        QUANTS.iter().map(move |quant| of(quant.id).expect("whole blocks"))
    }

    fn rows_of(shape: MatrixShape) -> Vec<u8> {
        let bytes = shape.n_out() * shape.file_row_bytes();
        (0..bytes as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
    }

    #[test]
    fn every_type_is_packed_the_same_at_once_in_pieces_and_by_many_threads() {
        let mut pool = Pool::new(3);
        for n_out in [1, 15, 16, 32, 100, 531] {
            for shape in shapes(n_out) {
                let (rows, row_bytes) = (rows_of(shape), shape.file_row_bytes());
                let expected = row_by_row(shape, &rows);
                let mut bytes = vec![0xa5; shape.bytes()];
                shape.pack(0, &rows, &mut bytes);
                assert!(bytes == expected, "{n_out} rows at once: {shape:?}");
                // Pieces that end inside of groups, the last one first.
                let cut = n_out * 2 / 3;
                let (first, second) = rows.split_at(cut * row_bytes);
                bytes.fill(0xa5);
                for (first_row, rows) in [(cut, second), (0, first)] {
                    pack_all(
                        &mut pool,
                        &mut [PackJob { shape, first_row, rows, bytes: &mut bytes }],
                    );
                }
                assert!(bytes == expected, "{n_out} rows in pieces: {shape:?}");
            }
        }
    }

    #[test]
    fn many_matrices_are_packed_together() {
        let shapes: Vec<MatrixShape> = shapes(70).collect();
        let rows: Vec<Vec<u8>> = shapes.iter().map(|&shape| rows_of(shape)).collect();
        let mut places: Vec<Vec<u8>> = shapes.iter().map(|shape| vec![1; shape.bytes()]).collect();
        let jobs = shapes.iter().zip(&rows).zip(&mut places);
        let mut jobs: Vec<PackJob<'_>> = jobs
            .map(|((&shape, rows), bytes)| PackJob { shape, first_row: 0, rows, bytes })
            .collect();
        pack_all(&mut Pool::new(2), &mut jobs);
        for ((shape, rows), place) in shapes.iter().zip(&rows).zip(&places) {
            assert!(*place == row_by_row(*shape, rows), "{shape:?}");
        }
    }
}
