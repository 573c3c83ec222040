//! Every text comes back from its tokens, with the vocabularies of real models.

use frank_testkit::assets;
use frank_tokenizer::{Specials, Tokenizer};

use crate::{oracle, tokenizer_of};

/// Encodes seeded texts and decodes them again. `expected` says what a text comes back as.
#[track_caller]
fn check(name: &str, expected: fn(&str) -> String) {
    let tokenizer = tokenizer_of(&assets::vocabularies().join(format!("ggml-vocab-{name}.gguf")));
    for text in oracle::seeded_strings(&tokenizer) {
        assert_eq!(decoded(&tokenizer, &text), expected(&text), "{name}: {text:?}");
    }
}

fn decoded(tokenizer: &Tokenizer, text: &str) -> String {
    let tokens = tokenizer.encode(text, Specials::Literal);
    let bytes: Vec<u8> = tokens.iter().flat_map(|&id| tokenizer.token_bytes(id).to_vec()).collect();
    String::from_utf8(bytes).expect("the tokens of a text are whole characters")
}

/// Those of Falcon, Refact and StarCoder are not among them: they have no token for some bytes, which are left out.
#[test]
fn byte_level_vocabularies_give_the_text_back() {
    let names = [
        "aquila",
        "command-r",
        "deepseek-coder",
        "deepseek-llm",
        "gpt-2",
        "gpt-neox",
        "llama-bpe",
        "mpt",
        "qwen2",
        "qwen35",
    ];
    for name in names {
        check(name, str::to_owned);
    }
}

#[test]
fn vocabularies_of_sentencepiece_give_the_text_back_with_a_space_in_front() {
    for name in ["baichuan", "llama-spm", "phi-3"] {
        check(name, |text| match text {
            "" => String::new(),
            _ => format!(" {}", text.replace('▁', " ")),
        });
    }
}
