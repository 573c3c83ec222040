//! Top-n-sigma (Tang et al. 2024): tokens within n standard deviations of the largest logit.

use super::candidates::Candidates;
use super::softmax::lane_sum;
use super::stages::{StageEntry, StageInput};
use crate::sampling::SamplingParams;

pub(super) const STAGE: StageEntry = StageEntry { name: "top_n_sigma", keeps_best: true, apply };

fn apply(candidates: &mut Candidates<'_>, params: &SamplingParams, _: &mut StageInput<'_>) {
    if params.top_n_sigma <= 0.0 {
        return;
    }
    #[expect(clippy::cast_precision_loss, reason = "a vocabulary has fewer than 2^53 tokens")]
    let n = candidates.len() as f64;
    let deviation = candidates.with_logits(|logits| standard_deviation(logits, n));
    let floor = f64::from(candidates.max()) - f64::from(params.top_n_sigma) * deviation;
    #[expect(clippy::cast_possible_truncation, reason = "logits are f32")]
    candidates.keep_at_least(floor as f32, 1);
}

/// The standard deviation of `n` finite logits; negative infinities among them do not count.
fn standard_deviation(logits: &[f32], n: f64) -> f64 {
    let of_finite = |logit: f32, value: f64| if logit > f32::NEG_INFINITY { value } else { 0.0 };
    let mean = lane_sum(logits, |logit| of_finite(logit, f64::from(logit))) / n;
    let square = |logit: f32| of_finite(logit, (f64::from(logit) - mean).powi(2));
    (lane_sum(logits, square) / n).sqrt()
}
