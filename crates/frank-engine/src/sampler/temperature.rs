//! Temperature, plain and dynamic: how much less likely a smaller logit is.

use super::candidates::Candidates;
use super::stages::{StageEntry, StageInput};
use crate::sampling::SamplingParams;

pub(super) const STAGE: StageEntry = StageEntry { name: "temperature", keeps_best: false, apply };

/// Whether only the most likely candidate is left after this stage.
pub(super) fn takes_best(params: &SamplingParams) -> bool {
    params.temperature <= 0.0 && params.dynatemp_range <= 0.0
}

fn apply(candidates: &mut Candidates<'_>, params: &SamplingParams, _: &mut StageInput<'_>) {
    if params.dynatemp_range <= 0.0 {
        scale(candidates, params.temperature);
    } else if candidates.len() > 1 {
        let temperature = dynamic(candidates, params);
        scale(candidates, temperature);
    }
}

/// Divides the logits by `temperature`; at 0 and below only the most likely candidate stays.
pub(super) fn scale(candidates: &mut Candidates<'_>, temperature: f32) {
    if temperature <= 0.0 || !(candidates.max() / temperature).is_finite() {
        candidates.keep_top(1);
    } else if temperature != 1.0 {
        candidates.divide(temperature);
    }
}

/// The temperature for how sure the model is: from the lowest at an entropy of 0 to the highest where all candidates
/// are equally likely.
fn dynamic(candidates: &Candidates<'_>, params: &SamplingParams) -> f32 {
    let lowest = (params.temperature - params.dynatemp_range).max(0.0);
    let highest = params.temperature + params.dynatemp_range;
    let entropy = candidates.with_logits(|logits| candidates.softmax().entropy(logits));
    #[expect(clippy::cast_precision_loss, reason = "a vocabulary has fewer than 2^53 tokens")]
    let most = (candidates.len() as f64).ln();
    #[expect(clippy::cast_possible_truncation, reason = "a share of [0, 1]")]
    let share = (entropy / most).clamp(0.0, 1.0) as f32;
    lowest + (highest - lowest) * share.powf(params.dynatemp_exponent)
}
