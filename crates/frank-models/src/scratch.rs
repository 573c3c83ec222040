//! Scratch memory of a step: named columns of f32, taken once and split anew for each step.

use frank_os::{AnonBuffer, OsError};

/// `N` matrices of `n_rows_max` rows each, in one block of memory that is taken at once.
#[derive(Debug)]
pub(crate) struct Scratch<const N: usize> {
    memory: AnonBuffer,
    n_rows_max: usize,
    widths: [usize; N],
}

impl<const N: usize> Scratch<N> {
    /// Bytes of one row of all matrices; saturates, since a header alone may claim any width.
    pub(crate) fn row_bytes(widths: [usize; N]) -> usize {
        let values = widths.into_iter().fold(0, usize::saturating_add);
        values.saturating_mul(size_of::<f32>())
    }

    pub(crate) fn new(n_rows_max: usize, widths: [usize; N]) -> Result<Self, OsError> {
        let mut memory = AnonBuffer::new((n_rows_max * Self::row_bytes(widths)) as u64)?;
        memory.populate()?;
        Ok(Self { memory, n_rows_max, widths })
    }

    pub(crate) fn n_rows_max(&self) -> usize {
        self.n_rows_max
    }

    /// The first `n_rows` rows of each matrix.
    pub(crate) fn split(&mut self, n_rows: usize) -> [&mut [f32]; N] {
        assert!(n_rows <= self.n_rows_max, "{n_rows} rows of {}", self.n_rows_max);
        let mut rest: &mut [f32] = bytemuck::cast_slice_mut(self.memory.as_mut_slice());
        let n_rows_max = self.n_rows_max;
        self.widths.map(|width| {
            let (matrix, tail) = std::mem::take(&mut rest).split_at_mut(n_rows_max * width);
            rest = tail;
            &mut matrix[..n_rows * width]
        })
    }
}
