//! Falcon's words: runs of punctuation, GPT-2's words in what lies between, and in those each three digits apart.
//!
//! `` [\p{P}$+<=>^~|`]+ ``, then GPT-2's expression, then `[0-9][0-9][0-9]`.

use super::{Pre, default, gpt2, run_or_gap, three_digits_or_gap};

pub(super) const PRE: Pre = Pre {
    names: &["falcon"],
    stages: &[
        |text| run_or_gap(text, |c| default::is_sign(c) || c == '`'),
        gpt2::first_word,
        three_digits_or_gap,
    ],
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
    fn every_three_digits_stand_apart_and_the_space_before_them_too() {
        check("in 2024", &["in", " ", "202", "4"]);
        check("in 24, `x`", &["in", " 24", ",", " ", "`", "x", "`"]);
        check("1234567", &["123", "456", "7"]);
    }
}
