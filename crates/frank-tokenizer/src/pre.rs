//! Pre-tokenizers: how a text is split into the words that byte pairs are merged in. Never sees a token id.
//!
//! A pre-tokenizer is a regular expression in the model's training code. Here each is written by hand as a function
//! that finds the end of the first word of a text, which is enough because none looks behind.

mod gpt2;
mod smollm;

use crate::error::{TokenizerError, shortened};

/// A pre-tokenizer under the name that `tokenizer.ggml.pre` gives it.
pub(crate) struct Pre {
    name: &'static str,
    /// Bytes of the first word of a text that is not empty; at least one character.
    first_word: fn(&str) -> usize,
}

/// Every pre-tokenizer. To add one, write its file and its line here.
static PRES: &[Pre] = &[gpt2::PRE, smollm::PRE];

/// What a file gets that does not say: the splitting of GPT-2, which most byte-level vocabularies started from.
static FALLBACK: &Pre = &gpt2::PRE;

impl Pre {
    /// The pre-tokenizer of `tokenizer.ggml.pre`. A missing name and `default` give GPT-2's, and a warning.
    pub(crate) fn find(
        name: Option<&str>,
        warnings: &mut Vec<String>,
    ) -> Result<&'static Pre, TokenizerError> {
        let Some(name) = name.filter(|&name| name != "default") else {
            warnings.push(format!(
                "tokenizer.ggml.pre is {}: text is split as for {:?}, which may not be how the model was trained",
                if name.is_some() { "\"default\"" } else { "missing" },
                FALLBACK.name,
            ));
            return Ok(FALLBACK);
        };
        PRES.iter().find(|pre| pre.name == name).ok_or_else(|| TokenizerError::UnknownPre {
            pre: shortened(name),
            known: PRES.iter().map(|pre| pre.name).collect::<Vec<_>>().join(", "),
        })
    }

    /// The words of a text, in order; together they are the text.
    pub(crate) fn words<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        let mut rest = text;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let (word, tail) = rest.split_at((self.first_word)(rest));
            rest = tail;
            Some(word)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use fancy_regex::Regex;
    use proptest::prelude::{Strategy, prop, prop_oneof, proptest};

    use super::{PRES, Pre};
    use crate::unicode;

    fn regex(expression: &str) -> Regex {
        Regex::new(expression).expect("a valid expression")
    }

    /// The expression of GPT-2, as its training code has it.
    static GPT2: LazyLock<Regex> = LazyLock::new(|| {
        regex(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
    });
    /// Each number alone, and what lies between.
    static NUMBERS: LazyLock<Regex> = LazyLock::new(|| regex(r"\p{N}|\P{N}+"));
    static LETTER: LazyLock<Regex> = LazyLock::new(|| regex(r"^\p{L}$"));
    static NUMBER: LazyLock<Regex> = LazyLock::new(|| regex(r"^\p{N}$"));

    fn matches<'t>(regex: &Regex, text: &'t str) -> Vec<&'t str> {
        regex.find_iter(text).map(|found| found.expect("the search ends").as_str()).collect()
    }

    /// What the training code of each pre-tokenizer would split.
    fn expected<'t>(pre: &Pre, text: &'t str) -> Vec<&'t str> {
        match pre.name {
            "gpt-2" => matches(&GPT2, text),
            "smollm" => matches(&NUMBERS, text)
                .into_iter()
                .flat_map(|piece| matches(&GPT2, piece))
                .collect(),
            other => panic!("{other} needs its expression here"),
        }
    }

    /// Text of the characters that decide about splits. Where the Unicode version of the regex crate differs from
    /// ours the character is left out.
    fn text() -> impl Strategy<Value = String> {
        let same_in_both = |c: &char| {
            let is = |regex: &Regex| regex.is_match(&c.to_string()).expect("the search ends");
            is(&LETTER) == unicode::is_letter(*c) && is(&NUMBER) == unicode::is_number(*c)
        };
        let character = prop_oneof![
            4 => prop::sample::select(vec!['a', 's', 't', 'r', 'e', 'v', 'l', 'm', 'd', 'S', 'é', '世', '\'', '’']),
            4 => prop::sample::select(vec![' ', ' ', '\n', '\r', '\t', '\u{a0}', '\u{3000}', '\u{85}', '\u{1c}']),
            2 => prop::sample::select(vec!['0', '7', '٣', '½', 'Ⅷ']),
            2 => prop::sample::select(vec!['.', ',', '_', '<', '|', '🦀', '\u{200d}', '\u{301}', '\u{fffd}', '\0']),
            1 => prop::char::any().prop_filter("another Unicode version", same_in_both),
        ];
        prop::collection::vec(character, 0..24).prop_map(String::from_iter)
    }

    proptest! {
        #[test]
        fn every_pre_tokenizer_splits_as_its_regular_expression(text in text()) {
            for pre in PRES {
                assert_eq!(pre.words(&text).collect::<Vec<_>>(), expected(pre, &text), "{}", pre.name);
            }
        }
    }
}
