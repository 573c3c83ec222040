//! SmolLM's words: each digit alone, and GPT-2's words in what lies between.
//!
//! `\p{N}`, then GPT-2's expression in each piece, so that a number ends a piece as the end of the text does.

use super::{Pre, gpt2, single_or_gap};
use crate::unicode::is_number;

pub(super) const PRE: Pre = Pre {
    names: &[
        "smollm",
        "starcoder",
        "refact",
        "command-r",
        "codeshell",
        "exaone",
        "minerva-7b",
        "mellum2",
    ],
    stages: &[|text| single_or_gap(text, is_number), gpt2::first_word],
    whole_words: false,
    adds_bos: false,
};

#[cfg(test)]
mod tests {
    use super::PRE;

    #[track_caller]
    fn check(text: &str, words: &[&str]) {
        assert_eq!(PRE.words(text).collect::<Vec<_>>(), words);
    }

    #[test]
    fn digits_stand_alone_and_take_no_space() {
        check("in 2024", &["in", " ", "2", "0", "2", "4"]);
        check("x86-64 ½", &["x", "8", "6", "-", "6", "4", " ", "½"]);
        check("a  1", &["a", "  ", "1"]);
        check("a  b", &["a", " ", " b"]);
        check("1 's", &["1", " '", "s"]);
        check("1's", &["1", "'s"]);
    }
}
