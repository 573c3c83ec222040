//! Sets of Unicode characters as sorted ranges.

/// The ranges of characters: surrogates are none.
const ALL: [(u32, u32); 2] = [(0, 0xd7ff), (0xe000, 0x10_ffff)];

/// A set of characters: ranges with both ends, in order, neither overlapping nor adjacent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Chars(Vec<(u32, u32)>);

impl Chars {
    /// Every character.
    pub(crate) fn all() -> Self {
        Self(ALL.to_vec())
    }

    pub(crate) fn one(c: char) -> Self {
        Self(vec![(u32::from(c), u32::from(c))])
    }

    /// The union of ranges in any order.
    pub(crate) fn of(mut ranges: Vec<(u32, u32)>) -> Self {
        ranges.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(previous) if first <= previous.1.saturating_add(1) => {
                    previous.1 = previous.1.max(last);
                }
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }

    /// Every other character.
    pub(crate) fn negated(&self) -> Self {
        let mut rest = Vec::new();
        for (mut first, last) in ALL {
            for &(from, to) in &self.0 {
                if to < first || from > last {
                    continue;
                }
                if from > first {
                    rest.push((first, from - 1));
                }
                first = to.saturating_add(1);
            }
            if first <= last {
                rest.push((first, last));
            }
        }
        Self(rest)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn meets(&self, other: &Self) -> bool {
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            if x.1 < y.0 {
                a.next();
            } else if y.1 < x.0 {
                b.next();
            } else {
                return true;
            }
        }
        false
    }

    /// What is in any of `sets`.
    pub(crate) fn union<'a>(sets: impl Iterator<Item = &'a Self>) -> Self {
        Self::of(sets.flat_map(|set| &set.0).copied().collect())
    }

    pub(crate) fn n_ranges(&self) -> usize {
        self.0.len()
    }

    /// Appends the class in the syntax of regular expressions, by code points alone, so that nothing needs an escape.
    pub(crate) fn write_regex(&self, regex: &mut String) {
        regex.push('[');
        for (first, last) in &self.0 {
            regex.push_str(&format!("\\x{{{first:x}}}-\\x{{{last:x}}}"));
        }
        regex.push(']');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_merged_negated_and_compared() {
        let set = Chars::of(vec![(5, 9), (1, 2), (3, 4), (20, 30), (25, 26)]);
        assert_eq!(set, Chars(vec![(1, 9), (20, 30)]));
        let rest = set.negated();
        assert_eq!(rest, Chars(vec![(0, 0), (10, 19), (31, 0xd7ff), (0xe000, 0x10_ffff)]));
        assert_eq!(rest.negated(), set);
        assert!(!set.meets(&rest) && set.meets(&Chars::one('\u{1e}')));
        assert!(Chars::all().negated().is_empty());
        assert_eq!(Chars::union([&set, &rest].into_iter()), Chars::all());
    }
}
