//! Qwen2's words: Llama 3's, with each digit alone.
//!
//! `(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|`
//! ` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

use super::{Pre, llama3};
use crate::unicode::is_letter;

pub(super) const PRE: Pre = Pre {
    names: &[
        "qwen2",
        "deepseek-r1-qwen",
        "stablelm2",
        "megrez",
        "hunyuan",
        "solar-open",
        "grok-2",
        "kormo",
        "f2llmv2",
    ],
    stages: &[|text| llama3::first_word(text, is_letter, 1)],
    whole_words: false,
    adds_bos: false,
};

#[cfg(test)]
mod tests {
    use super::PRE;

    #[test]
    fn digits_stand_alone() {
        let words: Vec<&str> = PRE.words("in 2024,\n I'M e\u{301}").collect();
        assert_eq!(words, ["in", " ", "2", "0", "2", "4", ",\n", " I", "'M", " e", "\u{301}"]);
    }
}
