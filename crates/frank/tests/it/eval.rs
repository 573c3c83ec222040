//! `frank eval`: logits against the transformers library, perplexity, and what it refuses.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use frank_testkit::assets;
use npyz::{NpyFile, WriterBuilder};

use crate::files::{Folder, llama};
use crate::program::frank;

fn npy(path: &Path) -> (Vec<u64>, Vec<f32>) {
    let file =
        NpyFile::new(BufReader::new(File::open(path).expect("a file"))).expect("an npy file");
    (file.shape().to_vec(), file.into_vec().expect("f32 values"))
}

fn log_probabilities(logits: &[f32]) -> impl Iterator<Item = f64> {
    let max = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = logits.iter().map(|&x| (f64::from(x) - max).exp()).sum();
    logits.iter().map(move |&x| f64::from(x) - max - sum.ln())
}

fn str(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn logits_of_the_tiny_llama_are_those_of_transformers_within_5e_6() {
    let folder = Folder::new();
    let out = folder.path().join("logits.npy");
    let (llama, ids) = (llama(), assets::tiny("llama.ids.npy"));
    let args = ["eval", str(&llama), "--ids", str(&ids), "--logits", str(&out), "--kv-type", "f32"];
    let run = frank(args).ended(0);
    assert!(run.stdout.starts_with("perplexity "), "{run:?}");
    let (shape, got) = npy(&out);
    let (expected_shape, expected) = npy(&assets::tiny("llama.logits.npy"));
    assert_eq!(shape, expected_shape);
    let n_vocab = usize::try_from(shape[1]).expect("small");
    for (got, expected) in got.chunks(n_vocab).zip(expected.chunks(n_vocab)) {
        let worst =
            log_probabilities(got).zip(log_probabilities(expected)).map(|(a, b)| (a - b).abs());
        let worst = worst.fold(0.0, f64::max);
        assert!(worst <= 5e-6, "off by {worst:e}");
    }
}

#[test]
fn perplexity_tells_a_text_from_its_words_in_another_order() {
    let folder = Folder::new();
    let sense =
        "The sun rises in the east and sets in the west. Water is made of hydrogen and oxygen.";
    let mut words: Vec<&str> = sense.split(' ').collect();
    words.reverse();
    let perplexity = |name: &str, text: &str| {
        let path = folder.file(name, text);
        let json = frank(["eval", "--json", str(&assets::smollm2()), str(&path)]).ended(0).json();
        assert_eq!(json["tokens"].as_u64().map(|n| n - 1), json["scored"].as_u64(), "{json}");
        json["perplexity"].as_f64().expect("a number")
    };
    let (sense, nonsense) = (perplexity("sense", sense), perplexity("nonsense", &words.join(" ")));
    assert!(sense < 20.0 && nonsense > 10.0 * sense, "{sense} and {nonsense}");
}

#[test]
fn a_text_longer_than_the_context_is_read_in_windows() {
    let folder = Folder::new();
    let path = folder.file("text", "abcdefgh".repeat(10));
    let json = frank(["eval", "--json", str(&llama()), str(&path), "-c", "32"]).ended(0).json();
    // 80 letters in windows of 32, the first of each not scored; the file asks for a BOS or it does not.
    let tokens = json["tokens"].as_u64().expect("a count");
    assert_eq!(json["scored"].as_u64(), Some(tokens - tokens.div_ceil(32)), "{json}");
}

#[test]
fn a_model_that_computes_nan_is_an_error_and_leaves_no_logits() {
    let folder = Folder::new();
    let mut bytes = std::fs::read(llama()).expect("the tiny model");
    let last = bytes.len() - 4;
    bytes[last..].copy_from_slice(&f32::NAN.to_le_bytes());
    let (model, out) = (folder.file("nan.gguf", bytes), folder.path().join("out.npy"));
    let ids = assets::tiny("llama.ids.npy");
    let args = ["eval", str(&model), "--ids", str(&ids), "--logits", str(&out)];
    let lines = frank(args).failed(1);
    assert!(lines[0].starts_with("loaded ") && lines[1].contains("not finite"), "{lines:?}");
    assert!(!out.exists(), "nothing half-written");
}

#[test]
fn input_that_cannot_be_evaluated_is_refused_and_no_output_is_left() {
    let folder = Folder::new();
    let llama = llama();
    let out = folder.path().join("out.npy");
    let ids = |name: &str, ids: &[i64]| {
        let path = folder.path().join(name);
        let file = File::create(&path).expect("a new file");
        let options = npyz::WriteOptions::new().default_dtype().shape(&[ids.len() as u64]);
        let mut writer = options.writer(file).begin_nd().expect("a header");
        writer.extend(ids.iter().copied()).expect("written");
        writer.finish().expect("whole");
        path
    };
    let check = |ids: &Path, options: &[&str], expected: &str| {
        let args =
            [&["eval", str(&llama), "--ids", str(ids), "--logits", str(&out)], options].concat();
        let lines = frank(args).failed(2);
        assert!(lines.iter().any(|line| line.contains(expected)), "{lines:?}");
        assert!(!out.exists(), "nothing half-written");
    };
    check(&ids("large.npy", &[1, 300]), &[], "token id 300 is not below the vocabulary size 300");
    check(&ids("negative.npy", &[-1]), &[], "-1 is no token id");
    check(&ids("empty.npy", &[]), &[], "no token to evaluate");
    check(&ids("long.npy", &[1; 65]), &["-c", "64"], "--ctx-size 65");
    check(&ids("fine.npy", &[1]), &["--parallel", "2"], "--parallel has no effect");
    check(&folder.file("text.npy", "no array"), &[], "cannot read token ids");
    check(&assets::tiny("llama.logits.npy"), &[], "[n] or [1, n] expected");
    let lines = frank(["eval", str(&llama), "/no/such/text"]).failed(2);
    assert!(lines[0].contains("cannot read the text /no/such/text"), "{lines:?}");
    let binary = folder.file("binary", [0xff, 0xfe]);
    assert!(frank(["eval", str(&llama), str(&binary)]).failed(2)[0].contains("not UTF-8"));
    let fine = ids("fine.npy", &[1, 2]);
    let lines =
        frank(["eval", str(&llama), "--ids", str(&fine), "--logits", "/no/such/folder/x.npy"])
            .failed(2);
    assert!(lines[0].contains("cannot write logits to /no/such/folder/x.npy"), "{lines:?}");
}
