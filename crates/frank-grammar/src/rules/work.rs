//! How much may be spent on looking at a grammar, whatever it is made of.

/// What is left to spend: a step of some nanoseconds takes 1, and so does a byte that is kept.
#[derive(Debug)]
pub(super) struct Work {
    left: usize,
}

impl Work {
    /// So much may be spent.
    pub(super) fn new(left: usize) -> Self {
        Self { left }
    }

    /// Spends `n`; `None`, and nothing is left, when there is not so much.
    pub(super) fn spend(&mut self, n: usize) -> Option<()> {
        let left = self.left.checked_sub(n);
        self.left = left.unwrap_or(0);
        left.map(|_| ())
    }

    /// Whether nothing is left.
    pub(super) fn is_spent(&self) -> bool {
        self.left == 0
    }
}
