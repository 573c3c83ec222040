//! DeepSeek Coder's words, found in five passes: line ends; letters and then punctuation, each with the white space
//! before it; East Asian script; digits.
//!
//! `[\r\n]`, then `\s?\p{L}+`, then `\s?\p{P}+`, then `[一-龥ࠀ-一가-퟿]+`, then `\p{N}`.

use super::{Pre, deepseek_llm, run_or_gap, single_or_gap, spaced_run_or_gap};
use crate::pre::llama3::is_line_end;
use crate::unicode::{is_letter, is_number, is_punctuation};

pub(super) const PRE: Pre = Pre {
    names: &["deepseek-coder"],
    stages: &[
        |text| single_or_gap(text, is_line_end),
        |text| spaced_run_or_gap(text, is_letter),
        |text| spaced_run_or_gap(text, is_punctuation),
        |text| run_or_gap(text, deepseek_llm::is_east_asian),
        |text| single_or_gap(text, is_number),
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
    fn words_and_punctuation_take_the_white_space_before_them() {
        check("def f(x):\n  return", &["def", " f", "(", "x", "):", "\n", " ", " return"]);
        check("a + b=1", &["a", " +", " b", "=", "1"]);
    }

    #[test]
    fn digits_stand_alone() {
        check("x 42", &["x", " ", "4", "2"]);
        check("☃〆1", &["☃", "〆", "1"]);
    }
}
