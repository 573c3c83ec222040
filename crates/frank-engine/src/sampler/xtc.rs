//! XTC, "exclude top choices": now and then all good tokens but the least likely of them are taken out.

use super::candidates::Candidates;
use super::share;
use super::stages::{StageEntry, StageInput};
use crate::sampling::SamplingParams;

pub(super) const STAGE: StageEntry = StageEntry { name: "xtc", keeps_best: false, apply };

/// Candidates that are looked at first; if all of them are good, eight times as many are.
const HEAD: usize = 64;

fn apply(candidates: &mut Candidates<'_>, params: &SamplingParams, input: &mut StageInput<'_>) {
    if params.xtc_probability <= 0.0 || params.xtc_threshold > 0.5 || candidates.len() < 2 {
        return;
    }
    if share(input.rng) > f64::from(params.xtc_probability) {
        return;
    }
    let softmax = candidates.softmax();
    let mut wanted_head = HEAD;
    let n_good = loop {
        let head = candidates.sorted_head(wanted_head);
        let good = |logit| softmax.probability(logit) >= f64::from(params.xtc_threshold);
        let n_good = head.iter().take_while(|candidate| good(candidate.logit)).count();
        if n_good < wanted_head {
            break n_good;
        }
        wanted_head *= 8;
    };
    let n_out = n_good.saturating_sub(1);
    if n_out > 0 && candidates.len() - n_out >= params.min_keep {
        candidates.drop_head(n_out);
    }
}
