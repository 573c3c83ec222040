//! Qwen3.5's words: Qwen2's, where combining marks are part of words.
//!
//! `(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|`
//! ` ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

use super::{Pre, llama3};
use crate::unicode::{is_letter, is_mark};

pub(super) const PRE: Pre = Pre {
    names: &["qwen35"],
    stages: &[|text| llama3::first_word(text, |c| is_letter(c) || is_mark(c), 1)],
    whole_words: false,
    adds_bos: false,
};

#[cfg(test)]
mod tests {
    use super::PRE;

    #[test]
    fn marks_stay_with_their_letters() {
        let words: Vec<&str> = PRE.words("in 20 e\u{301}a .\u{301}").collect();
        assert_eq!(words, ["in", " ", "2", "0", " e\u{301}a", " .", "\u{301}"]);
    }
}
