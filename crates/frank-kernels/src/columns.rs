//! The columns of a group in some rows of the output of a product: where its dots go, row by row.

use std::ops::Range;

use crate::disjoint::Disjoint;
use crate::weights::GroupDots;

/// The columns of a group in rows of the output of a product, `[n_rows, n_out]`.
#[derive(Debug)]
pub(crate) struct Columns<'a> {
    out: Disjoint<'a, f32>,
    n_out: usize,
    rows: Range<usize>,
    first: usize,
    /// 16, or less in a last group.
    n: usize,
}

impl<'a> Columns<'a> {
    /// Columns `columns`, 16 at most, in rows `rows` of `out`.
    ///
    /// # Safety
    /// While the result lives, nobody else may use these columns of these rows.
    pub(crate) unsafe fn new(
        out: Disjoint<'a, f32>,
        n_out: usize,
        rows: Range<usize>,
        columns: Range<usize>,
    ) -> Self {
        Self { out, n_out, rows, first: columns.start, n: columns.len() }
    }

    /// Writes a row's dots.
    ///
    /// # Panics
    /// When the row is not one of these.
    #[inline(always)]
    pub(crate) fn store(&mut self, row: usize, dots: &GroupDots) {
        let n = self.n;
        let out = self.of_row(row);
        match out.first_chunk_mut() {
            Some(out) => *out = *dots,
            None => out.copy_from_slice(&dots[..n]),
        }
    }

    /// Asks for the cache line that a row will be written to: the output of many rows is larger than caches, and
    /// waiting for its lines would take longer than computing them.
    #[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
    #[inline(always)]
    pub(crate) fn fetch(&self, row: usize) {
        let first = self.out.address(row * self.n_out + self.first);
        crate::lanes::amx::fetch_to_write(first);
    }

    #[inline(always)]
    fn of_row(&mut self, row: usize) -> &mut [f32] {
        if !self.rows.contains(&row) {
            another_row(row, self.rows.start, self.rows.end);
        }
        // SAFETY: nobody else uses these columns of these rows, and the slice borrows `self`, so there is one of them.
        unsafe { self.out.range_mut(row * self.n_out + self.first, self.n) }
    }
}

/// Takes values, so that nothing in a loop over rows has to have an address for the sake of this.
#[cold]
#[inline(never)]
fn another_row(row: usize, start: usize, end: usize) -> ! {
    panic!("row {row} of {start}..{end}");
}
