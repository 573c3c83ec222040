//! Locally typical sampling (Meister et al. 2022): tokens whose surprise is nearest to the expected one, the entropy.

use super::candidates::{Candidate, Candidates};
use super::softmax::Softmax;
use super::stages::{StageEntry, StageInput};
use crate::sampling::SamplingParams;

pub(super) const STAGE: StageEntry = StageEntry { name: "typ_p", keeps_best: false, apply };

/// Candidates that are sorted first; if they are not enough, eight times as many are.
const HEAD: usize = 256;

fn apply(candidates: &mut Candidates<'_>, params: &SamplingParams, _: &mut StageInput<'_>) {
    if params.typical_p >= 1.0 {
        return;
    }
    let softmax = candidates.softmax();
    let entropy = candidates.with_logits(|logits| softmax.entropy(logits));
    let list = candidates.as_list();
    let mut head = HEAD.min(list.len());
    loop {
        sort_head(list, head, &softmax, entropy);
        let mut sum = 0.0;
        let typical = list[..head].iter().zip(1..).find_map(|(candidate, n)| {
            sum += softmax.probability(candidate.logit);
            (sum > f64::from(params.typical_p) && n >= params.min_keep).then_some(n)
        });
        if let Some(n) = typical {
            return list.truncate(n);
        }
        if head == list.len() {
            return;
        }
        head = (head * 8).min(list.len());
    }
}

/// Puts the `n` most typical of `list` to its front, in order; of equally typical ones the more likely comes first.
fn sort_head(list: &mut [Candidate], n: usize, softmax: &Softmax, entropy: f64) {
    let log_sum = softmax.log_sum();
    let distance = |c: &Candidate| (log_sum - f64::from(c.logit) - entropy).abs();
    let order = |a: &Candidate, b: &Candidate| {
        distance(a).total_cmp(&distance(b)).then_with(|| Candidate::order(a, b))
    };
    if n < list.len() {
        list.select_nth_unstable_by(n - 1, order);
    }
    list[..n].sort_unstable_by(order);
}
