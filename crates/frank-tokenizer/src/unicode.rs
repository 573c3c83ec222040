//! Unicode properties that pre-tokenizers split at: letters, numbers and white space.
//!
//! Letters and numbers are those of Unicode 15.1, in a table of our own. A model was trained on the tokens that one
//! Unicode version gave, so a newer table in a dependency would change prompts without a word. 15.1 is also what
//! llama.cpp has (`unicode-data.cpp`), against which the tokens are tested. Code points that were assigned later count
//! as neither, exactly as they do there.
//!
//! White space is the property White_Space, which is [`char::is_whitespace`] and has not changed since Unicode 6.3.

mod ranges;

use ranges::{LETTERS, NUMBERS};

/// Whether a regular expression's `\p{L}` matches.
pub(crate) fn is_letter(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphabetic() } else { contains(&LETTERS, c) }
}

/// Whether a regular expression's `\p{N}` matches.
pub(crate) fn is_number(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_digit() } else { contains(&NUMBERS, c) }
}

fn contains(ranges: &[(u32, u32)], c: char) -> bool {
    let code = u32::from(c);
    let after = ranges.partition_point(|&(first, _)| first <= code);
    after > 0 && code <= ranges[after - 1].1
}

#[cfg(test)]
mod tests {
    use super::{is_letter, is_number};

    fn count(property: fn(char) -> bool) -> usize {
        ('\0'..=char::MAX).filter(|&c| property(c)).count()
    }

    #[test]
    fn the_tables_are_those_of_unicode_15_1() {
        // Sums over the categories in DerivedGeneralCategory-15.1.0.txt.
        assert_eq!(count(is_letter), 136_726);
        assert_eq!(count(is_number), 1_831);
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
        for neither in [
            '_', '\u{301}', '€', '🦀', '\u{200d}', '\u{378}', '\u{e000}', '\u{fffd}', '\0',
            '\u{a0}',
        ] {
            assert!(!is_number(neither) && !is_letter(neither), "{neither:?}");
        }
    }
}
