//! Llama 3's words: contractions in any case, letters with one character before them, up to three digits, other
//! characters with the line ends behind them, and white space up to its last line end.
//!
//! `(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|`
//! ` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

use super::{Pre, gpt2, run_bytes, white_space_and_lines};
use crate::unicode::{is_letter, is_number};

pub(super) const PRE: Pre = Pre {
    names: &[
        "llama-bpe",
        "llama3",
        "llama-v3",
        "falcon3",
        "falcon-h1",
        "pixtral",
        "midm-2.0",
        "lfm2",
    ],
    stages: &[|text| first_word(text, is_letter, 3)],
    whole_words: true,
    adds_bos: true,
};

/// Bytes of the first word, where some class makes words and up to `digits_max` digits stand together.
pub(super) fn first_word(text: &str, in_word: fn(char) -> bool, digits_max: usize) -> usize {
    if let Some(length) = contraction(text) {
        return length;
    }
    let mut chars = text.chars();
    let Some(first) = chars.next() else { return 0 };
    let leads = !in_word(first) && !is_number(first) && !is_line_end(first);
    let lead = if leads { first.len_utf8() } else { 0 };
    let letters = run_bytes(&text[lead..], in_word);
    if letters > 0 {
        return lead + letters;
    }
    if is_number(first) {
        return text
            .chars()
            .take(digits_max)
            .take_while(|&c| is_number(c))
            .map(char::len_utf8)
            .sum();
    }
    let spaces = usize::from(first == ' ');
    let others = run_bytes(&text[spaces..], |c| gpt2::is_other(c) && !in_word(c));
    if others > 0 {
        let end = spaces + others;
        return end + run_bytes(&text[end..], is_line_end);
    }
    white_space_and_lines(text)
}

/// Bytes of an English contraction at the start, in small or capital letters.
pub(super) fn contraction(text: &str) -> Option<usize> {
    let rest = text.strip_prefix('\'')?;
    let starts_with = |ending: &&str| {
        rest.get(..ending.len()).is_some_and(|start| start.eq_ignore_ascii_case(ending))
    };
    let ending = ["s", "t", "re", "ve", "m", "ll", "d"].into_iter().find(starts_with)?;
    Some(1 + ending.len())
}

pub(super) fn is_line_end(c: char) -> bool {
    matches!(c, '\r' | '\n')
}

#[cfg(test)]
mod tests {
    use super::PRE;

    #[track_caller]
    fn check(text: &str, words: &[&str]) {
        assert_eq!(PRE.words(text).collect::<Vec<_>>(), words);
    }

    #[test]
    fn letters_take_one_character_before_them_that_is_no_letter_number_or_line_end() {
        check("Hello world", &["Hello", " world"]);
        check("(a) .b\tc\nd", &["(a", ")", " .", "b", "\tc", "\n", "d"]);
        check("1a  b", &["1", "a", " ", " b"]);
        check("IT'S we'Ll 'x", &["IT", "'S", " we", "'Ll", " '", "x"]);
    }

    #[test]
    fn digits_stand_in_threes_from_the_left_without_a_space() {
        check("in 12345", &["in", " ", "123", "45"]);
        check("½²0٣", &["½²0", "٣"]);
    }

    #[test]
    fn line_ends_belong_to_what_is_before_them() {
        check("a;\n\n b", &["a", ";\n\n", " b"]);
        check("a \n \n  b", &["a", " \n \n", " ", " b"]);
        check("a  ", &["a", "  "]);
        check(" \r\n", &[" \r\n"]);
    }
}
