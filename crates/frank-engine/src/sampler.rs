//! Draws the next token from a row of logits. Deterministic for a given seed.
//!
//! Order: penalties, top-k, top-p, min-p, temperature, draw. Candidates are ordered by logit, then by lower id,
//! so that equal logits do not make the answer depend on a sort.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use thiserror::Error;

use crate::sampling::SamplingParams;

/// Why no token could be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SamplerError {
    /// Every logit is NaN or an infinity.
    #[error("the model gave no finite logit")]
    NoFiniteLogit,
}

/// The sampler of one request: its settings, its random state and the tokens it has seen.
#[derive(Debug)]
pub struct Sampler {
    params: SamplingParams,
    rng: ChaCha8Rng,
    candidates: Vec<Candidate>,
}

#[derive(Debug, Clone, Copy)]
struct Candidate {
    token_id: u32,
    logit: f32,
}

impl Candidate {
    /// Most likely first; of equals the lower id first.
    fn order(a: &Self, b: &Self) -> Ordering {
        b.logit.total_cmp(&a.logit).then(a.token_id.cmp(&b.token_id))
    }
}

impl Sampler {
    /// A sampler with the seed of `params`, or with `fallback_seed` where they name none.
    #[must_use]
    pub fn new(params: SamplingParams, fallback_seed: u64) -> Self {
        let rng = ChaCha8Rng::seed_from_u64(params.seed.unwrap_or(fallback_seed));
        Self { params, rng, candidates: Vec::new() }
    }

    /// Draws a token from `logits`, `[n_vocab]`. `history` is prompt and answer so far; the penalties look at
    /// its tail. Penalties are applied to `logits` in place.
    ///
    /// # Errors
    /// [`SamplerError::NoFiniteLogit`] when nothing can be drawn.
    pub fn sample(&mut self, logits: &mut [f32], history: &[u32]) -> Result<u32, SamplerError> {
        penalize(logits, history, &self.params);
        if self.params.temperature <= 0.0 {
            return most_likely(logits).ok_or(SamplerError::NoFiniteLogit);
        }
        self.collect_candidates(logits)?;
        self.keep_top_k();
        self.keep_top_p();
        self.keep_min_p();
        Ok(self.draw())
    }

    fn collect_candidates(&mut self, logits: &[f32]) -> Result<(), SamplerError> {
        self.candidates.clear();
        let finite = logits.iter().zip(0u32..).filter(|(logit, _)| logit.is_finite());
        self.candidates.extend(finite.map(|(&logit, token_id)| Candidate { token_id, logit }));
        if self.candidates.is_empty() { Err(SamplerError::NoFiniteLogit) } else { Ok(()) }
    }

    fn keep_top_k(&mut self) {
        let k = self.params.top_k as usize;
        if k > 0 && k < self.candidates.len() {
            self.candidates.select_nth_unstable_by(k - 1, Candidate::order);
            self.candidates.truncate(k);
        }
    }

    /// Sorts only as many candidates as the sum needs: the head doubles until it holds the nucleus.
    fn keep_top_p(&mut self) {
        if self.params.top_p >= 1.0 {
            return;
        }
        let max = self.max_logit();
        let weight = |c: &Candidate| f64::from(c.logit - max).exp();
        let wanted = f64::from(self.params.top_p) * self.candidates.iter().map(weight).sum::<f64>();
        let mut head = 64.min(self.candidates.len());
        loop {
            if head < self.candidates.len() {
                self.candidates.select_nth_unstable_by(head - 1, Candidate::order);
            }
            self.candidates[..head].sort_unstable_by(Candidate::order);
            let mut sum = 0.0;
            let nucleus = self.candidates[..head].iter().position(|c| {
                sum += weight(c);
                sum >= wanted
            });
            if let Some(last) = nucleus {
                self.candidates.truncate(last + 1);
                return;
            }
            if head == self.candidates.len() {
                return;
            }
            head = (head * 2).min(self.candidates.len());
        }
    }

    fn keep_min_p(&mut self) {
        if self.params.min_p > 0.0 {
            // p >= min_p * p_max is, in logits, a distance from the largest.
            let floor = self.max_logit() + self.params.min_p.min(1.0).ln();
            self.candidates.retain(|c| c.logit >= floor);
        }
    }

    fn draw(&mut self) -> u32 {
        let max = self.max_logit();
        let temperature = f64::from(self.params.temperature);
        let weight = |c: &Candidate| (f64::from(c.logit - max) / temperature).exp();
        self.candidates.sort_unstable_by_key(|c| c.token_id);
        let total: f64 = self.candidates.iter().map(weight).sum();
        // 53 random bits make a number in [0, 1).
        #[expect(clippy::cast_precision_loss, reason = "53 bits are exact in an f64")]
        let mut rest = (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64 * total;
        for candidate in &self.candidates {
            rest -= weight(candidate);
            if rest < 0.0 {
                return candidate.token_id;
            }
        }
        // Rounding may leave a crumb: the last candidate takes it.
        self.candidates.last().map_or(0, |c| c.token_id)
    }

    fn max_logit(&self) -> f32 {
        self.candidates.iter().map(|c| c.logit).fold(f32::NEG_INFINITY, f32::max)
    }
}

fn penalize(logits: &mut [f32], history: &[u32], params: &SamplingParams) {
    let off = params.repeat_penalty == 1.0
        && params.presence_penalty == 0.0
        && params.frequency_penalty == 0.0;
    if off {
        return;
    }
    let tail = &history[history.len().saturating_sub(params.repeat_last_n)..];
    let mut counts = BTreeMap::<u32, u32>::new();
    for &token_id in tail {
        *counts.entry(token_id).or_default() += 1;
    }
    for (token_id, count) in counts {
        let logit = &mut logits[token_id as usize];
        if *logit > 0.0 {
            *logit /= params.repeat_penalty;
        } else {
            *logit *= params.repeat_penalty;
        }
        #[expect(clippy::cast_precision_loss, reason = "a count of at most repeat_last_n tokens")]
        let count = count as f32;
        *logit -= params.presence_penalty + params.frequency_penalty * count;
    }
}

/// Index of the largest finite logit, the first of equals.
fn most_likely(logits: &[f32]) -> Option<u32> {
    let mut best: Option<(u32, f32)> = None;
    for (&logit, token_id) in logits.iter().zip(0u32..) {
        if logit.is_finite() && best.is_none_or(|(_, max)| logit > max) {
            best = Some((token_id, logit));
        }
    }
    best.map(|(token_id, _)| token_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 5] = [0.0, 3.0, 1.0, 3.0, 2.0];

    fn drawn(params: SamplingParams) -> Vec<u32> {
        let mut sampler = Sampler::new(params, 7);
        let mut seen: Vec<u32> =
            (0..400).map(|_| sampler.sample(&mut LOGITS.clone(), &[]).expect("finite")).collect();
        seen.sort_unstable();
        seen.dedup();
        seen
    }

    #[test]
    fn temperature_zero_takes_the_lowest_id_of_equals() {
        assert_eq!(drawn(SamplingParams::greedy()), [1]);
    }

    #[test]
    fn without_filters_every_token_can_be_drawn() {
        assert_eq!(drawn(SamplingParams::default()), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn top_k_keeps_that_many_and_the_lower_id_of_equals() {
        assert_eq!(drawn(SamplingParams { top_k: 1, ..SamplingParams::default() }), [1]);
        assert_eq!(drawn(SamplingParams { top_k: 3, ..SamplingParams::default() }), [1, 3, 4]);
        assert_eq!(
            drawn(SamplingParams { top_k: 99, ..SamplingParams::default() }),
            [0, 1, 2, 3, 4]
        );
    }

    #[test]
    fn top_p_keeps_the_fewest_that_reach_the_sum() {
        // Probabilities: 0.40, 0.40, 0.15, 0.05, 0.02 for tokens 1, 3, 4, 2, 0.
        assert_eq!(drawn(SamplingParams { top_p: 0.3, ..SamplingParams::default() }), [1]);
        assert_eq!(drawn(SamplingParams { top_p: 0.75, ..SamplingParams::default() }), [1, 3]);
        assert_eq!(drawn(SamplingParams { top_p: 0.9, ..SamplingParams::default() }), [1, 3, 4]);
    }

    #[test]
    fn top_p_looks_past_the_first_sorted_head() {
        let mut logits = vec![0.0; 1000];
        let params = SamplingParams { top_p: 0.5, ..SamplingParams::default() };
        let mut sampler = Sampler::new(params, 7);
        let drawn: Vec<u32> =
            (0..2000).map(|_| sampler.sample(&mut logits, &[]).expect("finite")).collect();
        assert!(drawn.iter().all(|&t| t < 500), "half of 1000 equal tokens is the first 500");
        assert!(drawn.iter().any(|&t| t > 400));
    }

    #[test]
    fn min_p_is_relative_to_the_most_likely_token() {
        assert_eq!(drawn(SamplingParams { min_p: 0.3, ..SamplingParams::default() }), [1, 3, 4]);
        assert_eq!(drawn(SamplingParams { min_p: 1.0, ..SamplingParams::default() }), [1, 3]);
    }

    #[test]
    fn the_same_seed_draws_the_same_tokens() {
        let run = |seed| {
            let mut sampler = Sampler::new(SamplingParams { seed, ..SamplingParams::default() }, 1);
            (0..50)
                .map(|_| sampler.sample(&mut LOGITS.clone(), &[]).expect("finite"))
                .collect::<Vec<_>>()
        };
        assert_eq!(run(Some(5)), run(Some(5)));
        assert_ne!(run(Some(5)), run(Some(6)));
        assert_eq!(run(None), run(Some(1)));
    }

    #[test]
    fn penalties_act_on_the_tail_of_the_history_only() {
        let params =
            SamplingParams { repeat_last_n: 2, repeat_penalty: 2.0, ..SamplingParams::greedy() };
        let mut logits = LOGITS;
        penalize(&mut logits, &[3, 1, 1], &params);
        assert_eq!(logits, [0.0, 1.5, 1.0, 3.0, 2.0]);
        let params = SamplingParams {
            presence_penalty: 0.5,
            frequency_penalty: 1.0,
            ..SamplingParams::greedy()
        };
        let mut logits = LOGITS;
        penalize(&mut logits, &[3, 1, 1], &params);
        assert_eq!(logits, [0.0, 0.5, 1.0, 1.5, 2.0]);
    }

    #[test]
    fn a_model_that_gives_only_nan_is_an_error_not_a_token() {
        for temperature in [0.0, 1.0] {
            let params = SamplingParams { temperature, ..SamplingParams::default() };
            let mut logits = [f32::NAN, f32::INFINITY];
            assert_eq!(
                Sampler::new(params, 0).sample(&mut logits, &[]),
                Err(SamplerError::NoFiniteLogit)
            );
        }
    }
}
