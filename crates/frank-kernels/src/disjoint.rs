//! One output slice written by many threads, each to ranges of its own.

use std::marker::PhantomData;

/// A mutable slice that may be shared while each range of it is written by one thread at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Disjoint<'a, T> {
    start: *mut T,
    len: usize,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: all access goes through `range_mut`, whose caller promises that no two threads ask for overlapping ranges.
unsafe impl<T: Send> Send for Disjoint<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Disjoint<'_, T> {}

impl<'a, T> Disjoint<'a, T> {
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), len: slice.len(), slice: PhantomData }
    }

    /// Where the value at `index` is, to be named and not used: nothing is checked.
    #[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
    #[inline(always)]
    pub(crate) fn address(&self, index: usize) -> *const T {
        self.start.wrapping_add(index)
    }

    /// The range `start .. start + len`.
    ///
    /// # Safety
    /// While the result lives, no other call may ask for a range that overlaps it.
    ///
    /// # Panics
    /// When the range is not inside the slice.
    #[expect(clippy::mut_from_ref, reason = "the caller promises that ranges do not overlap")]
    pub(crate) unsafe fn range_mut(&self, start: usize, len: usize) -> &mut [T] {
        let inside = start.checked_add(len).is_some_and(|end| end <= self.len);
        assert!(inside, "range {start}+{len} of a slice of {}", self.len);
        // SAFETY: the range was just checked to lie inside the slice that this type borrows mutably.
        let first = unsafe { self.start.add(start) };
        // SAFETY: as above, and the caller promises that nobody else holds any of it.
        unsafe { std::slice::from_raw_parts_mut(first, len) }
    }
}
