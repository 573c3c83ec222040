//! Log probabilities of the model's own distribution, kept before any setting changes the row.

use super::candidates::{Candidate, collect_top, largest};
use super::softmax::Softmax;

/// A row of logits as the model gave it.
#[derive(Debug, Default)]
pub(super) struct RawRow {
    logits: Vec<f32>,
    log_sum: f64,
}

impl RawRow {
    /// Keeps a copy of `logits`, one of which is finite, and returns the `n` most likely tokens with their log
    /// probabilities. `scratch` is used.
    pub(super) fn keep(
        &mut self,
        logits: &[f32],
        n: usize,
        scratch: &mut Vec<Candidate>,
    ) -> Vec<(u32, f32)> {
        self.logits.clear();
        self.logits.extend_from_slice(logits);
        self.log_sum = Softmax::of(logits, largest(logits)).log_sum();
        if n == 0 {
            return Vec::new();
        }
        collect_top(logits, n, scratch);
        scratch.sort_unstable_by(Candidate::order);
        scratch.iter().map(|c| (c.token_id, self.logprob(c.token_id))).collect()
    }

    /// The log probability of a token of the row.
    pub(super) fn logprob(&self, token_id: u32) -> f32 {
        #[expect(clippy::cast_possible_truncation, reason = "logits are f32")]
        let logprob = (f64::from(self.logits[token_id as usize]) - self.log_sum) as f32;
        // Rounding must not make a probability above 1.
        logprob.min(0.0)
    }
}
