//! The words of a file that does not say: runs of punctuation, GPT-2's words in what lies between, and in those each
//! number apart and cut after every third digit.
//!
//! `[\p{P}$+<=>^~|]+`, then GPT-2's expression, then `\p{N}+`, then `[0-9][0-9][0-9]`. This is what llama.cpp does
//! (`LLAMA_VOCAB_PRE_TYPE_DEFAULT`); no model is known to be trained with it.

use super::{Pre, gpt2, run_or_gap, three_digits_or_gap};
use crate::unicode::{is_number, is_punctuation};

pub(super) const PRE: Pre = Pre {
    names: &["default"],
    stages: &[
        |text| run_or_gap(text, is_sign),
        gpt2::first_word,
        |text| run_or_gap(text, is_number),
        three_digits_or_gap,
    ],
    whole_words: false,
    adds_bos: false,
};

/// Whether a character is of `[\p{P}$+<=>^~|]`.
pub(super) fn is_sign(c: char) -> bool {
    is_punctuation(c) || matches!(c, '$' | '+' | '<' | '=' | '>' | '^' | '~' | '|')
}

#[cfg(test)]
mod tests {
    use super::PRE;

    #[track_caller]
    fn check(text: &str, words: &[&str]) {
        assert_eq!(PRE.words(text).collect::<Vec<_>>(), words);
    }

    #[test]
    fn punctuation_and_numbers_stand_apart() {
        check("a != b", &["a", " ", "!=", " b"]);
        check("x 12345.6", &["x", " ", "123", "45", ".", "6"]);
        check("it's", &["it", "'", "s"]);
        check("½123 ", &["½", "123", " "]);
        check("`a`", &["`", "a", "`"]);
    }
}
