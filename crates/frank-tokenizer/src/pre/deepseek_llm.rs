//! DeepSeek LLM's words, found in six passes: line ends; words of cased alphabets and then punctuation, each with the
//! white space before it; white space at the end; East Asian script; numbers.
//!
//! `[\r\n]`, then `\s?[A-Za-z…]+` with the letters of [`ALPHABETS`], then `\s?[!-/:-~！-／：-～‘-‟　-。]+`, then `\s+$`,
//! then `[一-龥ࠀ-一가-퟿]+`, then `\p{N}+`. The range `:-~` takes in the letters of ASCII, which parts them from others of
//! their word; the training code has it so. White space above ASCII is in none of the classes, as in llama.cpp.

use super::{Pre, is_one_of, run_or_gap, single_or_gap, spaced_run_or_gap};
use crate::pre::llama3::is_line_end;
use crate::unicode::is_number;

pub(super) const PRE: Pre = Pre {
    names: &["deepseek-llm"],
    stages: &[
        |text| single_or_gap(text, is_line_end),
        |text| spaced_run_or_gap(text, |c| is_one_of(ALPHABETS, c)),
        |text| spaced_run_or_gap(text, |c| is_one_of(PUNCTUATION, c)),
        before_last_white_space,
        |text| run_or_gap(text, is_east_asian),
        |text| run_or_gap(text, is_number),
    ],
    whole_words: false,
    adds_bos: false,
};

/// The letters with case of Latin, Greek, Cyrillic, Armenian, Georgian, Cherokee and some younger alphabets.
#[rustfmt::skip]
static ALPHABETS: &[(char, char)] = &[
    ('A', 'Z'), ('a', 'z'), ('\u{b5}', '\u{b5}'), ('\u{c0}', '\u{d6}'), ('\u{d8}', '\u{f6}'), ('\u{f8}', '\u{1ba}'),
    ('\u{1bc}', '\u{1bf}'), ('\u{1c4}', '\u{293}'), ('\u{295}', '\u{2af}'), ('\u{370}', '\u{373}'),
    ('\u{376}', '\u{376}'), ('\u{377}', '\u{377}'), ('\u{37b}', '\u{37d}'), ('\u{37f}', '\u{37f}'),
    ('\u{386}', '\u{386}'), ('\u{388}', '\u{38a}'), ('\u{38c}', '\u{38c}'), ('\u{38e}', '\u{3a1}'),
    ('\u{3a3}', '\u{3f5}'), ('\u{3f7}', '\u{481}'), ('\u{48a}', '\u{52f}'), ('\u{531}', '\u{556}'),
    ('\u{10a0}', '\u{10c5}'), ('\u{13a0}', '\u{13f5}'), ('\u{13f8}', '\u{13fd}'), ('\u{1c90}', '\u{1cba}'),
    ('\u{1cbd}', '\u{1cbf}'), ('\u{1d00}', '\u{1d2b}'), ('\u{1d6b}', '\u{1d77}'), ('\u{1d79}', '\u{1d9a}'),
    ('\u{1e00}', '\u{1f15}'), ('\u{1f18}', '\u{1f1d}'), ('\u{1f20}', '\u{1f45}'), ('\u{1f48}', '\u{1f4d}'),
    ('\u{1f50}', '\u{1f57}'), ('\u{1f59}', '\u{1f59}'), ('\u{1f5b}', '\u{1f5b}'), ('\u{1f5d}', '\u{1f5d}'),
    ('\u{1f5f}', '\u{1f7d}'), ('\u{1f80}', '\u{1fb4}'), ('\u{1fb6}', '\u{1fbc}'), ('\u{1fbe}', '\u{1fbe}'),
    ('\u{1fc2}', '\u{1fc4}'), ('\u{1fc6}', '\u{1fcc}'), ('\u{1fd0}', '\u{1fd3}'), ('\u{1fd6}', '\u{1fdb}'),
    ('\u{1fe0}', '\u{1fec}'), ('\u{1ff2}', '\u{1ff4}'), ('\u{1ff6}', '\u{1ffc}'), ('\u{2102}', '\u{2102}'),
    ('\u{2107}', '\u{2107}'), ('\u{210a}', '\u{2113}'), ('\u{2115}', '\u{2115}'), ('\u{2119}', '\u{211d}'),
    ('\u{2124}', '\u{2124}'), ('\u{2126}', '\u{2126}'), ('\u{2128}', '\u{2128}'), ('\u{212a}', '\u{212d}'),
    ('\u{212f}', '\u{2134}'), ('\u{2139}', '\u{2139}'), ('\u{213c}', '\u{213f}'), ('\u{2145}', '\u{2149}'),
    ('\u{214e}', '\u{214e}'), ('\u{2183}', '\u{2183}'), ('\u{2184}', '\u{2184}'), ('\u{2c00}', '\u{2c7b}'),
    ('\u{2c7e}', '\u{2ce4}'), ('\u{2ceb}', '\u{2cee}'), ('\u{2cf2}', '\u{2cf2}'), ('\u{2cf3}', '\u{2cf3}'),
    ('\u{a640}', '\u{a66d}'), ('\u{a680}', '\u{a69b}'), ('\u{a722}', '\u{a76f}'), ('\u{a771}', '\u{a787}'),
    ('\u{a78b}', '\u{a78e}'), ('\u{ab70}', '\u{abbf}'), ('\u{fb00}', '\u{fb06}'), ('\u{fb13}', '\u{fb17}'),
    ('\u{ff21}', '\u{ff3a}'), ('\u{ff41}', '\u{ff5a}'), ('\u{10400}', '\u{1044f}'), ('\u{104b0}', '\u{104d3}'),
    ('\u{104d8}', '\u{104fb}'), ('\u{10c80}', '\u{10cb2}'), ('\u{10cc0}', '\u{10cf2}'), ('\u{118a0}', '\u{118df}'),
    ('\u{1e900}', '\u{1e943}'),
];

static PUNCTUATION: &[(char, char)] =
    &[('!', '/'), (':', '~'), ('‘', '‟'), ('\u{3001}', '。'), ('！', '／'), ('：', '～')];

/// Whether a character is of `[一-龥ࠀ-一가-퟿]`: from Samaritan to the ideographs, and Hangul.
pub(super) fn is_east_asian(c: char) -> bool {
    matches!(c, '\u{800}'..='\u{9fa5}' | '\u{ac00}'..='\u{d7ff}') && !c.is_whitespace()
}

/// Bytes of all but the white space at the end, or of that.
fn before_last_white_space(text: &str) -> usize {
    match text.trim_end().len() {
        0 => text.len(),
        length => length,
    }
}

#[cfg(test)]
mod tests {
    use super::PRE;

    #[track_caller]
    fn check(text: &str, words: &[&str]) {
        assert_eq!(PRE.words(text).collect::<Vec<_>>(), words);
    }

    #[test]
    fn words_and_punctuation_take_the_white_space_before_them() {
        check("Hello, world!\n x", &["Hello", ",", " world", "!", "\n", " x"]);
        check("the wörld", &["the", " w", "ö", "rld"]);
        check("a\u{3000}b\t(", &["a", "\u{3000}b", "\t("]);
        check("it's", &["it", "'", "s"]);
    }

    #[test]
    fn what_is_left_is_split_by_script_and_number() {
        check("在apple工作1314天～", &["在", "apple", "工作", "1314", "天", "～"]);
        check("  12  ", &["  ", "12", "  "]);
        check("ابج 한", &["ابج ", "한"]);
    }
}
