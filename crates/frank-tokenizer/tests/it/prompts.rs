//! From a rendered prompt to tokens: control tokens come from the template only, and BOS exactly once.

use frank_chat::Prompt;
use frank_gguf::Array;
use frank_testkit::assets;
use frank_tokenizer::Specials;
use proptest::prelude::{prop, prop_oneof, proptest};

use crate::{CONTROL, Keys, NORMAL, USER_DEFINED, bytes, tokenizer_of};

const GUARD: char = '\u{fdd0}';

fn prompt(text: &str) -> Prompt {
    Prompt { text: text.replace('§', &GUARD.to_string()), guard: GUARD }
}

fn chat_keys() -> Keys {
    let more = [
        ("<s>", CONTROL),
        ("<|im_start|>", CONTROL),
        ("<|im_end|>", CONTROL),
        ("</think>", USER_DEFINED),
        ("Ġi", NORMAL),
    ];
    Keys::new(&more, &["Ġ i"]).with("tokenizer.ggml.bos_token_id", 256u32)
}

#[test]
fn a_control_token_that_is_guarded_is_text_and_the_template_s_own_is_a_token() {
    let tokenizer = chat_keys().tokenizer();
    let tokens = tokenizer.encode_prompt(&prompt("<|im_start|>A<§|im_end|>B<|im_end|>"));
    assert_eq!(tokens, [&[257], &bytes("A<|im_end|>B")[..], &[258]].concat());
}

#[test]
fn a_guard_leaves_no_trace_in_the_tokens_around_it() {
    let tokenizer = chat_keys().tokenizer();
    // The guard stands where the merge of a space and an i must still happen.
    assert_eq!(tokenizer.encode_prompt(&prompt("a §i§")), [97, 260]);
    assert_eq!(tokenizer.encode_prompt(&prompt("§")), [0u32; 0]);
}

#[test]
fn a_guarded_user_defined_token_is_text() {
    let tokenizer = chat_keys().tokenizer();
    assert_eq!(
        tokenizer.encode_prompt(&prompt("<§/think></think>")),
        [&bytes("</think>")[..], &[259]].concat()
    );
}

#[test]
fn what_must_be_guarded_is_the_control_tokens_and_the_markers_of_the_template() {
    let more = [
        ("<|x|>", CONTROL),
        ("<think>", USER_DEFINED),
        ("<table>", USER_DEFINED),
        ("\n\n", USER_DEFINED),
        ("it is", USER_DEFINED),
        ("<think>\n", USER_DEFINED),
    ];
    // The template counts that is used, whether or not it is that of the file.
    let keys = Keys::new(&more, &[]).with("tokenizer.chat_template", "{{ '<table>' }}");
    let tokenizer = keys.tokenizer();
    assert_eq!(tokenizer.chat_template(), Some("{{ '<table>' }}"));
    assert_eq!(tokenizer.control_texts(""), ["<|x|>"]);
    assert_eq!(tokenizer.control_texts("<think>"), ["<|x|>", "<think>"]);
    let overlapping = tokenizer.control_texts("{{ '<think>\n\nit is' }}");
    assert_eq!(overlapping, ["<|x|>", "<think>", "<think>\n"]);
}

#[test]
fn a_control_token_of_one_character_is_never_found_in_text() {
    let texts = (0..=255).map(crate::spell).chain(["世".to_owned()]).collect();
    let kinds = [NORMAL; 256].into_iter().chain([CONTROL]).collect();
    let tokenizer = Keys::new(&[], &[])
        .with("tokenizer.ggml.tokens", Array::String(texts))
        .with("tokenizer.ggml.token_type", Array::I32(kinds))
        .tokenizer();
    assert_eq!(tokenizer.encode("世", Specials::Parse), bytes("世"));
    assert!(tokenizer.control_texts("").is_empty(), "no message needs to be guarded against it");
}

#[test]
fn literal_text_round_trips_and_never_has_a_control_token() {
    let tokenizer = tokenizer_of(&assets::smollm2());
    for text in tokenizer.control_texts("") {
        let tokens = tokenizer.encode(text, Specials::Literal);
        assert!(
            tokens.len() > 1 && !tokens.iter().any(|&id| tokenizer.is_control(id)),
            "{text}: {tokens:?}"
        );
        let back: Vec<u8> =
            tokens.iter().flat_map(|&id| tokenizer.token_bytes(id).to_vec()).collect();
        assert_eq!(back, text.as_bytes());
        assert_eq!(tokenizer.encode(text, Specials::Parse).len(), 1);
    }
}

#[test]
fn a_prompt_begins_with_exactly_one_bos_where_the_model_wants_one() {
    let with_bos = chat_keys().with("tokenizer.ggml.add_bos_token", true).tokenizer();
    let cases = ["a", "<s>a", "<s><s>a"];
    for text in cases {
        assert_eq!(with_bos.encode_prompt(&prompt(text)), [256, 97], "{text}");
    }
    assert_eq!(with_bos.encode_prompt(&prompt("")), [256]);
    assert_eq!(with_bos.encode_prompt(&prompt("<§s>a")), [&[256], &bytes("<s>a")[..]].concat());
    let llama3 = chat_keys().with("tokenizer.ggml.pre", "llama-bpe").tokenizer();
    for text in cases {
        assert_eq!(llama3.encode_prompt(&prompt(text)), [256, 97], "{text}");
    }
    let without = chat_keys().tokenizer();
    assert_eq!(without.encode_prompt(&prompt("a")), [97]);
    assert_eq!(without.encode_prompt(&prompt("<s>a")), [256, 97]);
}

#[test]
fn a_completion_has_bos_and_eos_by_the_rules_of_the_file_and_no_control_tokens() {
    let keys = chat_keys().with("tokenizer.ggml.eos_token_id", 258u32);
    assert_eq!(keys.tokenizer().encode_text("a<|im_end|>"), bytes("a<|im_end|>"));
    let both = keys
        .with("tokenizer.ggml.add_bos_token", true)
        .with("tokenizer.ggml.add_eos_token", true)
        .tokenizer();
    assert_eq!(both.encode_text("<s>"), [&[256], &bytes("<s>")[..], &[258]].concat());
    assert_eq!(both.encode_prompt(&prompt("a")), [256, 97], "a prompt is to be continued");
}

#[test]
fn the_chat_prompt_of_smollm2_has_its_control_tokens() {
    let tokenizer = tokenizer_of(&assets::smollm2());
    let tokens = tokenizer.encode_prompt(&prompt(
        "<|im_start|>user\nHi<§|im_end|><|im_end|>\n<|im_start|>assistant\n",
    ));
    let controls: Vec<&str> = tokens
        .iter()
        .filter(|&&id| tokenizer.is_control(id))
        .map(|&id| tokenizer.token_text(id))
        .collect();
    assert_eq!(controls, ["<|im_start|>", "<|im_end|>", "<|im_start|>"]);
}

proptest! {
    #[test]
    fn guards_anywhere_in_plain_text_change_nothing(
        parts in prop::collection::vec(prop_oneof!["[a-z 0-9]{1,4}", "[ \n]{1,3}", "\\PC", prop::sample::select(vec!["§".to_owned()])], 0..16)
    ) {
        let tokenizer = chat_keys().tokenizer();
        let text = parts.concat();
        let plain = text.replace('§', "");
        assert_eq!(tokenizer.encode_prompt(&prompt(&text)), tokenizer.encode(&plain, Specials::Literal));
    }

    #[test]
    fn every_text_that_the_vocabulary_can_spell_round_trips(text in "\\PC*|[ \n\r\t0-9a-z']*") {
        let tokenizer = chat_keys().tokenizer();
        let tokens = tokenizer.encode(&text, Specials::Literal);
        let back: Vec<u8> = tokens.iter().flat_map(|&id| tokenizer.token_bytes(id).to_vec()).collect();
        assert_eq!(String::from_utf8_lossy(&back), text);
    }
}
