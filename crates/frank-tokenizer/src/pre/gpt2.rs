//! GPT-2's words: contractions, letters, numbers, other characters, each with the space before it, and white space.
//!
//! `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

use super::Pre;
use crate::unicode::{is_letter, is_number};

pub(super) const PRE: Pre = Pre { name: "gpt-2", first_word: |text| first_word(text, |_| false) };

/// Bytes of the first word. A character for which `ends` is true counts as the end of the text; it is not the first.
pub(super) fn first_word(text: &str, ends: fn(char) -> bool) -> usize {
    if let Some(length) = contraction(text) {
        return length;
    }
    let spaces = usize::from(text.starts_with(' '));
    for class in [is_letter, is_number, is_other] {
        let run = run_bytes(&text[spaces..], |c| class(c) && !ends(c));
        if run > 0 {
            return spaces + run;
        }
    }
    white_space(text, ends)
}

/// Bytes of an English contraction at the start. Case matters: `'S` is none.
fn contraction(text: &str) -> Option<usize> {
    let rest = text.strip_prefix('\'')?;
    let ending = ["s", "t", "re", "ve", "m", "ll", "d"]
        .into_iter()
        .find(|&ending| rest.starts_with(ending))?;
    Some(1 + ending.len())
}

fn is_other(c: char) -> bool {
    !c.is_whitespace() && !is_letter(c) && !is_number(c)
}

/// Bytes of the white space at the start, without its last character where a word follows that may want a space.
fn white_space(text: &str, ends: fn(char) -> bool) -> usize {
    let run = run_bytes(text, char::is_whitespace);
    let word_follows = text[run..].chars().next().is_some_and(|c| !ends(c));
    let last = text[..run].chars().next_back().map_or(0, char::len_utf8);
    if word_follows && last < run { run - last } else { run }
}

/// Bytes of the characters at the start that are of a class.
fn run_bytes(text: &str, class: impl Fn(char) -> bool) -> usize {
    text.find(|c| !class(c)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::PRE;

    #[track_caller]
    fn check(text: &str, words: &[&str]) {
        assert_eq!(PRE.words(text).collect::<Vec<_>>(), words);
    }

    #[test]
    fn words_take_the_space_before_them() {
        check("", &[]);
        check("Hello world", &["Hello", " world"]);
        check("a1 b22, c", &["a", "1", " b", "22", ",", " c"]);
        check("x = y_z;", &["x", " =", " y", "_", "z", ";"]);
        check("naïve 世界 🦀!", &["naïve", " 世界", " 🦀!"]);
    }

    #[test]
    fn contractions_are_words_of_their_own() {
        check("it's we'll I'd", &["it", "'s", " we", "'ll", " I", "'d"]);
        check("'sable 'S", &["'s", "able", " '", "S"]);
        check("'", &["'"]);
        check("'l", &["'", "l"]);
    }

    #[test]
    fn the_last_white_space_before_a_word_is_left_to_it() {
        check("a  b", &["a", " ", " b"]);
        check("a\n\nb", &["a", "\n", "\n", "b"]);
        check("a \n b", &["a", " \n", " b"]);
        check("a  ", &["a", "  "]);
        check(" ", &[" "]);
        check("\u{3000}x", &["\u{3000}", "x"]);
    }
}
