//! Metadata that does not fit together is refused with a reason.

use frank_gguf::{Array, Metadata};
use frank_tokenizer::Tokenizer;

use crate::{BYTE, CONTROL, Keys, NORMAL, USER_DEFINED};

#[track_caller]
fn check(keys: &Keys, expected: &str) {
    let error = Tokenizer::from_metadata(&keys.metadata()).err().expect(expected).to_string();
    assert_eq!(error, expected);
}

fn keys() -> Keys {
    Keys::new(&[("ab", NORMAL), ("<|x|>", CONTROL)], &["a b"])
}

#[test]
fn unknown_algorithms_are_refused_by_name() {
    let known = "gpt-2, default, llama-bpe, smollm, qwen2, qwen35, deepseek-llm, deepseek-coder, deepseek-v3, gpt-4o, falcon";
    for pre in ["qwen99", ""] {
        let expected = format!("tokenizer.ggml.pre is {pre:?}; known: {known}");
        check(&keys().with("tokenizer.ggml.pre", pre), &expected);
    }
    for model in ["t5", "\x1b[2J"] {
        let expected = format!("tokenizer.ggml.model is {model:?}; known: gpt2, llama");
        check(&keys().with("tokenizer.ggml.model", model), &expected);
    }
}

#[test]
fn missing_keys_are_named() {
    for key in ["tokenizer.ggml.model", "tokenizer.ggml.tokens", "tokenizer.ggml.merges"] {
        check(&keys().without(key), &format!("key {key:?} is missing"));
    }
    let error =
        Tokenizer::from_metadata(&Metadata::default()).err().expect("no tokenizer").to_string();
    assert_eq!(error, "key \"tokenizer.ggml.model\" is missing");
}

#[test]
fn keys_of_a_wrong_type_are_named() {
    check(
        &keys().with("tokenizer.ggml.tokens", "a b c"),
        "key \"tokenizer.ggml.tokens\": a string where an array of strings was expected",
    );
    check(
        &keys().with("tokenizer.ggml.token_type", Array::F32(vec![1.0; 258])),
        "key \"tokenizer.ggml.token_type\": an array of f32 where an array of integers was expected",
    );
    check(
        &keys().with("tokenizer.ggml.eos_token_id", "2"),
        "key \"tokenizer.ggml.eos_token_id\": a string where an integer was expected",
    );
    check(
        &keys().with("tokenizer.ggml.add_bos_token", 1u32),
        "key \"tokenizer.ggml.add_bos_token\": a u32 where a boolean was expected",
    );
}

#[test]
fn an_empty_vocabulary_is_refused() {
    check(
        &keys().with("tokenizer.ggml.tokens", Array::String(Vec::new())),
        "the vocabulary is empty",
    );
}

#[test]
fn lists_of_different_lengths_are_refused() {
    for n in [0, 257, 259] {
        check(
            &keys().with("tokenizer.ggml.token_type", Array::I32(vec![1; n])),
            &format!(
                "key \"tokenizer.ggml.token_type\" has {n} entries, but the vocabulary has 258 tokens"
            ),
        );
    }
}

#[test]
fn token_types_that_do_not_exist_are_refused() {
    for kind in [-1, 7, i32::MAX] {
        let expected = format!("token 257 has type {kind}, which does not exist");
        check(&Keys::new(&[("ab", NORMAL), ("x y", kind)], &[]), &expected);
    }
}

#[test]
fn tokens_beyond_the_vocabulary_are_refused() {
    for key in ["bos", "eos", "eot", "eom", "unknown"] {
        let key = format!("tokenizer.ggml.{key}_token_id");
        check(
            &keys().with(&key, 258u32),
            &format!("key {key:?} is 258, but the vocabulary has 258 tokens"),
        );
        check(
            &keys().with(&key, u64::MAX),
            &format!("key {key:?} is {}, but the vocabulary has 258 tokens", u64::MAX),
        );
        check(&keys().with(&key, -1i32), &format!("key {key:?}: -1 does not fit u64"));
    }
}

#[test]
fn a_bos_or_eos_to_be_added_must_be_named() {
    for key in ["bos", "eos"] {
        let add = format!("tokenizer.ggml.add_{key}_token");
        check(
            &keys().with(&add, true),
            &format!("key \"tokenizer.ggml.{key}_token_id\" is missing"),
        );
    }
}

#[test]
fn two_tokens_of_one_text_are_refused() {
    check(
        &Keys::new(&[("ab", NORMAL), ("ab", NORMAL)], &[]),
        "tokens 256 and 257 have the same text \"ab\"",
    );
    check(&Keys::new(&[("A", USER_DEFINED)], &[]), "tokens 65 and 256 have the same text \"A\"");
}

#[test]
fn merges_that_the_vocabulary_does_not_know_are_refused() {
    let merges = |merge: &str| Keys::new(&[("ab", NORMAL), ("<|", CONTROL)], &["a b", merge]);
    let not_text = |merge: &str, piece: &str| {
        check(
            &merges(merge),
            &format!("merge number 1 {merge:?}: {piece:?} is not a text token of the vocabulary"),
        );
    };
    not_text("zz b", "zz");
    not_text("a zz", "zz");
    not_text("b a", "ba");
    not_text("a b c", "b c");
    not_text("< |", "<|");
    not_text("<| a", "<|");
    for merge in ["ab", "", " ", "é"] {
        check(
            &merges(merge),
            &format!("merge number 1 {merge:?} is not two pieces with a space between them"),
        );
    }
}

#[test]
fn a_special_token_longer_than_any_real_one_is_refused() {
    let long = "<".repeat(257);
    let expected = "special token 256 has a text of 257 bytes, at most 256 are allowed";
    check(&Keys::new(&[(&long, CONTROL)], &[]), expected);
    check(&Keys::new(&[(&long, USER_DEFINED)], &[]), expected);
    Keys::new(&[(&long[1..], CONTROL)], &[]).tokenizer();
}

#[test]
fn an_error_about_a_long_text_is_short() {
    let long = "é".repeat(100_000);
    let refused = [
        keys().with("tokenizer.ggml.model", long.as_str()),
        keys().with("tokenizer.ggml.pre", long.as_str()),
        Keys::new(&[(&long, NORMAL), (&long, NORMAL)], &[]),
        Keys::spm(&[(&long, 0.0, BYTE)]),
        Keys::new(&[], &[&long]),
        Keys::new(&[], &[&format!("{long} {long}")]),
    ];
    for keys in refused {
        let error =
            Tokenizer::from_metadata(&keys.metadata()).err().expect("no tokenizer").to_string();
        assert!(error.len() < 600 && error.contains('…'), "{} bytes", error.len());
    }
}

#[test]
fn a_vocabulary_of_sentencepiece_needs_scores_and_token_types() {
    let keys = Keys::spm(&[("a", 0.0, NORMAL)]);
    for key in ["tokenizer.ggml.scores", "tokenizer.ggml.token_type", "tokenizer.ggml.tokens"] {
        check(&keys.clone().without(key), &format!("key {key:?} is missing"));
    }
    for n in [0, 259, 261] {
        check(
            &keys.clone().with("tokenizer.ggml.scores", Array::F32(vec![0.0; n])),
            &format!(
                "key \"tokenizer.ggml.scores\" has {n} entries, but the vocabulary has 260 tokens"
            ),
        );
    }
    check(
        &keys.with("tokenizer.ggml.scores", Array::I32(vec![0; 260])),
        "key \"tokenizer.ggml.scores\": an array of i32 where an array of floats was expected",
    );
}

#[test]
fn scores_that_are_no_numbers_are_refused_and_infinite_ones_are_not() {
    let keys = |score| Keys::spm(&[("a", score, NORMAL)]);
    check(&keys(f32::NAN), "token 259 has no number as its score");
    keys(f32::INFINITY).tokenizer();
    keys(f32::NEG_INFINITY).tokenizer();
}

#[test]
fn byte_tokens_that_name_no_byte_are_refused() {
    for text in ["<0x>", "<0x1>", "<0xGG>", "<0x+1>", "<0x111>", "0x11", "<0xé>"] {
        let expected = format!(
            "token 259 is typed as a byte, but its text {text:?} is none of <0x00> to <0xFF>"
        );
        check(&Keys::spm(&[(text, 0.0, BYTE)]), &expected);
    }
    check(
        &Keys::new(&[("xy", BYTE)], &[]),
        "token 256 is typed as a byte, but its text \"xy\" is none of <0x00> to <0xFF>",
    );
}

#[test]
fn a_vocabulary_that_cannot_spell_every_byte_and_has_no_unknown_token_is_refused() {
    let keys = Keys::spm(&[]);
    let mut kinds = vec![NORMAL, CONTROL, CONTROL];
    kinds.extend((0..256).map(|byte| if byte == 0x80 { NORMAL } else { BYTE }));
    let keys = keys.with("tokenizer.ggml.token_type", Array::I32(kinds));
    check(&keys, "no token stands for byte 0x80, and none for what is unknown");
    keys.with("tokenizer.ggml.unknown_token_id", 0u32).tokenizer();
}

#[test]
fn a_token_of_sentencepiece_longer_than_any_real_one_is_refused() {
    let long = "a".repeat(1025);
    check(
        &Keys::spm(&[(&long, 0.0, NORMAL)]),
        "token 259 has a text of 1025 bytes, at most 1024 are allowed",
    );
    Keys::spm(&[(&long[1..], 0.0, NORMAL)]).tokenizer();
}
