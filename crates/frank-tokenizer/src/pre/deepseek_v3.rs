//! DeepSeek V3's words, found in three passes: up to three digits; ideographs and kana; and in what lies between words
//! with one character before them, other characters with the line ends behind them, and white space.
//!
//! `\p{N}{1,3}`, then `[一-龥぀-ゟ゠-ヿ]+`, then
//! ``[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|``
//! ` ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

use super::{Pre, run_bytes, run_or_gap, single_or_gap, white_space_and_lines};
use crate::pre::llama3::is_line_end;
use crate::unicode::{Category, category, is_letter, is_mark, is_number};

pub(super) const PRE: Pre = Pre {
    names: &["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"],
    stages: &[three_numbers_or_gap, |text| run_or_gap(text, is_ideograph_or_kana), first_word],
    whole_words: false,
    adds_bos: false,
};

/// Bytes of up to three numbers at the start, or else of what comes before the first one.
fn three_numbers_or_gap(text: &str) -> usize {
    let numbers = text.chars().take(3).take_while(|&c| is_number(c)).map(char::len_utf8).sum();
    if numbers > 0 { numbers } else { single_or_gap(text, is_number) }
}

fn is_ideograph_or_kana(c: char) -> bool {
    matches!(c, '一'..='龥' | '\u{3040}'..='\u{30ff}')
}

/// Bytes of the first match, or else of what comes before it.
fn first_word(text: &str) -> usize {
    let starts = text.char_indices().map(|(start, _)| start);
    for start in starts {
        match word(&text[start..]) {
            0 => {}
            _ if start > 0 => return start,
            length => return length,
        }
    }
    text.len()
}

/// Bytes of the match at the start of a text; zero for none, which is found without looking far.
fn word(text: &str) -> usize {
    let Some(first) = text.chars().next() else { return 0 };
    if first.is_ascii_punctuation() {
        let letters = run_bytes(&text[1..], |c| c.is_ascii_alphabetic());
        if letters > 0 {
            return 1 + letters;
        }
    }
    let leads = !is_letter(first) && !is_sign(first) && !is_line_end(first);
    let lead = if leads { first.len_utf8() } else { 0 };
    for start in [lead, 0] {
        let letters = run_bytes(&text[start..], |c| is_letter(c) || is_mark(c));
        if letters > 0 {
            return start + letters;
        }
    }
    let spaces = usize::from(first == ' ');
    let signs = run_bytes(&text[spaces..], is_sign);
    if signs > 0 {
        let end = spaces + signs;
        return end + run_bytes(&text[end..], is_line_end);
    }
    if first.is_whitespace() { white_space_and_lines(text) } else { 0 }
}

/// Whether a character is of `[\p{P}\p{S}]`.
fn is_sign(c: char) -> bool {
    matches!(category(c), Category::Punctuation | Category::Symbol)
}

#[cfg(test)]
mod tests {
    use super::PRE;

    #[track_caller]
    fn check(text: &str, words: &[&str]) {
        assert_eq!(PRE.words(text).collect::<Vec<_>>(), words);
    }

    #[test]
    fn letters_take_one_character_before_them() {
        check("Hello world", &["Hello", " world"]);
        check("it's _x", &["it", "'s", " _", "x"]);
        check("a.b e\u{301}", &["a", ".b", " e\u{301}"]);
        check("!!\n x", &["!!\n", " x"]);
    }

    #[test]
    fn numbers_and_east_asian_script_stand_apart() {
        check("in 12345", &["in", " ", "123", "45"]);
        check("漢字かなkana한", &["漢字かな", "kana한"]);
    }

    #[test]
    fn what_nothing_matches_stands_alone() {
        check("\0\0a\0", &["\0", "\0a", "\0"]);
        check("\u{200d}\u{200d}", &["\u{200d}\u{200d}"]);
    }
}
