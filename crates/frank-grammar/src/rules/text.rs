//! Texts that are free but for markers: any text in which none stands, or any up to the first one and that.

use std::collections::BTreeMap;

use super::chars::Chars;

/// A text that is free but for markers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    /// Texts that do not stand in it; none of them is empty.
    pub(crate) markers: Vec<String>,
    /// Whether it goes on through the first marker and ends there. If not, it may end anywhere and may be empty.
    pub(crate) is_through: bool,
}

/// A state of the automaton that finds the markers, with what is read to come there.
#[derive(Debug)]
pub(super) struct State {
    pub(super) chars: Chars,
    /// The states after it, by index.
    pub(super) next: Vec<usize>,
    /// Whether the text may end in it.
    pub(super) is_last: bool,
}

/// The automaton of a text: each state is entered with its own characters alone.
#[derive(Debug)]
pub(super) struct States {
    pub(super) states: Vec<State>,
    pub(super) first: Vec<usize>,
}

impl Text {
    /// Its Lark expression.
    pub(super) fn to_lark(&self) -> String {
        let quoted = |marker: &String| -> String {
            marker.chars().map(|c| format!("\\x{{{:x}}}", u32::from(c))).collect()
        };
        let markers = self.markers.iter().map(quoted).collect::<Vec<_>>().join("|");
        match (self.is_through, self.markers.is_empty()) {
            (false, true) => "/(?s:.*)/".to_owned(),
            (false, false) => format!("/(?s:.*)/ & ~/(?s:.*)(?:{markers})(?s:.*)/"),
            (true, _) => {
                format!("/(?s:.*)(?:{markers})/ & ~/(?s:.*)(?:{markers})(?s:.+)/")
            }
        }
    }

    /// The automaton that reads it, by what it has read of the markers (Aho and Corasick's construction).
    pub(super) fn states(&self) -> States {
        let markers = Markers::new(&self.markers);
        let mut found =
            Found { text: self, markers: &markers, states: Vec::new(), known: BTreeMap::new() };
        let first = found.after("");
        States { first, states: found.states }
    }
}

/// Beginnings of markers.
struct Markers {
    /// All of them, each with whether it is a marker as a whole.
    beginnings: BTreeMap<String, bool>,
    alphabet: Vec<char>,
}

impl Markers {
    fn new(markers: &[String]) -> Self {
        let mut beginnings = BTreeMap::from([(String::new(), false)]);
        for marker in markers {
            for (at, c) in marker.char_indices() {
                let end = at + c.len_utf8();
                *beginnings.entry(marker[..end].to_owned()).or_default() |= end == marker.len();
            }
        }
        let mut alphabet: Vec<char> = markers.iter().flat_map(|marker| marker.chars()).collect();
        alphabet.sort_unstable();
        alphabet.dedup();
        Self { beginnings, alphabet }
    }

    /// The longest beginning of a marker that `read` and then `c` end with; `None` where a whole marker does.
    fn step(&self, read: &str, c: char) -> Option<&str> {
        let mut read = read.to_owned();
        read.push(c);
        let mut longest = None;
        for (at, _) in read.char_indices().chain([(read.len(), ' ')]) {
            if let Some((beginning, is_whole)) = self.beginnings.get_key_value(&read[at..]) {
                if *is_whole {
                    return None;
                }
                longest = longest.or(Some(beginning.as_str()));
            }
        }
        longest
    }
}

struct Found<'a> {
    text: &'a Text,
    markers: &'a Markers,
    states: Vec<State>,
    /// States by what was read of a marker (nothing else: the marker is whole) and their characters.
    known: BTreeMap<(Option<&'a str>, Vec<char>), usize>,
}

impl<'a> Found<'a> {
    /// The states after so much of a marker was read.
    fn after(&mut self, read: &str) -> Vec<usize> {
        let mut by_target: BTreeMap<Option<&'a str>, Vec<char>> = BTreeMap::new();
        for &c in &self.markers.alphabet {
            by_target.entry(self.markers.step(read, c)).or_default().push(c);
        }
        by_target.entry(Some("")).or_default();
        let through = self.text.is_through;
        by_target
            .into_iter()
            .filter(|(target, _)| target.is_some() || through)
            .map(|(target, chars)| self.state(target, chars))
            .collect()
    }

    fn state(&mut self, target: Option<&'a str>, chars: Vec<char>) -> usize {
        if let Some(&state) = self.known.get(&(target, chars.clone())) {
            return state;
        }
        let state = self.states.len();
        let named =
            |chars: &[char]| Chars::of(chars.iter().map(|&c| (c.into(), c.into())).collect());
        let read = if target == Some("") {
            // Every character that no marker goes on with from here.
            let others = self.markers.alphabet.iter().filter(|c| !chars.contains(c)).copied();
            named(&others.collect::<Vec<char>>()).negated()
        } else {
            named(&chars)
        };
        let is_last = target.is_none() || !self.text.is_through;
        self.states.push(State { chars: read, next: Vec::new(), is_last });
        self.known.insert((target, chars), state);
        if let Some(target) = target {
            self.states[state].next = self.after(target);
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(text: &Text, read: &str) -> bool {
        let States { states, first } = text.states();
        let mut here: Option<Vec<usize>> = None;
        for c in read.chars() {
            let from = match &here {
                None => first.clone(),
                Some(here) => here.iter().flat_map(|&state| states[state].next.clone()).collect(),
            };
            let one = Chars::one(c);
            here =
                Some(from.into_iter().filter(|&state| states[state].chars.meets(&one)).collect());
        }
        match here {
            None => !text.is_through,
            Some(here) => here.iter().any(|&state| states[state].is_last),
        }
    }

    #[test]
    fn a_text_without_markers_is_read_and_one_with_a_marker_is_not() {
        let markers = vec!["aab".to_owned(), "ba".to_owned()];
        let text = Text { markers: markers.clone(), is_through: false };
        for bits in 0..4_u32.pow(6) {
            let read: String =
                (0..6).map(|i| ['a', 'b', 'c', 'é'][(bits >> (2 * i) & 3) as usize]).collect();
            let expected = !markers.iter().any(|marker| read.contains(marker));
            assert_eq!(reads(&text, &read), expected, "{read}");
        }
        assert!(reads(&text, ""));
    }

    #[test]
    fn a_text_through_a_marker_ends_with_the_first() {
        let text = Text { markers: vec!["aba".to_owned()], is_through: true };
        for (read, expected) in [
            ("aba", true),
            ("cababb", false),
            ("ababa", false),
            ("xaaba", true),
            ("", false),
            ("ab", false),
        ] {
            assert_eq!(reads(&text, read), expected, "{read}");
        }
    }
}
