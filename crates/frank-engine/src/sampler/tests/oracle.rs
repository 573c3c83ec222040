//! Every stage beside llama.cpp's: what its own library keeps of seeded logits, and with which probabilities
//! (`tests/oracle/samplers.py` wrote the file).

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::Value;

use super::super::candidates::Candidates;
use super::super::dry::LastBreak;
use super::super::mirostat;
use super::super::penalties::TokenCounts;
use super::super::stages::{self, StageInput};
use crate::sampler::Stage;
use crate::sampling::{Dry, Mirostat, MirostatVersion, SamplingParams};

fn params(settings: &Value) -> SamplingParams {
    #[expect(clippy::cast_possible_truncation, reason = "settings are f32")]
    let number = |name: &str, default: f32| settings[name].as_f64().map_or(default, |n| n as f32);
    let count = |name: &str| settings[name].as_u64().unwrap_or(0);
    let plain = SamplingParams::default();
    let dry = Dry {
        multiplier: number("dry_multiplier", 0.0),
        base: number("dry_base", 1.75),
        allowed_length: usize::try_from(count("dry_allowed_length")).expect("small"),
        penalty_last_n: usize::try_from(count("dry_penalty_last_n")).expect("small"),
        ..Dry::default()
    };
    SamplingParams {
        temperature: number("temperature", 1.0),
        dynatemp_range: number("dynatemp_range", 0.0),
        dynatemp_exponent: number("dynatemp_exponent", 1.0),
        top_k: u32::try_from(count("top_k")).expect("small"),
        top_p: number("top_p", 1.0),
        min_p: number("min_p", 0.0),
        typical_p: number("typical_p", 1.0),
        top_n_sigma: number("top_n_sigma", 0.0),
        xtc_probability: number("xtc_probability", 0.0),
        xtc_threshold: number("xtc_threshold", 0.1),
        min_keep: usize::try_from(count("min_keep")).expect("small"),
        repeat_penalty: number("repeat_penalty", 1.0),
        repeat_last_n: usize::try_from(count("repeat_last_n")).expect("small"),
        presence_penalty: number("presence_penalty", 0.0),
        frequency_penalty: number("frequency_penalty", 0.0),
        dry,
        ..plain
    }
}

/// What the stages, or Mirostat, leave of `logits`, by token id with probabilities.
fn kept(case: &Value, is_listed: bool) -> Vec<(u32, f64)> {
    let numbers = |name: &str| -> Vec<f64> {
        let list = case[name].as_array().expect("a list").iter();
        list.map(|number| number.as_f64().expect("a number")).collect()
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "sixteenths and small token ids"
    )]
    let (mut row, history): (Vec<f32>, Vec<u32>) = (
        numbers("logits").into_iter().map(|logit| logit as f32).collect(),
        numbers("history").into_iter().map(|token_id| token_id as u32).collect(),
    );
    let settings = &case["settings"];
    let mut list = Vec::new();
    let mut candidates = Candidates::new(&mut row, &mut list);
    if is_listed {
        candidates.as_list();
    }
    if let Some(version) = settings["mirostat"].as_u64() {
        let version = if version == 1 { MirostatVersion::V1 } else { MirostatVersion::V2 };
        let tau = settings["tau"].as_f64().expect("a number");
        #[expect(clippy::cast_possible_truncation, reason = "settings are f32")]
        let mirostat = Mirostat { version, tau: tau as f32, eta: 0.1 };
        mirostat::draw(&mut candidates, mirostat, &mut (2.0 * tau), 0.5);
    } else {
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        let mut counts = TokenCounts::default();
        let mut input = StageInput {
            history: &history,
            counts: &mut counts,
            last_break: &mut LastBreak::default(),
            rng: &mut rng,
        };
        stages::apply(&mut candidates, &params(settings), &mut input);
    }
    let softmax = candidates.softmax();
    let mut kept: Vec<(u32, f64)> = candidates
        .as_list()
        .iter()
        .map(|candidate| (candidate.token_id, softmax.probability(candidate.logit)))
        .collect();
    kept.sort_unstable_by_key(|(token_id, _)| *token_id);
    kept
}

#[test]
fn every_stage_keeps_what_that_of_llama_cpp_keeps() {
    let cases: Value = serde_json::from_str(include_str!("../../../tests/oracle/samplers.json"))
        .expect("the oracle's answers are JSON");
    let cases = cases.as_array().expect("a list");
    for case in cases {
        let expected: Vec<(u64, f64)> =
            serde_json::from_value(case["kept"].clone()).expect("ids with probabilities");
        for is_listed in [false, true] {
            let kept = kept(case, is_listed);
            let place = format!("{} {} {is_listed}", case["sampler"], case["settings"]);
            let ids: Vec<u64> = kept.iter().map(|(token_id, _)| u64::from(*token_id)).collect();
            assert_eq!(ids, expected.iter().map(|(id, _)| *id).collect::<Vec<_>>(), "{place}");
            for ((token_id, got), (_, want)) in kept.iter().zip(&expected) {
                // llama.cpp sums and changes logits in f32: half a thousandth of a probability, or next to nothing.
                let error = (got - want).abs();
                assert!(error < 5e-4 * want + 1e-30, "{place}: token {token_id} {got} {want}");
            }
        }
    }
    let names: std::collections::BTreeSet<_> =
        cases.iter().map(|c| c["sampler"].as_str()).collect();
    assert_eq!(names.len(), Stage::default_order().len() + 2, "each stage and both Mirostats");
}
