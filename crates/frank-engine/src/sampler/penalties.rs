//! Penalties on tokens that were seen among the last ones: for repetition, presence and frequency.

use std::collections::BTreeMap;
use std::ops::Range;

use super::candidates::Candidates;
use super::stages::{StageEntry, StageInput};
use crate::sampling::SamplingParams;

pub(super) const STAGE: StageEntry = StageEntry { name: "penalties", keeps_best: false, apply };

/// How often each token stands in the window of the history that was counted last.
#[derive(Debug, Default)]
pub(super) struct TokenCounts {
    counted: Range<usize>,
    counts: BTreeMap<u32, u32>,
}

impl TokenCounts {
    /// Moves the window to the last `n` tokens of a history that has grown; takes time for what came and went only.
    fn advance(&mut self, history: &[u32], n: usize) -> &BTreeMap<u32, u32> {
        let window = history.len().saturating_sub(n)..history.len();
        if window.start < self.counted.start || window.end < self.counted.end {
            *self = Self::default();
        }
        for &token_id in &history[self.counted.end.max(window.start)..] {
            *self.counts.entry(token_id).or_default() += 1;
        }
        for &token_id in &history[self.counted.start..window.start.min(self.counted.end)] {
            if let Some(count) = self.counts.get_mut(&token_id) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&token_id);
                }
            }
        }
        self.counted = window;
        &self.counts
    }
}

fn apply(candidates: &mut Candidates<'_>, params: &SamplingParams, input: &mut StageInput<'_>) {
    let is_off = params.repeat_penalty == 1.0
        && params.presence_penalty == 0.0
        && params.frequency_penalty == 0.0;
    if is_off || params.repeat_last_n == 0 {
        return;
    }
    let counts = input.counts.advance(input.history, params.repeat_last_n);
    candidates.change(counts, |logit, &count| {
        let repeated =
            if logit > 0.0 { logit / params.repeat_penalty } else { logit * params.repeat_penalty };
        #[expect(clippy::cast_precision_loss, reason = "a count of tokens in a context")]
        let count = count as f32;
        repeated - (count * params.frequency_penalty + params.presence_penalty)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_moves_counts_as_one_that_is_counted_anew() {
        let history: Vec<u32> = (0..60).map(|i| i * i % 7).collect();
        for n in [0, 1, 5, 64, usize::MAX] {
            let mut moving = TokenCounts::default();
            for end in [0, 3, 4, 10, 11, 40, 60] {
                let anew = TokenCounts::default().advance(&history[..end], n).clone();
                assert_eq!(moving.advance(&history[..end], n), &anew, "{end} tokens, last {n}");
                assert_eq!(anew.values().sum::<u32>() as usize, n.min(end));
            }
        }
    }
}
