//! Which pages of the staging memory are taken, first fit. Never touches the memory.

use std::ops::Range;

/// Ranges of pages that are taken, ascending and apart.
#[derive(Debug)]
pub(super) struct Arena {
    n_pages: usize,
    taken: Vec<Range<usize>>,
}

impl Arena {
    pub(super) fn new(n_pages: usize) -> Self {
        Self { n_pages, taken: Vec::new() }
    }

    /// The first `n_pages` free pages that lie beside each other.
    pub(super) fn take(&mut self, n_pages: usize) -> Option<Range<usize>> {
        let mut start = 0;
        let mut index = 0;
        while let Some(next) = self.taken.get(index)
            && next.start - start < n_pages
        {
            (start, index) = (next.end, index + 1);
        }
        if self.n_pages - start < n_pages {
            return None;
        }
        let pages = start..start + n_pages;
        self.taken.insert(index, pages.clone());
        Some(pages)
    }

    /// Frees pages that [`Arena::take`] gave.
    pub(super) fn give_back(&mut self, pages: &Range<usize>) {
        let index = self.taken.binary_search_by_key(&pages.start, |taken| taken.start);
        let index = index.unwrap_or_else(|_| panic!("pages {pages:?} are not taken"));
        self.taken.remove(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_gap_that_is_large_enough_is_taken() {
        let mut arena = Arena::new(10);
        let [a, b, c] = [3, 2, 4].map(|n| arena.take(n).unwrap());
        assert_eq!([a.clone(), b.clone(), c.clone()], [0..3, 3..5, 5..9]);
        assert_eq!(arena.take(2), None);
        arena.give_back(&b);
        assert_eq!(arena.take(3), None);
        assert_eq!(arena.take(1), Some(3..4));
        arena.give_back(&a);
        assert_eq!(arena.take(2), Some(0..2));
        assert_eq!(arena.take(11), None);
        arena.give_back(&c);
        assert_eq!(arena.take(6), Some(4..10));
    }
}
