//! Every family against logits that the transformers library computed for a tiny model of it.

use std::fs::File;
use std::io::BufReader;

use frank_models::ARCHS;
use frank_testkit::assets;
use npyz::NpyFile;

use crate::step::Run;

fn npy<T: npyz::Deserialize>(name: &str) -> Vec<T> {
    let file = BufReader::new(File::open(assets::tiny(name)).expect("a file of the repository"));
    NpyFile::new(file).expect("an npy file").into_vec().expect("values of the stated type")
}

fn log_probabilities(logits: &[f32]) -> Vec<f64> {
    let max = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = logits.iter().map(|&x| (f64::from(x) - max).exp()).sum();
    logits.iter().map(|&x| f64::from(x) - max - sum.ln()).collect()
}

#[test]
fn every_family_gives_the_log_probabilities_of_transformers_within_5e_6() {
    for arch in ARCHS {
        let ids: Vec<i64> = npy(&format!("{}.ids.npy", arch.name));
        let token_ids: Vec<u32> =
            ids.into_iter().map(|id| u32::try_from(id).expect("a token id")).collect();
        let expected: Vec<f32> = npy(&format!("{}.logits.npy", arch.name));
        let got = Run::EXACT.logits(&assets::tiny(&format!("{}.gguf", arch.name)), &token_ids);
        assert_eq!(got.len(), expected.len(), "{}: one row of logits for each token", arch.name);
        let n_vocab = expected.len() / token_ids.len();
        for (row, (got, expected)) in got.chunks(n_vocab).zip(expected.chunks(n_vocab)).enumerate()
        {
            let pairs = log_probabilities(got).into_iter().zip(log_probabilities(expected));
            let worst = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(worst <= 5e-6, "{}: row {row} is off by {worst:e}", arch.name);
        }
    }
}
