//! GPT-2's words: contractions, letters, numbers, other characters, each with the space before it, and white space.
//!
//! `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

use super::{Pre, run_bytes, white_space};
use crate::unicode::{is_letter, is_number};

pub(super) const PRE: Pre = Pre {
    names: &[
        "gpt-2",
        "phi-2",
        "mpt",
        "olmo",
        "jais",
        "trillion",
        "exaone4",
        "gigachat",
        "a.x-4.0",
        "mellum",
        "granite-docling",
    ],
    stages: &[first_word],
    whole_words: false,
    adds_bos: false,
};

/// Bytes of the first word.
pub(super) fn first_word(text: &str) -> usize {
    if let Some(length) = contraction(text) {
        return length;
    }
    let spaces = usize::from(text.starts_with(' '));
    for class in [is_letter, is_number, is_other] {
        let run = run_bytes(&text[spaces..], class);
        if run > 0 {
            return spaces + run;
        }
    }
    white_space(text)
}

/// Bytes of an English contraction at the start. Case matters: `'S` is none.
fn contraction(text: &str) -> Option<usize> {
    let rest = text.strip_prefix('\'')?;
    let ending = ["s", "t", "re", "ve", "m", "ll", "d"]
        .into_iter()
        .find(|&ending| rest.starts_with(ending))?;
    Some(1 + ending.len())
}

/// Whether a character is neither white space nor letter nor number.
pub(super) fn is_other(c: char) -> bool {
    !c.is_whitespace() && !is_letter(c) && !is_number(c)
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
