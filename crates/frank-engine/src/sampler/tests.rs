//! The sampler as a whole: which tokens can be drawn by which settings.

mod oracle;
mod properties;

use std::sync::Arc;

use super::*;
use crate::sampling::{Dry, Mirostat, MirostatVersion};

const LOGITS: [f32; 5] = [0.0, 3.0, 1.0, 3.0, 2.0];

fn plain() -> SamplingParams {
    SamplingParams::default()
}

fn sampled(sampler: &mut Sampler, logits: &[f32], context: &SampleContext<'_>) -> u32 {
    sampler.sample(&mut logits.to_vec(), context).expect("a token can be drawn").token_id
}

/// The tokens that 400 draws give.
fn drawn_with(params: SamplingParams, context: &SampleContext<'_>) -> Vec<u32> {
    let mut sampler = Sampler::new(params, 7);
    let mut seen: Vec<u32> = (0..400).map(|_| sampled(&mut sampler, &LOGITS, context)).collect();
    seen.sort_unstable();
    seen.dedup();
    seen
}

fn drawn(params: SamplingParams) -> Vec<u32> {
    drawn_with(params, &SampleContext::default())
}

#[test]
fn temperature_zero_takes_the_lowest_id_of_equals() {
    assert_eq!(drawn(SamplingParams::greedy()), [1]);
    assert_eq!(drawn(SamplingParams { temperature: 1e-39, ..plain() }), [1]);
}

#[test]
fn without_filters_every_token_can_be_drawn() {
    assert_eq!(drawn(plain()), [0, 1, 2, 3, 4]);
}

#[test]
fn top_k_keeps_that_many_and_the_lower_id_of_equals() {
    assert_eq!(drawn(SamplingParams { top_k: 1, ..plain() }), [1]);
    assert_eq!(drawn(SamplingParams { top_k: 3, ..plain() }), [1, 3, 4]);
    assert_eq!(drawn(SamplingParams { top_k: 99, ..plain() }), [0, 1, 2, 3, 4]);
}

#[test]
fn top_p_keeps_the_fewest_that_reach_the_sum() {
    // Probabilities: 0.40, 0.40, 0.15, 0.05, 0.02 for tokens 1, 3, 4, 2, 0.
    assert_eq!(drawn(SamplingParams { top_p: 0.3, ..plain() }), [1]);
    assert_eq!(drawn(SamplingParams { top_p: 0.75, ..plain() }), [1, 3]);
    assert_eq!(drawn(SamplingParams { top_p: 0.9, ..plain() }), [1, 3, 4]);
}

#[test]
fn top_p_looks_past_the_first_sorted_head() {
    let logits = vec![0.0; 1000];
    let mut sampler = Sampler::new(SamplingParams { top_p: 0.5, ..plain() }, 7);
    let drawn: Vec<u32> =
        (0..2000).map(|_| sampled(&mut sampler, &logits, &SampleContext::default())).collect();
    assert!(drawn.iter().all(|&t| t < 500), "half of 1000 equal tokens is the first 500");
    assert!(drawn.iter().any(|&t| t > 400));
}

#[test]
fn a_nucleus_of_a_flat_row_is_that_of_a_sort() {
    let logits: Vec<f32> = (0..6000u32).map(|i| (i * 7919 % 4001) as f32 / 700.0).collect();
    let mut sorted: Vec<usize> = (0..logits.len()).collect();
    sorted.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b)));
    let weights: Vec<f64> = sorted.iter().map(|id| f64::from(logits[*id]).exp()).collect();
    let total: f64 = weights.iter().sum();
    for (top_p, min_keep) in [(0.3, 0), (0.8, 0), (0.999, 0), (0.2, 3000)] {
        let mut sum = 0.0;
        let n = weights.iter().zip(1..).find_map(|(weight, n)| {
            sum += weight / total;
            (sum >= f64::from(top_p) && n >= min_keep).then_some(n)
        });
        let mut expected = sorted[..n.expect("it is reached")].to_vec();
        expected.sort_unstable();
        let params = SamplingParams { top_p, min_keep, ..plain() };
        for is_listed in [false, true] {
            let (mut row, mut list) = (logits.clone(), Vec::new());
            let mut candidates = Candidates::new(&mut row, &mut list);
            if is_listed {
                candidates.as_list();
            }
            let mut counts = penalties::TokenCounts::default();
            let mut rng = ChaCha8Rng::seed_from_u64(0);
            let mut input = StageInput {
                history: &[],
                counts: &mut counts,
                last_break: &mut dry::LastBreak::default(),
                rng: &mut rng,
            };
            stages::apply(&mut candidates, &params, &mut input);
            let kept = candidates.as_list().iter().map(|c| c.token_id as usize);
            let mut kept: Vec<usize> = kept.collect();
            kept.sort_unstable();
            assert!(kept.len().abs_diff(expected.len()) <= 1, "{} {}", kept.len(), expected.len());
            assert_eq!(kept[..100], expected[..100]);
        }
    }
}

#[test]
fn min_p_is_relative_to_the_most_likely_token() {
    assert_eq!(drawn(SamplingParams { min_p: 0.3, ..plain() }), [1, 3, 4]);
    assert_eq!(drawn(SamplingParams { min_p: 1.0, ..plain() }), [1, 3]);
}

#[test]
fn min_keep_holds_against_each_filter_that_knows_it() {
    for filtered in [
        SamplingParams { top_p: 0.1, ..plain() },
        SamplingParams { min_p: 1.0, ..plain() },
        SamplingParams { typical_p: 0.01, ..plain() },
    ] {
        let kept = drawn(SamplingParams { min_keep: 4, ..filtered });
        assert_eq!(kept.len(), 4, "{kept:?}");
    }
    let xtc = SamplingParams { xtc_probability: 1.0, ..plain() };
    assert_eq!(drawn(xtc.clone()), [0, 2, 4]);
    assert_eq!(drawn(SamplingParams { min_keep: 4, ..xtc }), [0, 1, 2, 3, 4]);
}

#[test]
fn the_order_of_stages_is_the_one_of_the_request() {
    let stages = |names: &[&str]| -> Vec<Stage> {
        names.iter().map(|name| Stage::named(name).expect("a stage")).collect()
    };
    let of = |names| {
        let params = SamplingParams { top_k: 3, top_p: 0.45, ..plain() };
        drawn(SamplingParams { stages: stages(names), ..params })
    };
    // Of the three most likely, the first two are 0.42 each; of all five, 0.40 each.
    assert_eq!(of(&["top_k", "top_p"]), [1, 3]);
    assert_eq!(of(&["top_k"]), [1, 3, 4]);
    assert_eq!(of(&[]), [0, 1, 2, 3, 4]);
    assert_eq!(of(&["temperature", "top_k"]), [1, 3, 4]);
    assert_eq!(Stage::named("infill"), None);
    let greedy =
        SamplingParams { stages: stages(&["top_k"]), top_k: 2, ..SamplingParams::greedy() };
    assert_eq!(drawn(greedy), [1, 3], "without its stage the temperature is not used");
    let late = SamplingParams { top_k: 2, temperature: 100.0, top_p: 0.45, ..plain() };
    let first = SamplingParams { stages: stages(&["temperature", "top_k", "top_p"]), ..late };
    assert_eq!(drawn(first), [1]);
}

#[test]
fn the_default_order_is_that_of_llama_cpp() {
    let names: Vec<_> = Stage::default_order().iter().map(Stage::name).collect();
    let llama_cpp = [
        "penalties",
        "dry",
        "top_n_sigma",
        "top_k",
        "typ_p",
        "top_p",
        "min_p",
        "xtc",
        "temperature",
    ];
    assert_eq!(names, llama_cpp);
}

#[test]
fn the_same_seed_draws_the_same_tokens() {
    let run = |seed| {
        let mut sampler = Sampler::new(SamplingParams { seed, ..plain() }, 1);
        (0..50)
            .map(|_| sampled(&mut sampler, &LOGITS, &SampleContext::default()))
            .collect::<Vec<_>>()
    };
    assert_eq!(run(Some(5)), run(Some(5)));
    assert_ne!(run(Some(5)), run(Some(6)));
    assert_eq!(run(None), run(Some(1)));
}

#[test]
fn tokens_are_drawn_as_often_as_they_are_likely() {
    let logits = [0.5f32, 0.25, 0.125, 0.125].map(f32::ln);
    for top_k in [0, 4] {
        let mut sampler = Sampler::new(SamplingParams { top_k, ..plain() }, 3);
        let mut counts = [0u32; 4];
        for _ in 0..40_000 {
            counts[sampled(&mut sampler, &logits, &SampleContext::default()) as usize] += 1;
        }
        // Six standard deviations of a count are below 600.
        for (count, expected) in counts.into_iter().zip([20_000, 10_000, 5_000, 5_000]) {
            assert!(count.abs_diff(expected) < 600, "{counts:?}");
        }
    }
}

#[test]
fn penalties_act_on_the_tail_of_the_history_only() {
    let params =
        SamplingParams { repeat_last_n: 2, repeat_penalty: 2.0, ..SamplingParams::greedy() };
    let after = |history: &[u32]| {
        let context = SampleContext { history, ..SampleContext::default() };
        drawn_with(params.clone(), &context)
    };
    assert_eq!(after(&[3, 1, 1]), [3]);
    assert_eq!(after(&[1, 3, 3]), [1]);
    assert_eq!(after(&[0, 1, 3]), [4]);
}

#[test]
fn a_bias_moves_and_bans() {
    let biased = |bias: f32| SamplingParams {
        logit_bias: vec![(0, bias), (99, 1.0)],
        ..SamplingParams::greedy()
    };
    assert_eq!(drawn(biased(3.5)), [0]);
    assert_eq!(drawn(biased(f32::MAX)), [0]);
    let banned = [1, 3].map(|token_id| (token_id, f32::NEG_INFINITY)).to_vec();
    assert_eq!(drawn(SamplingParams { logit_bias: banned, ..plain() }), [0, 2, 4]);
}

#[test]
fn what_the_mask_does_not_allow_is_never_drawn() {
    let with = |mask: &[u32], banned: &[u32]| {
        let context = SampleContext { allowed: Some(mask), banned, ..SampleContext::default() };
        drawn_with(plain(), &context)
    };
    assert_eq!(with(&[0b10101], &[]), [0, 2, 4]);
    assert_eq!(with(&[0b10101], &[0, 7]), [2, 4]);
    assert_eq!(with(&[u32::MAX], &[]), [0, 1, 2, 3, 4]);
}

#[test]
fn nothing_to_draw_is_an_error_by_name() {
    for temperature in [0.0, 1.0] {
        let mut sampler = Sampler::new(SamplingParams { temperature, ..plain() }, 0);
        let mut sample = |mut logits: [f32; 2], context| sampler.sample(&mut logits, &context);
        let nothing = sample([f32::NAN, f32::INFINITY], SampleContext::default());
        assert_eq!(nothing, Err(SamplerError::NoFiniteLogit));
        let allowed = SampleContext { allowed: Some(&[0b10]), ..SampleContext::default() };
        assert_eq!(sample([1.0, f32::NAN], allowed), Err(SamplerError::NothingAllowed));
        let empty = SampleContext { allowed: Some(&[]), ..SampleContext::default() };
        assert_eq!(sample([1.0, 2.0], empty), Err(SamplerError::NothingAllowed));
        let banned = SampleContext { banned: &[0, 1], ..SampleContext::default() };
        assert_eq!(sample([1.0, 2.0], banned), Err(SamplerError::NothingAllowed));
    }
}

#[test]
fn log_probabilities_are_of_the_row_as_the_model_gave_it() {
    let params = SamplingParams {
        logit_bias: vec![(1, f32::NEG_INFINITY), (3, -100.0)],
        temperature: 0.0,
        ..plain()
    };
    let context = SampleContext { n_logprobs: Some(3), ..SampleContext::default() };
    let mut logits = LOGITS;
    logits[0] = f32::NAN;
    let token = Sampler::new(params, 0).sample(&mut logits, &context).expect("a token");
    assert_eq!(token.token_id, 4);
    let logprobs = token.logprobs.expect("they were asked for");
    let sum: f64 = [3.0, 1.0, 3.0, 2.0f64].iter().map(|l| l.exp()).sum();
    let expected = |logit: f64| logit - sum.ln();
    let close = |got: f32, logit: f64| (f64::from(got) - expected(logit)).abs() < 1e-6;
    assert!(close(logprobs.logprob, 2.0), "{logprobs:?}");
    assert_eq!(logprobs.top.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 3, 4]);
    assert!(close(logprobs.top[0].1, 3.0) && close(logprobs.top[2].1, 2.0), "{logprobs:?}");
}

#[test]
fn log_probabilities_that_nobody_asked_for_are_not_there() {
    let mut sampler = Sampler::new(plain(), 0);
    let token = sampler.sample(&mut LOGITS.clone(), &SampleContext::default()).expect("a token");
    assert_eq!(token.logprobs, None);
    let context = SampleContext { n_logprobs: Some(0), ..SampleContext::default() };
    let token = sampler.sample(&mut LOGITS.clone(), &context).expect("a token");
    assert_eq!(token.logprobs.expect("they were asked for").top, []);
}

#[test]
fn dry_ends_a_loop_that_a_breaker_lets_go_on() {
    let history = [1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3];
    let looping = [0.0, 0.0, 0.0, 0.0, 1.0];
    let next = |breakers: DryBreakers| {
        let dry = Dry { multiplier: 1.0, breakers: Arc::new(breakers), ..Dry::default() };
        let mut sampler = Sampler::new(SamplingParams { dry, ..SamplingParams::greedy() }, 0);
        let context = SampleContext { history: &history, ..SampleContext::default() };
        sampled(&mut sampler, &looping, &context)
    };
    assert_eq!(next(DryBreakers::default()), 0);
    let texts = ["a", "b", "c", "\n", "e"];
    let breakers =
        DryBreakers::new(&["\n".to_owned()], texts.len(), |id| texts[id as usize].as_bytes());
    assert_eq!(next(breakers), 4);
}

#[test]
fn mirostat_holds_the_surprise_near_its_target() {
    // Zipf's law over 5000 tokens: 7.6 bits of entropy, so a target of 3 needs a bound.
    let logits: Vec<f32> = (1..=5000u16).map(|rank| -f32::from(rank).ln()).collect();
    let sum: f64 = logits.iter().map(|&l| f64::from(l).exp()).sum();
    for version in [MirostatVersion::V1, MirostatVersion::V2] {
        let mirostat = Some(Mirostat { version, tau: 3.0, eta: 0.1 });
        // Top-k has no effect beside it.
        let mut sampler = Sampler::new(SamplingParams { mirostat, top_k: 1, ..plain() }, 5);
        let mut kept = Vec::new();
        for _ in 0..2000 {
            let token_id = sampled(&mut sampler, &logits, &SampleContext::default());
            kept.push(-(f64::from(logits[token_id as usize]).exp() / sum).log2());
        }
        let unbounded: f64 = 7.6;
        let mean = kept[500..].iter().sum::<f64>() / 1500.0;
        assert!(mean < unbounded - 1.0 && mean > 2.5, "{version:?}: {mean} bits");
        let greedy = SamplingParams { mirostat, ..SamplingParams::greedy() };
        assert_eq!(drawn(greedy), [1]);
    }
}

#[test]
fn one_candidate_and_extreme_logits_are_drawn_from_without_trouble() {
    let settings = [
        SamplingParams { temperature: 1e-30, ..plain() },
        SamplingParams { dynatemp_range: 5.0, ..plain() },
        SamplingParams { typical_p: 0.5, top_n_sigma: 1.0, min_p: 0.1, ..plain() },
        SamplingParams { xtc_probability: 1.0, xtc_threshold: 0.0, ..plain() },
        SamplingParams { repeat_penalty: 1e-30, frequency_penalty: f32::MAX, ..plain() },
        SamplingParams {
            mirostat: Some(Mirostat { version: MirostatVersion::V1, tau: 5.0, eta: 0.1 }),
            ..plain()
        },
        SamplingParams {
            mirostat: Some(Mirostat { version: MirostatVersion::V2, tau: 0.0, eta: 9.0 }),
            ..plain()
        },
    ];
    let rows: [&[f32]; 5] = [
        &[1.0],
        &[f32::NAN, -3.0],
        &[f32::MAX, f32::MIN, 0.0],
        &[f32::MIN, f32::MIN],
        &[1e-38, -1e-38, 0.0, f32::NEG_INFINITY],
    ];
    for params in settings {
        for row in rows {
            let mut sampler = Sampler::new(params.clone(), 1);
            for n in 0..20 {
                let history = vec![0; n];
                let context = SampleContext { history: &history, ..SampleContext::default() };
                let token_id = sampled(&mut sampler, row, &context);
                assert!(row[token_id as usize].is_finite(), "{params:?} of {row:?}");
            }
        }
    }
}
