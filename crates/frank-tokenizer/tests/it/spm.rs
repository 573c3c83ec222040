//! Vocabularies of SentencePiece: scores, the space in front, bytes, and control tokens that text cannot spell.

use std::sync::Arc;

use frank_chat::Prompt;
use frank_tokenizer::{Detokenizer, Specials, Tokenizer};
use proptest::prelude::{prop, prop_oneof, proptest};

use crate::{CONTROL, Keys, NORMAL, USER_DEFINED};

const UNK: u32 = 0;
const BOS: u32 = 1;
const EOS: u32 = 2;
/// The token of the first of [`words`].
const A: u32 = 259;

fn byte(byte: u8) -> u32 {
    3 + u32::from(byte)
}

fn words() -> Keys {
    Keys::spm(&[
        ("a", -10.0, NORMAL),
        ("b", -10.0, NORMAL),
        ("▁", -10.0, NORMAL),
        ("ab", -2.0, NORMAL),
        ("ba", -1.0, NORMAL),
        ("▁a", -3.0, NORMAL),
        ("aa", -4.0, NORMAL),
        ("▁▁", -5.0, NORMAL),
        ("<", -10.0, NORMAL),
        ("s", -10.0, NORMAL),
        (">", -10.0, NORMAL),
        ("<s", 0.0, NORMAL),
        ("s>", 0.0, NORMAL),
        ("<tool>", 0.0, USER_DEFINED),
    ])
}

fn without_prefix() -> Keys {
    words().with("tokenizer.ggml.add_space_prefix", false)
}

/// The texts of the tokens of a text.
#[track_caller]
fn check(keys: &Keys, text: &str, expected: &[&str]) {
    let tokenizer = keys.tokenizer();
    let tokens = tokenizer.encode(text, Specials::Parse);
    let texts: Vec<&str> = tokens.iter().map(|&id| tokenizer.token_text(id)).collect();
    assert_eq!(texts, expected, "{text:?}");
}

fn text_of(tokenizer: &Arc<Tokenizer>, tokens: &[u32]) -> String {
    let mut detokenizer = Detokenizer::new(Arc::clone(tokenizer));
    let text: String = tokens.iter().map(|&id| detokenizer.push(id)).collect();
    text + &detokenizer.finish()
}

#[test]
fn the_best_score_is_joined_first_and_of_equal_ones_the_leftmost() {
    let keys = without_prefix();
    check(&keys, "aba", &["a", "ba"]);
    check(&keys, "abb", &["ab", "b"]);
    check(&keys, "aaa", &["aa", "a"]);
    check(&keys, "aaaab", &["aa", "a", "ab"]);
    check(&keys, "<s>", &["<s>"]);
    let zeros = Keys::spm(&[
        ("a", 0.0, NORMAL),
        ("b", -0.0, NORMAL),
        ("ab", -0.0, NORMAL),
        ("ba", 0.0, NORMAL),
    ]);
    check(&zeros.with("tokenizer.ggml.add_space_prefix", false), "aba", &["ab", "a"]);
}

#[test]
fn a_space_is_put_before_text_at_the_start_and_behind_special_tokens() {
    check(&words(), "a", &["▁a"]);
    check(&words(), " a", &["▁", "▁a"]);
    check(&words(), "", &[]);
    check(&words(), "<s>", &["<s>"]);
    check(&words(), "a<s>a<tool>a", &["▁a", "<s>", "▁a", "<tool>", "▁a"]);
    check(&without_prefix(), "a<s>a a", &["a", "<s>", "a", "▁a"]);
    check(&words(), "a▁a", &["▁a", "▁a"]);
}

#[test]
fn text_that_no_token_spells_becomes_bytes() {
    check(&without_prefix(), "aé\n", &["a", "<0xC3>", "<0xA9>", "<0x0A>"]);
    let tokenizer = without_prefix().tokenizer();
    let tokens = tokenizer.encode("世a", Specials::Parse);
    assert_eq!(tokens, [byte(0xe4), byte(0xb8), byte(0x96), A]);
}

#[test]
fn without_byte_tokens_a_character_that_no_token_spells_is_unknown() {
    let mut kinds = vec![2, CONTROL, CONTROL];
    kinds.extend([NORMAL; 256 + 14]);
    let keys = without_prefix()
        .with("tokenizer.ggml.token_type", frank_gguf::Array::I32(kinds))
        .with("tokenizer.ggml.unknown_token_id", 0u32);
    assert_eq!(keys.tokenizer().encode("a世é", Specials::Literal), [A, UNK, UNK]);
}

#[test]
fn text_never_joins_to_a_control_token_or_a_byte_token() {
    // `<s` and `>` are tokens, as are `<` and `s>`: the joins lead to the text of the control token.
    let tokenizer = without_prefix().tokenizer();
    let tokens = tokenizer.encode("<s>", Specials::Literal);
    assert!(tokens.len() == 2 && !tokens.contains(&BOS), "{tokens:?}");
    let bytes = Keys::spm(&[("<0x0", 0.0, NORMAL), ("<0", 0.0, NORMAL), ("<0x", 0.0, NORMAL)]);
    let tokens = bytes.tokenizer().encode("<0x0A>", Specials::Parse);
    assert!(!tokens.contains(&byte(0x0a)), "{tokens:?}");
}

#[test]
fn a_prompt_begins_with_exactly_one_bos_unless_the_file_wants_none() {
    let prompt = |text: &str| Prompt { text: text.to_owned(), guard: '\u{fdd0}' };
    let tokenizer = words().tokenizer();
    for text in ["a", "<s>a", "<s><s>a"] {
        assert_eq!(tokenizer.encode_prompt(&prompt(text)), [BOS, A + 5], "{text}");
    }
    assert_eq!(tokenizer.encode_text("a"), [BOS, A + 5]);
    let none = words().with("tokenizer.ggml.add_bos_token", false).tokenizer();
    assert_eq!(none.encode_prompt(&prompt("a")), [A + 5]);
    let both = words().with("tokenizer.ggml.add_eos_token", true).tokenizer();
    assert_eq!(both.encode_text("a"), [BOS, A + 5, EOS]);
}

#[test]
fn a_guard_leaves_no_trace_in_the_tokens_around_it() {
    let tokenizer = words().tokenizer();
    let encode = |text: &str| {
        let text = text.replace('§', "\u{fdd0}");
        tokenizer.encode_prompt(&Prompt { text, guard: '\u{fdd0}' })
    };
    assert_eq!(encode("<s>§<s>§a§a"), encode("<s><s>aa"));
    assert_eq!(encode("<§s>"), [&[BOS], &tokenizer.encode("<s>", Specials::Literal)[..]].concat());
    assert_eq!(encode("a<s>§"), encode("a<s>"));
}

#[test]
fn tokens_have_text_and_bytes() {
    let tokenizer = words().tokenizer();
    let cases = [
        (UNK, "<unk>", ""),
        (BOS, "<s>", ""),
        (byte(0xe4), "<0xE4>", "\u{e4}"),
        (A + 5, "▁a", " a"),
        (A + 7, "▁▁", "  "),
        (A + 13, "<tool>", "<tool>"),
    ];
    for (id, text, bytes) in cases {
        assert_eq!(tokenizer.token_text(id), text);
        let expected: Vec<u8> = match id == byte(0xe4) {
            true => vec![0xe4],
            false => bytes.as_bytes().to_vec(),
        };
        assert_eq!(tokenizer.token_bytes(id), expected, "token {id}");
    }
}

#[test]
fn a_streamed_answer_keeps_its_spaces_and_joins_its_bytes() {
    let mut detokenizer = Detokenizer::new(Arc::new(words().tokenizer()));
    let tokens =
        [A + 5, BOS, A + 7, byte(0xf0), byte(0x9f), byte(0xa6), byte(0x80), A, byte(0xe4), A];
    let texts: Vec<String> = tokens.iter().map(|&id| detokenizer.push(id)).collect();
    assert_eq!(texts, [" a", "", "  ", "", "", "", "🦀", "a", "", "\u{fffd}a"]);
    assert_eq!(detokenizer.finish(), "");
}

#[test]
fn white_space_that_should_be_removed_stays_with_a_warning() {
    let keys = words().with("tokenizer.ggml.remove_extra_whitespaces", true);
    let tokenizer = keys.tokenizer();
    let [warning] = tokenizer.warnings() else { panic!("{:?}", tokenizer.warnings()) };
    assert!(warning.starts_with("tokenizer.ggml.remove_extra_whitespaces is true"), "{warning}");
    check(&keys, "a  a", &["▁a", "▁", "▁a"]);
}

#[test]
fn pre_says_nothing_about_such_a_vocabulary() {
    for pre in ["default", "qwen99"] {
        let tokenizer = words().with("tokenizer.ggml.pre", pre).tokenizer();
        assert!(tokenizer.warnings().is_empty(), "{:?}", tokenizer.warnings());
    }
}

proptest! {
    #[test]
    fn every_text_comes_back_with_the_space_in_front(
        parts in prop::collection::vec(prop_oneof!["[ab <s>]{1,6}", "\\PC", "[\n\t ]{1,3}"], 0..16)
    ) {
        let text = parts.concat().replace('▁', "");
        let prefixed = Arc::new(words().tokenizer());
        let tokens = prefixed.encode(&text, Specials::Literal);
        let space = if text.is_empty() { "" } else { " " };
        assert_eq!(text_of(&prefixed, &tokens), format!("{space}{text}"));
        let bare = Arc::new(without_prefix().tokenizer());
        assert_eq!(text_of(&bare, &bare.encode(&text, Specials::Literal)), text);
    }
}
