//! The columns of a group in the output of a product: where its dots go, row by row.

use crate::disjoint::Disjoint;
use crate::weights::GroupDots;

/// The columns of a group in the output of a product, `[n_rows, n_out]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Columns<'a> {
    out: Disjoint<'a, f32>,
    n_out: usize,
    first: usize,
    /// 16, or less in a last group.
    n: usize,
}

impl<'a> Columns<'a> {
    /// Columns `first .. first + n` of `out`.
    ///
    /// # Safety
    /// While the result lives, nobody else may use these columns.
    pub(crate) unsafe fn new(out: Disjoint<'a, f32>, n_out: usize, first: usize, n: usize) -> Self {
        Self { out, n_out, first, n }
    }

    /// Writes a row's dots.
    #[inline(always)]
    pub(crate) fn store(&mut self, row: usize, dots: &GroupDots) {
        // SAFETY: nobody else uses these columns, and the one slice of them is gone when this returns.
        let out = unsafe { self.out.range_mut(row * self.n_out + self.first, self.n) };
        match out.first_chunk_mut() {
            Some(out) => *out = *dots,
            None => out.copy_from_slice(&dots[..self.n]),
        }
    }

    /// Asks for the cache line that a row will be written to: the output of many rows is larger than caches, and
    /// waiting for its lines would take longer than computing them.
    #[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
    pub(crate) fn fetch(&mut self, row: usize) {
        // SAFETY: as in `store`.
        let out = unsafe { self.out.range_mut(row * self.n_out + self.first, self.n) };
        crate::lanes::amx::fetch_to_write(&out[0]);
    }
}
