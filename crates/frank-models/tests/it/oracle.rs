//! Every family against logits that the transformers library computed for tiny models of it.

use frank_models::ARCHS;
use frank_testkit::assets;

use crate::step::Run;
use crate::tiny::{self, Tiny};

fn log_probabilities(logits: &[f32]) -> Vec<f64> {
    let max = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = logits.iter().map(|&x| (f64::from(x) - max).exp()).sum();
    logits.iter().map(|&x| f64::from(x) - max - sum.ln()).collect()
}

/// Largest distance in log probability between what frank and the library say.
fn worst(name: &str) -> f64 {
    let Tiny { token_ids, rows, logits: expected } = Tiny::read(name);
    let got = Run::EXACT.logits(&assets::tiny(&format!("{name}.gguf")), &token_ids);
    let n_vocab = got.len() / token_ids.len();
    assert_eq!(expected.len(), rows.len() * n_vocab, "{name}: one row of logits for each position");
    let mut worst: f64 = 0.0;
    for (&row, expected) in rows.iter().zip(expected.chunks(n_vocab)) {
        let got = log_probabilities(&got[row * n_vocab..][..n_vocab]);
        let pairs = got.into_iter().zip(log_probabilities(expected));
        worst = pairs.map(|(a, b)| (a - b).abs()).fold(worst, f64::max);
    }
    worst
}

#[test]
fn every_family_gives_the_log_probabilities_of_transformers_within_5e_6() {
    let off: Vec<(String, f64)> =
        tiny::names().into_iter().map(|name| (name.clone(), worst(&name))).collect();
    assert!(off.iter().all(|(_, worst)| *worst <= 5e-6), "{off:#?}");
}

#[test]
fn every_family_has_a_tiny_model_of_its_own_name() {
    let names = tiny::names();
    for arch in ARCHS {
        assert!(names.iter().any(|name| name == arch.name), "{} has no tiny model", arch.name);
    }
}
