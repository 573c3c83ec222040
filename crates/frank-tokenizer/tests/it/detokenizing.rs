//! Text from tokens, one at a time: whole characters only.

use std::sync::Arc;

use frank_tokenizer::{Detokenizer, Tokenizer};
use proptest::prelude::{any, prop, proptest};

use crate::{CONTROL, Keys, NORMAL};

/// Emoji with joiners and skin tones, flags, CJK, combining marks, and every length of UTF-8.
const TEXT: &str = "a é ß 世界 한 🦀 👩‍👩‍👧‍👦 👍🏽 🇩🇪 ❤️ e\u{301} \u{10ffff} \u{fffd} z";

fn detokenizer(more: &[(&str, i32)]) -> Detokenizer {
    Detokenizer::new(Arc::new(Keys::new(more, &[]).tokenizer()))
}

/// Tokens that each stand for the given bytes.
fn tokens_of(pieces: &[&[u8]]) -> (Arc<Tokenizer>, Vec<u32>) {
    let texts: Vec<String> =
        pieces.iter().map(|piece| piece.iter().map(|&byte| crate::spell(byte)).collect()).collect();
    let mut unique: Vec<&str> =
        texts.iter().map(String::as_str).filter(|text| text.chars().nth(1).is_some()).collect();
    unique.sort_unstable();
    unique.dedup();
    let more: Vec<(&str, i32)> = unique.into_iter().map(|text| (text, NORMAL)).collect();
    let tokenizer = Keys::new(&more, &[]).tokenizer();
    let id = |text: &String| {
        (0..tokenizer.n_vocab() as u32).find(|&id| tokenizer.token_text(id) == text)
    };
    let ids =
        texts.iter().map(|text| id(text).expect("every piece is in the vocabulary")).collect();
    (Arc::new(tokenizer), ids)
}

/// Feeds the tokens and checks that what came out so far is always a whole prefix of the text.
#[track_caller]
fn check_prefixes(text: &str, pieces: &[&[u8]]) {
    let (tokenizer, ids) = tokens_of(pieces);
    let mut detokenizer = Detokenizer::new(tokenizer);
    let (mut got, mut n_bytes) = (String::new(), 0);
    for (id, piece) in ids.into_iter().zip(pieces) {
        n_bytes += piece.len();
        got.push_str(&detokenizer.push(id));
        assert_eq!(got, text[..text.floor_char_boundary(n_bytes)], "after {n_bytes} bytes");
    }
    assert_eq!(detokenizer.finish(), "");
    assert_eq!(got, text);
}

#[test]
fn text_comes_out_whole_when_every_byte_is_a_token() {
    check_prefixes(TEXT, &TEXT.as_bytes().chunks(1).collect::<Vec<_>>());
}

#[test]
fn text_comes_out_whole_wherever_it_is_cut_in_two() {
    for cut in 1..TEXT.len() {
        let (start, end) = TEXT.as_bytes().split_at(cut);
        check_prefixes(TEXT, &[start, end]);
    }
}

#[test]
fn every_way_to_cut_a_character_gives_the_character() {
    for character in ["é", "世", "🦀", "🇩", "\u{10ffff}"] {
        let n = character.len();
        for cuts in 0..1u32 << (n - 1) {
            let mut pieces = Vec::new();
            let mut start = 0;
            for end in 1..=n {
                if end == n || cuts & (1 << (end - 1)) != 0 {
                    pieces.push(&character.as_bytes()[start..end]);
                    start = end;
                }
            }
            check_prefixes(character, &pieces);
        }
    }
}

proptest! {
    #[test]
    fn text_comes_out_whole_however_it_is_cut(sizes in prop::collection::vec(1..7usize, 1..40)) {
        let mut rest = TEXT.as_bytes();
        let mut pieces = Vec::new();
        for size in sizes.into_iter().cycle() {
            let (piece, tail) = rest.split_at(size.min(rest.len()));
            pieces.push(piece);
            rest = tail;
            if rest.is_empty() {
                break;
            }
        }
        check_prefixes(TEXT, &pieces);
    }

    #[test]
    fn any_bytes_give_what_a_lossy_decoding_of_all_of_them_gives(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let mut detokenizer = detokenizer(&[]);
        let mut got: String = bytes.iter().map(|&byte| detokenizer.push(byte.into())).collect();
        got.push_str(&detokenizer.finish());
        assert_eq!(got, String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn an_impossible_byte_is_replaced_at_once_and_an_open_character_at_the_end() {
    let mut detokenizer = detokenizer(&[]);
    assert_eq!(detokenizer.push(0xff), "\u{fffd}");
    assert_eq!(detokenizer.push(0xf0), "");
    assert_eq!(detokenizer.push(0x9f), "");
    assert_eq!(detokenizer.push(u32::from(b'x')), "\u{fffd}x");
    assert_eq!(detokenizer.push(0xe4), "");
    assert_eq!(detokenizer.push(0xb8), "");
    assert_eq!(detokenizer.finish(), "\u{fffd}");
    assert_eq!(detokenizer.finish(), "");
    assert_eq!(detokenizer.push(u32::from(b'y')), "y");
}

#[test]
fn control_tokens_and_unknown_ids_have_no_text() {
    let mut detokenizer = detokenizer(&[("<|im_end|>", CONTROL)]);
    assert_eq!(detokenizer.push(256), "");
    assert_eq!(detokenizer.push(999), "");
    assert_eq!(detokenizer.finish(), "");
}
