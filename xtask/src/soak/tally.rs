//! What all clients of a soak together have seen. Never judges a reply.

use std::fmt;
use std::time::Instant;

use super::traffic::{Expected, Reading, Turn};

/// A run that broke so often says nothing new any more.
const FAILURES_MAX: usize = 20;

/// What all clients together have seen.
#[derive(Debug, Default)]
pub(super) struct Tally {
    refused: usize,
    answered: usize,
    streamed: usize,
    left: usize,
    pub(super) failures: Vec<String>,
}

impl Tally {
    pub(super) fn count(&mut self, turn: &Turn) {
        match (turn.reading, &turn.expected) {
            (_, Expected::Refusal(_)) => self.refused += 1,
            (Reading::Whole, _) => self.answered += 1,
            (Reading::Stream { .. }, _) => self.streamed += 1,
            _ => self.left += 1,
        }
    }

    /// Whether the time is not over and not too much broke.
    pub(super) fn goes_on(&self, until: Instant) -> bool {
        Instant::now() < until && self.failures.len() < FAILURES_MAX
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { refused, answered, streamed, left, failures } = self;
        write!(
            out,
            "{answered} answers, {streamed} streams, {left} left by the client, {refused} refusals, {} failures",
            failures.len()
        )
    }
}
