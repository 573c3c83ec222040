//! Models whose tokenizer does not fit together: keys of a wrong type, lists of other lengths, tokens that are not there.

use frank_gguf::{Array, Value};

use super::models::writer;
use super::{Broken, Refused};
use crate::gguf_writer::GgufWriter;

const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";
const TOKENS: &str = "tokenizer.ggml.tokens";
const KINDS: &str = "tokenizer.ggml.token_type";
const SCORES: &str = "tokenizer.ggml.scores";
const MERGES: &str = "tokenizer.ggml.merges";
const TEMPLATE: &str = "tokenizer.chat_template";

const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const BYTE: i32 = 6;

pub(super) fn kinds() -> impl Iterator<Item = Broken> {
    let groups = [wrong_types, names, vocabularies, token_ids, merges, sentencepiece];
    groups.into_iter().flat_map(|group| group())
}

/// Chat templates that cannot be compiled, or that no conversation survives.
pub(super) fn templates() -> Vec<Broken> {
    let long = "x".repeat(1 << 20);
    let deep = format!("{{{{ {}1{} }}}}", "(".repeat(20_000), ")".repeat(20_000));
    let sources = [
        ("a statement that does not end", "{% for"),
        ("an expression that does not end", "{{ messages"),
        ("an end of what did not begin", "{% endfor %}"),
        ("a statement that does not exist", "{% frobnicate %}"),
        ("a tag of three characters", "{% generation %}{%}{% endgeneration %}"),
        ("a filter that does not exist", "{{ messages | frobnicate }}"),
        ("a function that does not exist", "{{ frobnicate() }}"),
        ("a refusal of its own", "{{ raise_exception('roles must alternate') }}"),
        ("a division by zero", "{{ 1 // 0 }}"),
        ("a file to include", "{% include '/etc/hostname' %}"),
        ("a text of a gigabyte", "{{ 'a' * 10**9 }}"),
        ("a range of a billion", "{% for i in range(10**9) %}x{% endfor %}"),
        ("endless recursion", "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}"),
        ("20,000 parentheses", &deep),
        ("a mebibyte of text", &long),
    ];
    let broken = sources.into_iter().map(|(what, source)| {
        let name = format!("a chat template with {what}");
        tokenizer(name, &writer().value(TEMPLATE, source), &["template", "roles must alternate"])
    });
    broken.collect()
}

fn tokenizer(name: impl Into<String>, writer: &GgufWriter, names: &[&str]) -> Broken {
    Broken::new(Refused::Model, name, writer.to_bytes(), names)
}

fn strings<'a>(texts: impl IntoIterator<Item = &'a str>) -> Array {
    Array::String(texts.into_iter().map(str::to_owned).collect())
}

/// Every key of a tokenizer with values of types that it cannot have.
fn wrong_types() -> Vec<Broken> {
    let number = || Value::from(1u32);
    let text = || Value::from("1");
    let list = || Value::from(Array::U32(vec![1]));
    let floats = || Value::from(Array::F32(vec![1.0]));
    let rows: Vec<(&str, Vec<Value>)> = vec![
        (MODEL, vec![number(), list()]),
        (PRE, vec![number(), list(), Value::from(true)]),
        (TOKENS, vec![number(), text(), list(), floats()]),
        (KINDS, vec![number(), text(), floats(), strings(["1"]).into()]),
        (MERGES, vec![number(), text(), list()]),
        (TEMPLATE, vec![number(), list(), strings(["{{ messages }}"]).into()]),
        (
            "tokenizer.ggml.bos_token_id",
            vec![text(), Value::from(1.0f32), list(), Value::from(true)],
        ),
        (
            "tokenizer.ggml.eos_token_id",
            vec![text(), Value::from(1.0f32), list(), Value::from(true)],
        ),
        ("tokenizer.ggml.eot_token_id", vec![text(), Value::from(1.0f32)]),
        ("tokenizer.ggml.eom_token_id", vec![text(), Value::from(1.0f32)]),
        ("tokenizer.ggml.add_bos_token", vec![number(), text()]),
        ("tokenizer.ggml.add_eos_token", vec![number(), text()]),
    ];
    let broken = rows.into_iter().flat_map(|(key, values)| {
        values.into_iter().map(move |value| {
            let name = format!("{key} of {value:?}");
            tokenizer(name, &writer().value(key, value), &[key])
        })
    });
    broken.collect()
}

/// Algorithms and splittings that are not there.
fn names() -> Vec<Broken> {
    let mut kinds = Vec::new();
    for model in ["", "gpt3", "GPT2", "wordpiece", "\u{1b}[2J"] {
        let broken = writer().value(MODEL, model);
        kinds.push(tokenizer(format!("tokenizer model {model:?}"), &broken, &[MODEL]));
    }
    for pre in ["", "qwen99", "GPT-2", "gpt-2 ", "\u{202e}"] {
        let broken = writer().value(PRE, pre);
        kinds.push(tokenizer(format!("pre-tokenizer {pre:?}"), &broken, &[PRE]));
    }
    let long = "é".repeat(100_000);
    kinds.push(tokenizer(
        "a pre-tokenizer of 200,000 bytes",
        &writer().value(PRE, long.as_str()),
        &[PRE],
    ));
    for key in [MODEL, TOKENS, MERGES] {
        kinds.push(tokenizer(format!("no {key}"), &writer().without(key), &[key]));
    }
    kinds
}

/// The bytes in GPT-2's spelling, then the given tokens.
fn byte_vocabulary(more: &[(&str, i32)], merges: &[&str]) -> GgufWriter {
    let is_printable = |byte: &u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let mut others = (0x100..).filter_map(char::from_u32);
    let spell = |byte: u8| {
        let c = if is_printable(&byte) { Some(char::from(byte)) } else { others.next() };
        c.expect("there are enough characters").to_string()
    };
    let mut texts: Vec<String> = (0..=255).map(spell).collect();
    texts.extend(more.iter().map(|token| token.0.to_owned()));
    let kinds = [NORMAL; 256].into_iter().chain(more.iter().map(|token| token.1)).collect();
    let writer = writer().without("tokenizer.ggml.padding_token_id");
    let writer =
        writer.without("tokenizer.ggml.bos_token_id").without("tokenizer.ggml.eos_token_id");
    writer
        .value(TOKENS, Array::String(texts))
        .value(KINDS, Array::I32(kinds))
        .value(MERGES, strings(merges.iter().copied()))
}

fn vocabularies() -> Vec<Broken> {
    let long = "<".repeat(257);
    let mut kinds = vec![
        tokenizer("an empty vocabulary", &writer().value(TOKENS, strings([])), &["vocabulary"]),
        tokenizer(
            "more tokens than the model embeds",
            &byte_vocabulary(&NUMBERED.map(|text| (text, NORMAL)), &[]),
            &["the tokenizer has 306 tokens, the model embeds 300"],
        ),
        tokenizer(
            "two tokens of one text",
            &byte_vocabulary(&[("ab", NORMAL), ("ab", NORMAL)], &[]),
            &["tokens 256 and 257 have the same text \"ab\""],
        ),
        tokenizer(
            "a control token with the text of a byte",
            &byte_vocabulary(&[("A", CONTROL)], &[]),
            &["tokens 65 and 256 have the same text \"A\""],
        ),
        tokenizer(
            "a control token of 257 bytes",
            &byte_vocabulary(&[(&long, CONTROL)], &[]),
            &["special token 256"],
        ),
        tokenizer(
            "a user-defined token of 257 bytes",
            &byte_vocabulary(&[(&long, USER_DEFINED)], &[]),
            &["special token 256"],
        ),
    ];
    for length in [0, 1, 255, 256, 258, 5000] {
        let broken = byte_vocabulary(&[("ab", NORMAL)], &[]);
        let broken = broken.value(KINDS, Array::I32(vec![NORMAL; length]));
        let name = format!("{length} token types for 257 tokens");
        kinds.push(tokenizer(name, &broken, &[KINDS]));
    }
    for kind in [-1, 7, 99, i32::MIN, i32::MAX] {
        let broken = byte_vocabulary(&[("ab", kind)], &[]);
        kinds.push(tokenizer(format!("token type {kind}"), &broken, &["token 256 has type"]));
    }
    kinds
}

/// Fifty tokens, so that the vocabulary is larger than the 300 rows of the embedding.
const NUMBERED: [&str; 50] = [
    "n00", "n01", "n02", "n03", "n04", "n05", "n06", "n07", "n08", "n09", "n10", "n11", "n12",
    "n13", "n14", "n15", "n16", "n17", "n18", "n19", "n20", "n21", "n22", "n23", "n24", "n25",
    "n26", "n27", "n28", "n29", "n30", "n31", "n32", "n33", "n34", "n35", "n36", "n37", "n38",
    "n39", "n40", "n41", "n42", "n43", "n44", "n45", "n46", "n47", "n48", "n49",
];

fn token_ids() -> Vec<Broken> {
    let mut kinds = Vec::new();
    for name in ["bos", "eos", "eot", "eom"] {
        let key = format!("tokenizer.ggml.{name}_token_id");
        for value in [
            Value::from(300u32),
            Value::from(i32::MAX),
            Value::from(u32::MAX),
            Value::from(u64::MAX),
            Value::from(-1i32),
            Value::from(i64::MIN),
        ] {
            let broken = writer().value(&key, value.clone());
            kinds.push(tokenizer(format!("{key} of {value:?}"), &broken, &[&key]));
        }
    }
    for name in ["bos", "eos"] {
        let key = format!("tokenizer.ggml.{name}_token_id");
        let broken =
            byte_vocabulary(&[], &[]).value(&format!("tokenizer.ggml.add_{name}_token"), true);
        kinds.push(tokenizer(format!("a {name} to add that is not named"), &broken, &[&key]));
    }
    kinds
}

fn merges() -> Vec<Broken> {
    let broken =
        |merge: &str| byte_vocabulary(&[("ab", NORMAL), ("<|x|>", CONTROL)], &["a b", merge]);
    let merges =
        ["", " ", "ab", "a", "é", "zz b", "a zz", "b a", "a b c", "<|x|> a", "a  b", " a", "b "];
    let mut kinds: Vec<Broken> = merges
        .iter()
        .map(|merge| {
            tokenizer(format!("a merge of {merge:?}"), &broken(merge), &["merge number 1"])
        })
        .collect();
    let long = "é".repeat(100_000);
    for merge in [long.clone(), format!("{long} {long}")] {
        let name = format!("a merge of {} bytes", merge.len());
        kinds.push(tokenizer(name, &broken(&merge), &["merge number 1"]));
    }
    kinds
}

/// A SentencePiece vocabulary: unknown, BOS, EOS, the bytes, then the given tokens with their scores.
fn pieces(more: &[(&str, f32, i32)]) -> GgufWriter {
    let bytes = (0..=255).map(|byte: u8| (format!("<0x{byte:02X}>"), 0.0, BYTE));
    let special = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL)];
    let special = special.map(|(text, kind)| (text.to_owned(), 0.0, kind));
    let more = more.iter().map(|&(text, score, kind)| (text.to_owned(), score, kind));
    let tokens: Vec<(String, f32, i32)> = special.into_iter().chain(bytes).chain(more).collect();
    let writer = [MERGES, PRE, "tokenizer.ggml.padding_token_id"]
        .into_iter()
        .fold(writer(), GgufWriter::without);
    writer
        .value(MODEL, "llama")
        .value(TOKENS, Array::String(tokens.iter().map(|token| token.0.clone()).collect()))
        .value(SCORES, Array::F32(tokens.iter().map(|token| token.1).collect()))
        .value(KINDS, Array::I32(tokens.iter().map(|token| token.2).collect()))
        .value("tokenizer.ggml.bos_token_id", 1u32)
        .value("tokenizer.ggml.eos_token_id", 2u32)
        .value("tokenizer.ggml.unknown_token_id", 0u32)
}

fn sentencepiece() -> Vec<Broken> {
    let valid = || pieces(&[("▁", -1.0, NORMAL), ("a", -2.0, NORMAL), ("▁a", -3.0, NORMAL)]);
    let mut kinds = vec![
        tokenizer("no scores", &valid().without(SCORES), &[SCORES]),
        tokenizer("scores of a text", &valid().value(SCORES, "1"), &[SCORES]),
        tokenizer("scores that are texts", &valid().value(SCORES, strings(["1"])), &[SCORES]),
        tokenizer(
            "scores that are integers",
            &valid().value(SCORES, Array::I32(vec![1; 262])),
            &[SCORES],
        ),
        tokenizer(
            "two pieces of one text",
            &pieces(&[("a", 0.0, NORMAL), ("a", -1.0, NORMAL)]),
            &["tokens 259 and 260", "\"a\""],
        ),
        tokenizer(
            "a space prefix of 1",
            &valid().value("tokenizer.ggml.add_space_prefix", 1u32),
            &["add_space_prefix"],
        ),
        tokenizer(
            "an unknown token beyond the vocabulary",
            &valid().value("tokenizer.ggml.unknown_token_id", 262u32),
            &["unknown_token_id"],
        ),
    ];
    for length in [0, 1, 261, 263] {
        let broken = valid().value(SCORES, Array::F32(vec![0.0; length]));
        kinds.push(tokenizer(format!("{length} scores for 262 tokens"), &broken, &[SCORES]));
    }
    let unordered = pieces(&[("a", f32::NAN, NORMAL)]);
    kinds.push(tokenizer("a score that is no number", &unordered, &["score"]));
    for byte in ["<0x0>", "<0xGG>", "<0x100>", "0x41", ""] {
        let broken = pieces(&[(byte, 0.0, BYTE)]);
        kinds.push(tokenizer(format!("a byte token {byte:?}"), &broken, &["token 259", "byte"]));
    }
    kinds
}
