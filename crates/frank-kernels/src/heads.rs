//! Moving heads: parts of them between rows that hold all heads of a token and runs that hold all tokens of a head.

use crate::disjoint::Disjoint;
use crate::pool::Pool;

/// Values of a task at least, so that starting another thread takes less time than copying them.
const TASK_VALUES: usize = 1 << 14;

/// Where the heads of rows lie: value `c` of head `h` of row `r` is at `r * row + h * head + first + c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadLayout {
    /// Values from a row to the next.
    pub row: usize,
    /// Values from a head to the next.
    pub head: usize,
    /// Values of a head before those that are meant.
    pub first: usize,
}

impl HeadLayout {
    /// `[n_rows, n_head, dim]`, from value `first` of each head on.
    #[must_use]
    pub fn by_row(n_head: usize, dim: usize, first: usize) -> Self {
        Self { row: n_head * dim, head: dim, first }
    }

    /// `[n_head, n_rows, dim]`.
    #[must_use]
    pub fn by_head(n_rows: usize, dim: usize) -> Self {
        Self { row: dim, head: n_rows * dim, first: 0 }
    }

    fn start(&self, row: usize, head: usize) -> usize {
        row * self.row + head * self.head + self.first
    }

    /// Whether no two heads of any rows share a value.
    fn is_apart(&self, (n_rows, n_head, width): (usize, usize, usize)) -> bool {
        let (near, n_near, far, n_far) = if self.row < self.head {
            (self.row, n_rows, self.head, n_head)
        } else {
            (self.head, n_head, self.row, n_rows)
        };
        let fits = self.first.checked_add(width).is_some_and(|end| end <= near);
        let is_before_next = near.checked_mul(n_near).is_some_and(|end| end <= far);
        fits && (n_far == 1 || is_before_next)
    }
}

/// Copies `width` values of each of `n_head` heads of `n_rows` rows from where `from` says they lie to where `to` says.
/// Values of the target beside them stay.
///
/// # Panics
/// When a layout reaches beyond its slice, or heads of the target overlap.
pub fn copy_heads(
    pool: &mut Pool,
    (n_rows, n_head, width): (usize, usize, usize),
    (x, from): (&[f32], HeadLayout),
    (out, to): (&mut [f32], HeadLayout),
) {
    let sizes = (n_rows, n_head, width);
    assert!(to.is_apart(sizes), "{to:?} has no room for {sizes:?}");
    let out = Disjoint::new(out);
    let per_task = TASK_VALUES.div_ceil((n_head * width).max(1));
    pool.run(n_rows.div_ceil(per_task), &|task| {
        for row in task * per_task..n_rows.min((task + 1) * per_task) {
            for head in 0..n_head {
                // SAFETY: a row belongs to one task, and no two heads of the target share a value, as just checked.
                let out = unsafe { out.range_mut(to.start(row, head), width) };
                out.copy_from_slice(&x[from.start(row, head)..][..width]);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Value 100 r + 10 h + c at value `c` of head `h` of row `r`.
    fn rows(n_rows: u8, n_head: u8, dim: u8) -> Vec<f32> {
        let heads = (0..n_rows).flat_map(|r| (0..n_head).map(move |h| (r, h)));
        let values = heads.flat_map(|(r, h)| (0..dim).map(move |c| (r, h, c)));
        values.map(|(r, h, c)| f32::from(r) * 100.0 + f32::from(h * 10 + c)).collect()
    }

    #[test]
    fn a_part_of_each_head_moves_there_and_back_and_nothing_else() {
        let (n_rows, n_head, dim, width) = (3, 2, 5, 2);
        let x = rows(3, 2, 5);
        let by_row = HeadLayout::by_row(n_head, dim, 1);
        let by_head = HeadLayout::by_head(n_rows, width);
        for n_threads in [1, 2] {
            let mut pool = Pool::new(n_threads);
            let mut moved = vec![-1.0; n_head * n_rows * width];
            let sizes = (n_rows, n_head, width);
            copy_heads(&mut pool, sizes, (&x, by_row), (&mut moved, by_head));
            assert_eq!(moved, [1., 2., 101., 102., 201., 202., 11., 12., 111., 112., 211., 212.]);
            let mut back = vec![-1.0; x.len()];
            copy_heads(&mut pool, sizes, (&moved, by_head), (&mut back, by_row));
            let part = |i: usize| (1..3).contains(&(i % dim));
            let expected: Vec<f32> =
                x.iter().enumerate().map(|(i, &x)| if part(i) { x } else { -1.0 }).collect();
            assert_eq!(back, expected);
        }
    }

    #[test]
    fn a_single_row_or_head_lies_the_same_both_ways() {
        for (n_rows, n_head) in [(1, 3), (3, 1), (1, 1)] {
            let x = rows(n_rows, n_head, 4);
            let (n_rows, n_head) = (usize::from(n_rows), usize::from(n_head));
            let (by_row, by_head) =
                (HeadLayout::by_row(n_head, 4, 0), HeadLayout::by_head(n_rows, 4));
            let mut moved = vec![-1.0; x.len()];
            let sizes = (n_rows, n_head, 4);
            copy_heads(&mut Pool::new(1), sizes, (&x, by_row), (&mut moved, by_head));
            assert_eq!(moved, x);
        }
    }

    #[test]
    fn rows_of_many_tasks_are_all_copied() {
        let (n_rows, n_head, dim) = (301, 7, 33);
        let x: Vec<f32> = (0u16..).take(301 * 33).map(f32::from).flat_map(|x| [x; 7]).collect();
        let layout = HeadLayout::by_row(n_head, dim, 0);
        let mut out = vec![0.0; x.len()];
        copy_heads(&mut Pool::new(2), (n_rows, n_head, dim), (&x, layout), (&mut out, layout));
        assert_eq!(out, x);
    }

    #[test]
    #[should_panic(expected = "has no room for (2, 2, 4)")]
    fn heads_that_would_overlap_are_refused() {
        let layout = HeadLayout { row: 8, head: 4, first: 1 };
        copy_heads(&mut Pool::new(1), (2, 2, 4), (&[0.0; 16], layout), (&mut [0.0; 16], layout));
    }
}
