//! The same tokens as OpenAI's tiktoken for its vocabulary o200k, in the form that files have it: texts and merges.

use std::collections::HashMap;

use fancy_regex::Regex;
use frank_gguf::Array;
use frank_tokenizer::{Specials, Tokenizer};
use tiktoken_rs::CoreBPE;

use crate::{CONTROL, Keys, NORMAL, oracle, vectors};

/// Tokens of o200k without its special ones.
const N_TOKENS: u32 = 199_998;

/// tiktoken merges any two neighbours whose joined bytes are a token, the token of the lowest rank first. So each token
/// has a merge for every way to cut it into two tokens, in the order of ranks.
fn tokenizer(tiktoken: &CoreBPE) -> Tokenizer {
    let alphabet: Vec<String> = (0..=255).map(crate::spell).collect();
    let spell = |bytes: &[u8]| -> String {
        bytes.iter().map(|&byte| alphabet[usize::from(byte)].as_str()).collect()
    };
    let tokens: Vec<Vec<u8>> = (0..N_TOKENS)
        .map(|rank| tiktoken.decode_bytes(&[rank]).expect("ranks have no gaps"))
        .collect();
    let ranks: HashMap<&[u8], usize> =
        tokens.iter().enumerate().map(|(rank, bytes)| (bytes.as_slice(), rank)).collect();
    let mut merges = Vec::new();
    for bytes in &tokens {
        for cut in 1..bytes.len() {
            let (left, right) = bytes.split_at(cut);
            if ranks.contains_key(left) && ranks.contains_key(right) {
                merges.push(format!("{} {}", spell(left), spell(right)));
            }
        }
    }
    let texts = tokens.iter().map(|bytes| spell(bytes)).chain(["<|endoftext|>".to_owned()]);
    let kinds = tokens.iter().map(|_| NORMAL).chain([CONTROL]);
    Keys::new(&[], &[])
        .with("tokenizer.ggml.pre", "gpt-4o")
        .with("tokenizer.ggml.tokens", Array::String(texts.collect()))
        .with("tokenizer.ggml.token_type", Array::I32(kinds.collect()))
        .with("tokenizer.ggml.merges", Array::String(merges))
        .tokenizer()
}

#[test]
fn o200k_tokens_equal_those_of_tiktoken_on_2000_seeded_strings_and_the_cases_of_llama_cpp() {
    let tiktoken = tiktoken_rs::o200k_base_singleton();
    let tokenizer = tokenizer(tiktoken);
    // Ours are the characters of Unicode 15.1, and tiktoken's regex crate knows later ones.
    let later = Regex::new(r"[\P{Cn}&&\P{age=15.1}]").expect("a valid expression");
    let mut strings = oracle::seeded_strings(&tokenizer);
    for string in &mut strings {
        *string = later.replace_all(string, "").into_owned();
    }
    strings.extend(vectors::texts("gpt-2"));
    strings.extend(vectors::texts("qwen35"));
    let mut differences = Vec::new();
    for string in &strings {
        let (ours, theirs) =
            (tokenizer.encode(string, Specials::Literal), tiktoken.encode_ordinary(string));
        if ours != theirs {
            differences.push(format!("{string:?}\n  ours:   {ours:?}\n  theirs: {theirs:?}"));
        }
    }
    let n = differences.len();
    differences.truncate(5);
    assert!(n == 0, "{n} differences\n{}", differences.join("\n"));
}
