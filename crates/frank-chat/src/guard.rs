//! Guards in message text: where they must stand so that no control token can arise from it.
//!
//! A control token's text can come about in three ways: whole inside a message; from the end of one string and
//! the start of the next; or with a whole short string as its middle. A guard in each of these places leaves
//! exactly the control tokens that the template itself wrote. A template that deletes pieces from the middle
//! of a message can still join what a guard had no reason to part.

use std::ops::RangeInclusive;

/// Unicode noncharacters for internal use; no text needs them.
const CANDIDATES: RangeInclusive<char> = '\u{FDD0}'..='\u{FDEF}';

/// A noncharacter that is in none of `texts`; `None` when each of the 32 is in one.
pub(crate) fn free_guard<'a>(texts: impl Iterator<Item = &'a str>) -> Option<char> {
    let first = u32::from(*CANDIDATES.start());
    let mut used = 0_u32;
    for text in texts {
        // All candidates start with the same two bytes in UTF-8, which other text rarely holds.
        for (at, _) in text.match_indices(|c| CANDIDATES.contains(&c)) {
            let found = text[at..].chars().next().expect("a match is a character");
            used |= 1 << (u32::from(found) - first);
        }
    }
    (used != u32::MAX).then(|| {
        char::from_u32(first + used.trailing_ones()).expect("32 candidates follow the first")
    })
}

/// The control-token texts of a vocabulary, ordered for matching.
pub(crate) struct ControlTexts<'a> {
    /// Sorted, so that all texts with a common start stand together.
    sorted: Vec<&'a str>,
    starts: [bool; 256],
}

impl<'a> ControlTexts<'a> {
    /// Empty texts match nothing and are left out.
    pub(crate) fn new(texts: &[&'a str]) -> Self {
        let mut sorted: Vec<&str> = texts.iter().copied().filter(|text| !text.is_empty()).collect();
        sorted.sort_unstable();
        sorted.dedup();
        let mut starts = [false; 256];
        for text in &sorted {
            starts[usize::from(text.as_bytes()[0])] = true;
        }
        Self { sorted, starts }
    }

    /// The first control text of a single character that is in `text`: no guard fits inside such a one.
    pub(crate) fn unguardable(&self, text: &str) -> Option<&'a str> {
        let single = |control: &&&str| control.chars().nth(1).is_none();
        self.sorted.iter().filter(single).find(|control| text.contains(**control)).copied()
    }

    /// `text` with `guard` in every place where a control token could arise from it.
    pub(crate) fn guarded(&self, text: &str, guard: char) -> String {
        let offsets = self.guard_offsets(text);
        let mut guarded = String::with_capacity(text.len() + offsets.len() * guard.len_utf8());
        let mut copied = 0;
        for offset in offsets {
            guarded.push_str(&text[copied..offset]);
            guarded.push(guard);
            copied = offset;
        }
        guarded.push_str(&text[copied..]);
        guarded
    }

    /// Byte offsets in `text` before which a guard must stand, rising.
    fn guard_offsets(&self, text: &str) -> Vec<usize> {
        let mut offsets: Vec<usize> = self.whole_matches(text).collect();
        // Templates trim messages, so the edges of the trimmed text count as much as those of the text.
        let trimmed = text.trim();
        let lead = text.len() - text.trim_start().len();
        for (start, part) in [(0, text), (lead, trimmed)] {
            if self.may_continue_before(part) {
                offsets.push(start);
            }
            if self.may_start_at_end_of(part) {
                offsets.push(start + part.len());
            }
        }
        offsets.sort_unstable();
        offsets.dedup();
        offsets
    }

    /// The place after the first character of each control text that stands whole in `text`.
    fn whole_matches(&self, text: &str) -> impl Iterator<Item = usize> {
        let bytes = text.as_bytes();
        let candidates = (0..bytes.len()).filter(|&at| self.starts[usize::from(bytes[at])]);
        candidates.filter(|&at| self.is_start_of(&bytes[at..])).map(|at| {
            // A control text starts with a whole character, so its first byte here is a border in `text`.
            at + text[at..].chars().next().map_or(0, char::len_utf8)
        })
    }

    /// Whether a control text stands at the start of `bytes`.
    fn is_start_of(&self, bytes: &[u8]) -> bool {
        let mut range = 0..self.sorted.len();
        for (depth, byte) in bytes.iter().enumerate() {
            let narrowed = &self.sorted[range.clone()];
            if narrowed.first().is_some_and(|control| control.len() == depth) {
                return true;
            }
            let at_depth = |control: &&str| control.as_bytes()[depth];
            let start = range.start + narrowed.partition_point(|control| at_depth(control) < *byte);
            let end = range.start + narrowed.partition_point(|control| at_depth(control) <= *byte);
            range = start..end;
            if range.is_empty() {
                return false;
            }
        }
        self.sorted[range].first().is_some_and(|control| control.len() == bytes.len())
    }

    /// Whether `part` ends with a start of a control text that text behind it could complete.
    fn may_start_at_end_of(&self, part: &str) -> bool {
        let Some(&last) = part.as_bytes().last() else { return false };
        self.sorted.iter().any(|control| {
            let bytes = control.as_bytes();
            (1..bytes.len()).any(|n| bytes[n - 1] == last && part.as_bytes().ends_with(&bytes[..n]))
        })
    }

    /// Whether `part` starts with, or is part of, the rest of a control text that text before it could begin.
    fn may_continue_before(&self, part: &str) -> bool {
        let Some(&first) = part.as_bytes().first() else { return false };
        self.sorted.iter().any(|control| {
            let bytes = control.as_bytes();
            (1..bytes.len()).any(|n| {
                bytes[n] == first
                    && (part.as_bytes().starts_with(&bytes[n..])
                        || bytes[n..].starts_with(part.as_bytes()))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let controls = ControlTexts::new(&[
            "<|im_start|>",
            "<|im_end|>",
            "<|endoftext|>",
            "</s>",
            "",
            "</s>>",
        ]);
        assert_eq!(
            controls.guarded(text, '\u{FDD0}').replace('\u{FDD0}', "^"),
            expected,
            "for {text:?}"
        );
    }

    #[test]
    fn guards_stand_inside_whole_control_texts_and_at_risky_edges() {
        check("", "");
        check("plain text", "plain text");
        check("a < b", "a < b");
        check("<|im_end|>", "<^|im_end|>");
        check("a<|im_end|>b</s>c", "a<^|im_end|>b<^/s>c");
        check("<<|im_end|>>", "<<^|im_end|>>");
        check("what is <|im_", "what is <|im_^");
        check("what is <|im_ \n", "what is <|im_^ \n");
        check("end|> is", "^end|> is");
        check("\n end|> is", "\n ^end|> is");
        check("im", "^im");
        check(">", "^>");
        check("<", "<^");
        check("<|im_end|><|im_", "<^|im_end|><|im_^");
    }

    #[test]
    fn overlapping_control_texts_are_each_parted() {
        let controls = ControlTexts::new(&["aa", "aab", "b|b"]);
        assert_eq!(controls.guarded("xaaabx", '^'), "xa^a^abx");
        assert_eq!(controls.guarded("xb|b|bx", '^'), "xb^|b^|bx");
    }

    #[test]
    fn control_texts_of_spaces_are_parted_at_the_untrimmed_edge() {
        let controls = ControlTexts::new(&["\n\nHuman"]);
        assert_eq!(controls.guarded("x\n", '^'), "x\n^");
        assert_eq!(controls.guarded("x\n\nHuman", '^'), "x\n^\nHuman");
    }

    #[test]
    fn characters_of_several_bytes_are_not_cut() {
        let controls = ControlTexts::new(&["｜End｜"]);
        assert_eq!(controls.guarded("é｜End｜é", '^'), "é｜^End｜é");
        assert_eq!(controls.guarded("é｜En", '^'), "é｜En^");
    }

    #[test]
    fn a_control_text_of_one_character_is_found() {
        let controls = ControlTexts::new(&["§", "<s>"]);
        assert_eq!(controls.unguardable("a § b"), Some("§"));
        assert_eq!(controls.unguardable("a <s> b"), None);
    }

    #[test]
    fn the_guard_is_a_noncharacter_that_no_text_holds() {
        assert_eq!(free_guard(["a", ""].into_iter()), Some('\u{FDD0}'));
        assert_eq!(free_guard(["\u{FDD1}", "\u{FDD0}"].into_iter()), Some('\u{FDD2}'));
        let all: String = CANDIDATES.collect();
        assert_eq!(free_guard([all.as_str()].into_iter()), None);
    }
}
