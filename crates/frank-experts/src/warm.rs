//! Which experts a warm start brings into free slots, and in which order. Never reads one.

/// Streamed experts by how often earlier runs used them, the hottest first.
#[derive(Debug, Default)]
pub(crate) struct WarmStart {
    /// `(position in the table, expert)`.
    queue: Vec<(u32, u32)>,
    n_done: usize,
}

impl WarmStart {
    /// The hottest `n_max` of `candidates`, `(position, expert, count)`; those that were never used are left out.
    pub(crate) fn new(candidates: impl Iterator<Item = (usize, u32, u64)>, n_max: usize) -> Self {
        let mut used: Vec<_> = candidates.filter(|&(.., count)| count > 0).collect();
        used.sort_by_key(|&(.., count)| std::cmp::Reverse(count));
        used.truncate(n_max);
        let queue = used.into_iter().map(|(position, expert, _)| (position as u32, expert));
        Self { queue: queue.collect(), n_done: 0 }
    }

    /// The next one: `(position, expert)`.
    pub(crate) fn next(&self) -> Option<(usize, u32)> {
        self.queue.get(self.n_done).map(|&(position, expert)| (position as usize, expert))
    }

    /// The next one is under way.
    pub(crate) fn advance(&mut self) {
        self.n_done += 1;
    }

    /// This one has to be begun again. Those that came after it are passed over where they have a slot.
    pub(crate) fn retreat(&mut self, position: usize, expert: u32) {
        let mut begun = self.queue.iter().take(self.n_done);
        if let Some(at) = begun.position(|&place| place == (position as u32, expert)) {
            self.n_done = at;
        }
    }

    /// Ends the warm start.
    pub(crate) fn stop(&mut self) {
        self.queue = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_come_first_and_the_unused_not_at_all() {
        let candidates = [(0, 0, 3), (0, 1, 0), (1, 0, 9), (1, 1, 3), (2, 5, 4)];
        let mut warm = WarmStart::new(candidates.into_iter(), 3);
        for expected in [(1, 0), (2, 5), (0, 0)] {
            assert_eq!(warm.next(), Some(expected));
            warm.advance();
        }
        assert_eq!(warm.next(), None);
    }

    #[test]
    fn what_did_not_come_is_begun_again_whatever_came_after_it() {
        let candidates = [(0, 0, 9), (0, 1, 8), (0, 2, 7), (0, 3, 6)];
        let mut warm = WarmStart::new(candidates.into_iter(), 4);
        (0..3).for_each(|_| warm.advance());
        // The second came, the first and the third did not.
        warm.retreat(0, 2);
        assert_eq!(warm.next(), Some((0, 2)));
        warm.retreat(0, 0);
        assert_eq!(warm.next(), Some((0, 0)));
        warm.retreat(0, 3);
        assert_eq!(warm.next(), Some((0, 0)), "it was not begun");
    }
}
