//! GPT-4o's words (o200k): letters with one character before them and a contraction behind them, where a capital after
//! a small letter begins a new word; up to three digits; other characters with the line ends and slashes behind them;
//! white space up to its last line end.
//!
//! `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|`
//! `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|`
//! `\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
//!
//! This is the expression of OpenAI's tiktoken. llama.cpp, which cannot tell the case of letters above ASCII, splits
//! other words of those.

use super::{Pre, gpt2, llama3, run_bytes, white_space_and_lines};
use crate::unicode::{Category, category, is_number};

pub(super) const PRE: Pre = Pre {
    names: &["gpt-4o", "llama4", "kanana2", "talkie"],
    stages: &[first_word],
    whole_words: true,
    adds_bos: false,
};

fn first_word(text: &str) -> usize {
    let Some(first) = text.chars().next() else { return 0 };
    // A mark may be the character before the letters as well as one of them; the first is tried first.
    let leads = !matches!(
        category(first),
        Category::Upper | Category::Lower | Category::Letter | Category::Number
    ) && !llama3::is_line_end(first);
    let starts = if leads { [first.len_utf8(), 0] } else { [0, 0] };
    for letters in [with_small_end, capitals] {
        for start in starts {
            let run = letters(&text[start..]);
            if run > 0 {
                let end = start + run;
                return end + contraction(&text[end..]);
            }
        }
    }
    if is_number(first) {
        return text.chars().take(3).take_while(|&c| is_number(c)).map(char::len_utf8).sum();
    }
    let spaces = usize::from(first == ' ');
    let others = run_bytes(&text[spaces..], gpt2::is_other);
    if others > 0 {
        let end = spaces + others;
        return end + run_bytes(&text[end..], |c| matches!(c, '\r' | '\n' | '/'));
    }
    white_space_and_lines(text)
}

/// Whether a character is of `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`.
fn may_be_capital(c: char) -> bool {
    matches!(category(c), Category::Upper | Category::Letter | Category::Mark)
}

/// Whether a character is of `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`.
fn may_be_small(c: char) -> bool {
    matches!(category(c), Category::Lower | Category::Letter | Category::Mark)
}

/// Bytes of `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+` at the start; zero for no match.
fn with_small_end(text: &str) -> usize {
    let capitals = run_bytes(text, may_be_capital);
    let small = run_bytes(&text[capitals..], may_be_small);
    if small > 0 {
        return capitals + small;
    }
    // The second class takes what it can of the end of the first: up to the last character that is of both.
    let last = text[..capitals].char_indices().rfind(|&(_, c)| may_be_small(c));
    last.map_or(0, |(start, c)| start + c.len_utf8())
}

/// Bytes of `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+` at the start. No small letters follow: those are found before.
fn capitals(text: &str) -> usize {
    run_bytes(text, may_be_capital)
}

/// Bytes of an English contraction at the start, in any case; the long s is an s.
fn contraction(text: &str) -> usize {
    if text.starts_with("'ſ") { "'ſ".len() } else { llama3::contraction(text).unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use super::PRE;

    #[track_caller]
    fn check(text: &str, words: &[&str]) {
        assert_eq!(PRE.words(text).collect::<Vec<_>>(), words);
    }

    #[test]
    fn a_capital_after_a_small_letter_begins_a_word() {
        check("HelloWorld XMLParser", &["Hello", "World", " XMLParser"]);
        check("ÄÖüÄ", &["ÄÖü", "Ä"]);
        check("世AB 世A", &["世", "AB", " 世", "A"]);
        check("\u{301}AB", &["\u{301}", "AB"]);
    }

    #[test]
    fn contractions_belong_to_their_word() {
        check("it's WE'LL 's", &["it's", " WE'LL", " '", "s"]);
        check("I'ſt", &["I'ſ", "t"]);
    }

    #[test]
    fn slashes_belong_to_the_punctuation_before_them() {
        check("a://b 1234", &["a", "://", "b", " ", "123", "4"]);
        check("!/\n/x", &["!/\n/", "x"]);
        check("/x", &["/x"]);
    }
}
