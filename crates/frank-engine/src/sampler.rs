//! Draws the next token from a row of logits. Deterministic for a given seed.
//!
//! Candidates are ordered by logit, then by lower id, so that equal logits do not make the answer depend on a sort. A
//! logit that is NaN or an infinity is never drawn. Sums have a stated order and the exponential is written here, so that
//! probabilities have the same bits everywhere; the logarithms and powers of some stages are those of the C library.

mod bans;
mod candidates;
mod dry;
mod logprobs;
mod min_p;
mod mirostat;
mod penalties;
mod softmax;
mod stages;
mod temperature;
mod top_k;
mod top_n_sigma;
mod top_p;
mod typical_p;
mod xtc;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use thiserror::Error;

use crate::request::{Token, TokenLogprobs};
use crate::sampling::SamplingParams;

use candidates::{Candidate, Candidates};
use logprobs::RawRow;
use stages::StageInput;

pub use dry::DryBreakers;
pub use stages::Stage;

/// Why no token could be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SamplerError {
    /// Every logit is NaN or an infinity.
    #[error("the model gave no finite logit")]
    NoFiniteLogit,
    /// Biases, banned tokens and the constraint leave nothing to draw.
    #[error("no token that may come next has a finite logit")]
    NothingAllowed,
}

/// What the step loop knows about the place of the next token.
#[derive(Debug, Clone, Copy, Default)]
pub struct SampleContext<'a> {
    /// Prompt and answer so far. From call to call it only grows.
    pub history: &'a [u32],
    /// Tokens that must not be drawn now: end tokens while an answer is shorter than it has to be.
    pub banned: &'a [u32],
    /// The mask of a constraint: token `t` is bit `t % 32` of word `t / 32`; one beyond its end is not allowed.
    pub allowed: Option<&'a [u32]>,
    /// As `Request::n_logprobs`.
    pub n_logprobs: Option<usize>,
}

/// The sampler of one request: its settings, its random state and what it knows of the tokens it has seen.
#[derive(Debug)]
pub struct Sampler {
    params: SamplingParams,
    rng: ChaCha8Rng,
    counts: penalties::TokenCounts,
    last_break: dry::LastBreak,
    /// Mirostat's bound on the surprise of a token, in bits.
    mirostat_mu: f64,
    candidates: Vec<Candidate>,
    raw: RawRow,
}

impl Sampler {
    /// A sampler with the seed of `params`, or with `fallback_seed` where they name none.
    #[must_use]
    pub fn new(params: SamplingParams, fallback_seed: u64) -> Self {
        let rng = ChaCha8Rng::seed_from_u64(params.seed.unwrap_or(fallback_seed));
        let mirostat_mu = params.mirostat.map_or(0.0, |mirostat| 2.0 * f64::from(mirostat.tau));
        let counts = penalties::TokenCounts::default();
        let last_break = dry::LastBreak::default();
        let (candidates, raw) = (Vec::new(), RawRow::default());
        Self { params, rng, counts, last_break, mirostat_mu, candidates, raw }
    }

    /// Draws a token from `logits`, `[n_vocab]`, which are scratch afterwards.
    ///
    /// Cost: a few passes over the row; memory of up to 12 bytes for each token of the vocabulary, held until the
    /// sampler is dropped.
    /// # Errors
    /// [`SamplerError`] when nothing can be drawn.
    pub fn sample(
        &mut self,
        logits: &mut [f32],
        context: &SampleContext<'_>,
    ) -> Result<Token, SamplerError> {
        if !bans::drop_non_finite(logits) {
            return Err(SamplerError::NoFiniteLogit);
        }
        let tops = context.n_logprobs.map(|n| self.raw.keep(logits, n, &mut self.candidates));
        if !bans::apply(logits, &self.params.logit_bias, context) {
            return Err(SamplerError::NothingAllowed);
        }
        let token_id = self.draw_of(logits, context.history);
        let logprobs = tops.map(|top| {
            let logprob = self.raw.logprob(token_id);
            Box::new(TokenLogprobs { logprob, top })
        });
        Ok(Token { token_id, logprobs })
    }

    /// Draws from what bans have left of `logits`, at least one finite logit.
    fn draw_of(&mut self, logits: &mut [f32], history: &[u32]) -> u32 {
        let mut candidates = Candidates::new(logits, &mut self.candidates);
        if let Some(mirostat) = &self.params.mirostat {
            temperature::scale(&mut candidates, self.params.temperature);
            let share = share(&mut self.rng);
            return mirostat::draw(&mut candidates, *mirostat, &mut self.mirostat_mu, share);
        }
        let mut input = StageInput {
            history,
            counts: &mut self.counts,
            last_break: &mut self.last_break,
            rng: &mut self.rng,
        };
        stages::apply(&mut candidates, &self.params, &mut input);
        candidates.draw(|| share(&mut self.rng)).token_id
    }
}

/// A number in [0, 1), of 53 random bits.
fn share(rng: &mut ChaCha8Rng) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact in an f64")]
    let share = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    share
}

#[cfg(test)]
mod tests;
