//! What holds for any row, mask and settings.

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

use crate::sampler::{SampleContext, Sampler, SamplerError, Stage};
use crate::sampling::{Dry, Mirostat, MirostatVersion, SamplingParams};

const N_VOCAB: usize = 150;

fn logit() -> impl Strategy<Value = f32> {
    prop_oneof![
        8 => (-40i8..40).prop_map(|n| f32::from(n) / 4.0),
        2 => any::<f32>(),
        1 => Just(f32::NAN),
        1 => Just(f32::INFINITY),
        1 => Just(f32::NEG_INFINITY),
    ]
}

/// Settings with each stage on or off, and the stages in any order.
fn params() -> impl Strategy<Value = SamplingParams> {
    let filters = (0u32..60, 0f32..1.2, 0f32..1.2, 0f32..1.2, -1f32..3.0, 0usize..20);
    let chances = (0f32..1.2, 0f32..0.6, 0f32..3.0, 0f32..2.0, any::<u64>());
    let penalties = (0.1f32..3.0, -2f32..2.0, -2f32..2.0, 0usize..50, 0f32..3.0);
    let mirostat = prop_oneof![
        6 => Just(None),
        1 => Just(Some(MirostatVersion::V1)),
        1 => Just(Some(MirostatVersion::V2)),
    ];
    let stages = Just(Stage::default_order()).prop_shuffle();
    let n_stages = 0usize..10;
    (filters, chances, penalties, mirostat, (stages, n_stages)).prop_map(
        |(filters, chances, penalties, mirostat, (mut stages, n_stages))| {
            let (top_k, top_p, min_p, typical_p, top_n_sigma, min_keep) = filters;
            let (xtc_probability, xtc_threshold, temperature, dynatemp_range, seed) = chances;
            let (repeat_penalty, presence_penalty, frequency_penalty, repeat_last_n, multiplier) =
                penalties;
            stages.truncate(n_stages);
            SamplingParams {
                top_k,
                top_p,
                min_p,
                typical_p,
                top_n_sigma,
                min_keep,
                xtc_probability,
                xtc_threshold,
                temperature,
                dynatemp_range,
                seed: Some(seed),
                repeat_penalty,
                presence_penalty,
                frequency_penalty,
                repeat_last_n,
                dry: Dry { multiplier, ..Dry::default() },
                mirostat: mirostat.map(|version| Mirostat { version, tau: 2.0, eta: 0.3 }),
                stages,
                ..SamplingParams::default()
            }
        },
    )
}

/// The tokens that may be drawn at all.
fn drawable(logits: &[f32], mask: &[u32], banned: &[u32]) -> Vec<u32> {
    let ids = logits.iter().zip(0u32..).filter(|(logit, id)| {
        logit.is_finite() && mask[*id as usize / 32] >> (id % 32) & 1 == 1 && !banned.contains(id)
    });
    ids.map(|(_, id)| id).collect()
}

proptest! {
    #[test]
    fn nothing_is_drawn_that_is_banned_masked_or_no_number(
        logits in vec(logit(), N_VOCAB),
        mask in vec(any::<u32>(), N_VOCAB.div_ceil(32)),
        banned in vec(0u32..200, 0..5),
        history in vec(0u32..20, 0..60),
        params in params(),
    ) {
        let allowed = drawable(&logits, &mask, &banned);
        let context = SampleContext {
            history: &history,
            banned: &banned,
            allowed: Some(&mask),
            n_logprobs: Some(5),
        };
        let mut sampler = Sampler::new(params.clone(), 0);
        for _ in 0..3 {
            match sampler.sample(&mut logits.clone(), &context) {
                Ok(token) => {
                    prop_assert!(allowed.contains(&token.token_id));
                    let logprobs = token.logprobs.expect("they were asked for");
                    prop_assert!(logprobs.logprob <= 0.0);
                    let sum: f32 = logprobs.top.iter().map(|(_, logprob)| logprob.exp()).sum();
                    prop_assert!(sum <= 1.0001);
                    prop_assert!(logprobs.top.is_sorted_by(|a, b| a.1 >= b.1));
                }
                Err(error) => {
                    prop_assert!(allowed.is_empty());
                    let is_no_row = logits.iter().all(|logit| !logit.is_finite());
                    prop_assert_eq!(error == SamplerError::NoFiniteLogit, is_no_row);
                }
            }
        }
        let again = Sampler::new(params.clone(), 1).sample(&mut logits.clone(), &context);
        prop_assert_eq!(again, Sampler::new(params, 2).sample(&mut logits.clone(), &context));
    }

    #[test]
    fn greedy_is_the_first_of_the_largest_allowed(
        logits in vec(logit(), N_VOCAB),
        mask in vec(any::<u32>(), N_VOCAB.div_ceil(32)),
    ) {
        let mut best: Option<u32> = None;
        for id in drawable(&logits, &mask, &[]) {
            if best.is_none_or(|best| logits[id as usize] > logits[best as usize]) {
                best = Some(id);
            }
        }
        let context = SampleContext { allowed: Some(&mask), ..SampleContext::default() };
        let drawn = Sampler::new(SamplingParams::greedy(), 0).sample(&mut logits.clone(), &context);
        prop_assert_eq!(drawn.ok().map(|token| token.token_id), best);
    }
}
