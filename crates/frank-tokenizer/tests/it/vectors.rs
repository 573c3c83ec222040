//! The test cases that llama.cpp keeps beside its vocabularies: texts, and the tokens that the tokenizer of the model's
//! makers gives.

use std::fs;
use std::path::PathBuf;

use frank_testkit::assets;
use frank_tokenizer::Specials;

use crate::tokenizer_of;

/// Stands behind each text of an `.inp` file.
const SEPARATOR: &str = "\n__ggml_vocab_test__\n";

/// Vocabularies whose tokenizers are not here.
const UNKNOWN: &[&str] = &["bert-bge", "gemma-4"];

fn path(name: &str, ending: &str) -> PathBuf {
    assets::vocabularies().join(format!("ggml-vocab-{name}.{ending}"))
}

fn read(name: &str, ending: &str) -> String {
    let path = path(name, ending);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The texts of a vocabulary's cases.
pub(crate) fn texts(name: &str) -> Vec<String> {
    read(name, "gguf.inp").split_terminator(SEPARATOR).map(str::to_owned).collect()
}

/// Compares every case of a vocabulary; the number of cases.
fn check(name: &str) -> usize {
    let texts = texts(name);
    let tokens: Vec<Vec<u32>> = read(name, "gguf.out")
        .lines()
        .map(|line| line.split_whitespace().map(|id| id.parse().expect("a token id")).collect())
        .collect();
    assert_eq!(texts.len(), tokens.len(), "{name}");
    let tokenizer = tokenizer_of(&path(name, "gguf"));
    let mut differences = Vec::new();
    for (text, expected) in texts.iter().zip(&tokens) {
        let got = tokenizer.encode(text, Specials::Literal);
        if got != *expected {
            differences.push(format!("{text:?}\n  got:      {got:?}\n  expected: {expected:?}"));
        }
    }
    let n = differences.len();
    assert!(n == 0, "{name}: {n} differences\n{}", differences.join("\n"));
    texts.len()
}

#[test]
fn every_vocabulary_gives_the_tokens_of_its_makers() {
    let files = fs::read_dir(assets::vocabularies()).expect("the vocabularies are there");
    let mut names: Vec<String> = files
        .filter_map(|file| {
            let name = file.expect("a folder entry").file_name().into_string().expect("UTF-8");
            Some(name.strip_prefix("ggml-vocab-")?.strip_suffix(".gguf.out")?.to_owned())
        })
        .collect();
    names.sort_unstable();
    names.retain(|name| !UNKNOWN.contains(&name.as_str()));
    let n_cases: Vec<(&str, usize)> =
        names.iter().map(|name| (name.as_str(), check(name))).collect();
    let expected: Vec<(&str, usize)> = [
        ("command-r", 46),
        ("deepseek-coder", 46),
        ("deepseek-llm", 46),
        ("falcon", 46),
        ("gpt-2", 46),
        ("llama-bpe", 46),
        ("llama-spm", 46),
        ("mpt", 46),
        ("phi-3", 46),
        ("qwen2", 46),
        ("qwen35", 50),
        ("refact", 46),
        ("starcoder", 46),
    ]
    .into();
    assert_eq!(n_cases, expected);
}
