//! Min-p (Nguyen et al. 2024): tokens at least a fraction as likely as the most likely one.

use super::candidates::Candidates;
use super::stages::{StageEntry, StageInput};
use crate::sampling::SamplingParams;

pub(super) const STAGE: StageEntry = StageEntry { name: "min_p", keeps_best: true, apply };

fn apply(candidates: &mut Candidates<'_>, params: &SamplingParams, _: &mut StageInput<'_>) {
    if params.min_p > 0.0 {
        // p >= min_p * p_max is, in logits, a distance from the largest.
        let floor = candidates.max() + params.min_p.min(1.0).ln();
        candidates.keep_at_least(floor, params.min_keep);
    }
}
