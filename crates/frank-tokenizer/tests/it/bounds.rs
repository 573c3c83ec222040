//! Work and memory stay in proportion to the text, whatever the text and the vocabulary.

use std::iter;

use frank_testkit::assets;
use frank_tokenizer::Specials;

use crate::{CONTROL, Keys, NORMAL, tokenizer_of};

const MEGABYTE: usize = 1_000_000;

/// Every pre-tokenizer.
const PRES: &[&str] = &[
    "gpt-2",
    "default",
    "llama-bpe",
    "smollm",
    "qwen2",
    "qwen35",
    "deepseek-llm",
    "deepseek-coder",
    "deepseek-v3",
    "gpt-4o",
    "falcon",
];

#[test]
fn a_megabyte_of_one_letter_is_encoded_and_round_trips() {
    let tokenizer = tokenizer_of(&assets::smollm2());
    let tokens = tokenizer.encode(&"a".repeat(MEGABYTE), Specials::Literal);
    let n_bytes: usize = tokens.iter().map(|&id| tokenizer.token_bytes(id).len()).sum();
    assert_eq!(n_bytes, MEGABYTE);
    assert!(tokens.len() < MEGABYTE / 2, "{} tokens", tokens.len());
}

#[test]
fn a_megabyte_of_special_tokens_and_of_what_nearly_is_one_is_encoded() {
    let long = "<".repeat(200);
    let texts: Vec<&str> = (2..=200).map(|length| &long[..length]).collect();
    let more: Vec<(&str, i32)> = texts.iter().map(|&text| (text, CONTROL)).collect();
    let tokenizer = Keys::new(&more, &[]).tokenizer();
    let tokens = tokenizer.encode(&"<".repeat(MEGABYTE), Specials::Parse);
    assert_eq!(tokens.len(), MEGABYTE / 200);
    let nearly = "<|im_start".repeat(MEGABYTE / 100);
    assert_eq!(tokenizer.encode(&nearly, Specials::Parse).len(), MEGABYTE / 10);
}

#[test]
fn a_vocabulary_whose_merges_double_without_end_is_encoded() {
    let doubled: Vec<String> =
        iter::successors(Some("a".to_owned()), |text| Some(text.repeat(2))).take(16).collect();
    let more: Vec<(&str, i32)> = doubled[1..].iter().map(|text| (text.as_str(), NORMAL)).collect();
    let merges: Vec<String> = doubled[..15].iter().map(|half| format!("{half} {half}")).collect();
    let tokenizer =
        Keys::new(&more, &merges.iter().map(String::as_str).collect::<Vec<_>>()).tokenizer();
    let tokens = tokenizer.encode(&"a".repeat(1 << 20), Specials::Literal);
    assert_eq!(tokens, vec![256 + 14; 32]);
}

#[test]
fn a_megabyte_of_what_stages_look_far_ahead_in_is_split() {
    let parts =
        ["a", " ", "\n", "!", "1", "世", " \u{301}", "世A", "A", "\u{3000}", "  a", "'s", "\t\n1"];
    for pre in PRES {
        let tokenizer = Keys::new(&[], &[]).with("tokenizer.ggml.pre", *pre).tokenizer();
        for part in parts {
            let text = part.repeat(MEGABYTE / 4 / part.len()) + ".";
            assert_eq!(
                tokenizer.encode(&text, Specials::Literal).len(),
                text.len(),
                "{pre} {part:?}"
            );
        }
    }
}

#[test]
fn a_megabyte_is_encoded_with_a_vocabulary_of_sentencepiece() {
    let tokenizer = tokenizer_of(&assets::vocabularies().join("ggml-vocab-llama-spm.gguf"));
    for part in ["a", " ", "世", "\u{10ffff}", "the ", " \n"] {
        let text = part.repeat(MEGABYTE / part.len());
        let tokens = tokenizer.encode(&text, Specials::Literal);
        let n_bytes: usize = tokens.iter().map(|&id| tokenizer.token_bytes(id).len()).sum();
        assert_eq!(n_bytes, text.len() + 1, "{part:?} and the space in front");
    }
}

#[test]
fn a_vocabulary_of_sentencepiece_whose_tokens_grow_by_one_is_encoded() {
    let long = "a".repeat(1024);
    let tokens: Vec<(&str, f32, i32)> =
        (1..=1024).map(|length| (&long[..length], length as f32, NORMAL)).collect();
    let tokenizer = Keys::spm(&tokens).with("tokenizer.ggml.add_space_prefix", false).tokenizer();
    let tokens = tokenizer.encode(&"a".repeat(1 << 20), Specials::Literal);
    assert_eq!(tokens, vec![259 + 1023; 1024]);
}
