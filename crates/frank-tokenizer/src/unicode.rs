//! Unicode properties that pre-tokenizers split at: letters and their case, marks, numbers, punctuation, symbols.
//!
//! They are those of Unicode 15.1, in a table of our own. A model was trained on the tokens that one Unicode version
//! gave, so a newer table in a dependency would change prompts without a word. 15.1 is also what llama.cpp has
//! (`unicode-data.cpp`), against which the tokens are tested. Code points that were assigned later are
//! [`Category::Other`], exactly as they are there.
//!
//! White space is the property White_Space, which is [`char::is_whitespace`] and has not changed since Unicode 6.3.

mod ranges;

/// What a regular expression can ask about a character: the general category, as far as pre-tokenizers tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Category {
    /// `\p{Lu}` and `\p{Lt}`.
    Upper,
    /// `\p{Ll}`.
    Lower,
    /// `\p{Lm}` and `\p{Lo}`: letters without case.
    Letter,
    /// `\p{M}`.
    Mark,
    /// `\p{N}`.
    Number,
    /// `\p{P}`.
    Punctuation,
    /// `\p{S}`.
    Symbol,
    /// `\p{Z}` and `\p{C}`, unassigned code points included.
    Other,
}

/// The category of a character.
pub(crate) fn category(c: char) -> Category {
    match c {
        'A'..='Z' => Category::Upper,
        'a'..='z' => Category::Lower,
        '0'..='9' => Category::Number,
        '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~' => Category::Symbol,
        _ if c.is_ascii_punctuation() => Category::Punctuation,
        _ => {
            let after = ranges::RUNS.partition_point(|&(first, _)| first <= u32::from(c));
            after.checked_sub(1).map_or(Category::Other, |run| ranges::RUNS[run].1)
        }
    }
}

/// Whether a regular expression's `\p{L}` matches.
pub(crate) fn is_letter(c: char) -> bool {
    matches!(category(c), Category::Upper | Category::Lower | Category::Letter)
}

/// Whether a regular expression's `\p{M}` matches.
pub(crate) fn is_mark(c: char) -> bool {
    category(c) == Category::Mark
}

/// Whether a regular expression's `\p{N}` matches.
pub(crate) fn is_number(c: char) -> bool {
    category(c) == Category::Number
}

/// Whether a regular expression's `\p{P}` matches.
pub(crate) fn is_punctuation(c: char) -> bool {
    category(c) == Category::Punctuation
}

#[cfg(test)]
mod tests {
    use super::{Category, category, is_letter, is_mark, is_number, is_punctuation};

    fn count(property: impl Fn(char) -> bool) -> usize {
        ('\0'..=char::MAX).filter(|&c| property(c)).count()
    }

    #[test]
    fn the_tables_are_those_of_unicode_15_1() {
        // Sums over the categories in DerivedGeneralCategory-15.1.0.txt.
        let counts = [
            (Category::Upper, 1_831 + 31),
            (Category::Lower, 2_233),
            (Category::Letter, 397 + 132_234),
            (Category::Mark, 1_985 + 452 + 13),
            (Category::Number, 680 + 236 + 915),
            (Category::Punctuation, 10 + 26 + 79 + 77 + 12 + 10 + 628),
            (Category::Symbol, 948 + 63 + 125 + 6_639),
        ];
        for (wanted, expected) in counts {
            assert_eq!(count(|c| category(c) == wanted), expected, "{wanted:?}");
        }
        assert!(is_letter('\u{2ebf0}'), "added in 15.1");
        assert!(!is_letter('\u{10d50}'), "added in 16.0");
        assert!(!is_number('\u{10d40}'), "added in 16.0");
    }

    #[test]
    fn categories_of_some_characters() {
        for letter in ['a', 'Z', 'ß', 'ǅ', 'ʰ', 'й', '世', '한', 'ا', '𐐷', 'ª'] {
            assert!(is_letter(letter) && !is_number(letter), "{letter}");
        }
        for number in ['0', '9', '٣', '²', '½', 'Ⅷ', '㊿', '𝟘'] {
            assert!(is_number(number) && !is_letter(number), "{number}");
        }
        for mark in ['\u{301}', '\u{93f}', '\u{fe0f}', '\u{20dd}'] {
            assert!(is_mark(mark) && !is_letter(mark), "{mark:?}");
        }
        for punctuation in ['!', '_', '~', '-', '。', '«', '‿', '\\'] {
            assert_eq!(is_punctuation(punctuation), punctuation != '~', "{punctuation}");
        }
        for other in
            ['\u{200d}', '\u{378}', '\u{e000}', '\0', '\u{7f}', '\u{a0}', ' ', '\u{10ffff}']
        {
            assert_eq!(category(other), Category::Other, "{other:?}");
        }
        for symbol in ['$', '€', '🦀', '\u{fffd}', '`'] {
            assert_eq!(category(symbol), Category::Symbol, "{symbol:?}");
        }
    }
}
