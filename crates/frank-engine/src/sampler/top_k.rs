//! Top-k: the k most likely tokens.

use super::candidates::Candidates;
use super::stages::{StageEntry, StageInput};
use crate::sampling::SamplingParams;

pub(super) const STAGE: StageEntry = StageEntry { name: "top_k", keeps_best: true, apply };

fn apply(candidates: &mut Candidates<'_>, params: &SamplingParams, _: &mut StageInput<'_>) {
    if params.top_k > 0 {
        candidates.keep_top(params.top_k as usize);
    }
}
