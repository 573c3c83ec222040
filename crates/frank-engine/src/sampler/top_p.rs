//! Top-p, or nucleus sampling (Holtzman et al. 2019): the fewest most likely tokens that reach a sum of probabilities.

use super::candidates::{Candidate, Candidates};
use super::softmax::Softmax;
use super::stages::{StageEntry, StageInput};
use crate::sampling::SamplingParams;

pub(super) const STAGE: StageEntry = StageEntry { name: "top_p", keeps_best: true, apply };

/// Candidates that are sorted to find the nucleus of a model that is sure of what it says.
const HEAD: usize = 256;
/// Bins of logits for one that is not: each is 1/32 wide, and the last takes what has next to no probability.
const BINS: usize = 2_048;
const BINS_PER_UNIT: f32 = 32.0;

fn apply(candidates: &mut Candidates<'_>, params: &SamplingParams, _: &mut StageInput<'_>) {
    if params.top_p >= 1.0 {
        return;
    }
    let softmax = candidates.softmax();
    let mut nucleus = Nucleus::new(params);
    let head = candidates.sorted_head(HEAD);
    let is_all = head.len() < HEAD;
    if let Some(n) = nucleus.first_of(head, &softmax) {
        candidates.keep_head(n);
    } else if !is_all && let Some(last) = last_by_bins(candidates, params, &softmax) {
        candidates.keep_up_to(last);
    }
}

/// What of the nucleus was found so far.
struct Nucleus {
    wanted: f64,
    min_keep: usize,
    sum: f64,
    n: usize,
}

impl Nucleus {
    fn new(params: &SamplingParams) -> Self {
        Self { wanted: f64::from(params.top_p), min_keep: params.min_keep, sum: 0.0, n: 0 }
    }

    /// Adds tokens; whether the nucleus is reached.
    fn add(&mut self, probability: f64, n: usize) -> bool {
        self.sum += probability;
        self.n += n;
        self.sum >= self.wanted && self.n >= self.min_keep
    }

    /// How many of `sorted` end the nucleus.
    fn first_of(&mut self, sorted: &[Candidate], softmax: &Softmax) -> Option<usize> {
        sorted.iter().position(|c| self.add(softmax.probability(c.logit), 1)).map(|last| last + 1)
    }
}

/// The last token of the nucleus, by the sums of bins; only the bin that it is in is sorted. `None` when all tokens
/// together do not reach it, for rounding.
fn last_by_bins(
    candidates: &Candidates<'_>,
    params: &SamplingParams,
    softmax: &Softmax,
) -> Option<Candidate> {
    let max = candidates.max();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a distance from the largest, and a cast saturates"
    )]
    let bin_of = |logit: f32| (((max - logit) * BINS_PER_UNIT) as usize).min(BINS - 1);
    let mut bins = vec![(0.0, 0); BINS];
    candidates.with_logits(|logits| {
        for &logit in logits.iter().filter(|logit| **logit > f32::NEG_INFINITY) {
            let bin = &mut bins[bin_of(logit)];
            bin.0 += softmax.probability(logit);
            bin.1 += 1;
        }
    });
    let mut nucleus = Nucleus::new(params);
    let mut before = 0;
    let bin = bins.iter().position(|&(probability, n)| {
        let is_reached = nucleus.add(probability, n);
        before = if is_reached { before } else { nucleus.n };
        is_reached
    })?;
    let mut members = candidates.with_logit(|logit| bin_of(logit) == bin);
    members.sort_unstable_by(Candidate::order);
    let mut nucleus = Nucleus::new(params);
    nucleus.add(bins[..bin].iter().map(|(probability, _)| probability).sum(), before);
    // The bin reached it, so that its last token does if rounding lets none before.
    let n = nucleus.first_of(&members, softmax).unwrap_or(members.len());
    members.get(n - 1).copied()
}
