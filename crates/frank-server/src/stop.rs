//! Stop texts: cut an answer where one appears, and never send what may turn out to be one. Works on text, so
//! that it does not matter how the text was cut into tokens.

/// Finds the first of several texts in text that arrives in pieces.
///
/// The first is the one that ends first; of those that end together, the longest. What is sent is therefore the
/// same however the text was cut.
#[derive(Debug)]
pub(crate) struct StopMatcher {
    patterns: Vec<Pattern>,
    /// Text that was not passed on: a start of at least one stop text.
    held: String,
}

/// What [`StopMatcher::push`] gives.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Text that is certainly part of the answer; may be empty.
    pub(crate) text: String,
    /// The stop text that followed it. Nothing more may be pushed then.
    pub(crate) stop: Option<String>,
}

impl StopMatcher {
    /// # Panics
    /// When a stop text is empty.
    pub(crate) fn new(stops: &[String]) -> Self {
        Self {
            patterns: stops.iter().map(|stop| Pattern::new(stop)).collect(),
            held: String::new(),
        }
    }

    /// Adds a piece of the answer.
    pub(crate) fn push(&mut self, piece: &str) -> Passed {
        let n_held = self.held.len();
        self.held.push_str(piece);
        for (at, byte) in piece.bytes().enumerate() {
            if let Some(stop_bytes) = self.advance(byte) {
                self.held.truncate(n_held + at + 1);
                let stop = self.held.split_off(self.held.len() - stop_bytes);
                return Passed { text: std::mem::take(&mut self.held), stop: Some(stop) };
            }
        }
        let hold = self.patterns.iter().map(|pattern| pattern.matched).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - hold);
        Passed { text: std::mem::replace(&mut self.held, rest), stop: None }
    }

    /// Ends the answer, or a part of it: what was held back belongs to it after all, and begins no stop text.
    pub(crate) fn finish(&mut self) -> String {
        self.patterns.iter_mut().for_each(|pattern| pattern.matched = 0);
        std::mem::take(&mut self.held)
    }

    /// Length of the longest stop text that `byte` completes.
    fn advance(&mut self, byte: u8) -> Option<usize> {
        self.patterns
            .iter_mut()
            .filter_map(|pattern| pattern.advance(byte).then_some(pattern.bytes.len()))
            .max()
    }
}

/// One stop text, matched byte by byte without looking back (Knuth, Morris and Pratt).
#[derive(Debug)]
struct Pattern {
    bytes: Vec<u8>,
    /// For each prefix, the length of its longest proper suffix that is a prefix again; index is length - 1.
    borders: Vec<usize>,
    /// Bytes of the pattern that the text so far ends with.
    matched: usize,
}

impl Pattern {
    fn new(text: &str) -> Self {
        assert!(!text.is_empty(), "a stop text must not be empty");
        let bytes = text.as_bytes().to_vec();
        let mut borders = vec![0; bytes.len()];
        let mut border = 0;
        for end in 1..bytes.len() {
            while border > 0 && bytes[end] != bytes[border] {
                border = borders[border - 1];
            }
            if bytes[end] == bytes[border] {
                border += 1;
            }
            borders[end] = border;
        }
        Self { bytes, borders, matched: 0 }
    }

    /// Whether `byte` completes the pattern.
    fn advance(&mut self, byte: u8) -> bool {
        while self.matched > 0 && self.bytes[self.matched] != byte {
            self.matched = self.borders[self.matched - 1];
        }
        if self.bytes[self.matched] == byte {
            self.matched += 1;
        }
        self.matched == self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Everything that is sent for `pieces`, and whether a stop text ended it.
    fn run(pieces: &[&str], stops: &[&str]) -> (String, bool) {
        let stops: Vec<String> = stops.iter().map(ToString::to_string).collect();
        let mut matcher = StopMatcher::new(&stops);
        let mut sent = String::new();
        for piece in pieces {
            let passed = matcher.push(piece);
            sent.push_str(&passed.text);
            if passed.stop.is_some() {
                return (sent, true);
            }
        }
        sent.push_str(&matcher.finish());
        (sent, false)
    }

    /// `text` up to the stop text that ends first, the longest of those that end together.
    fn cut(text: &str, stops: &[&str]) -> (String, bool) {
        let found = stops
            .iter()
            .filter_map(|stop| text.find(stop).map(|start| (start + stop.len(), start)));
        match found.min() {
            Some((_, start)) => (text[..start].to_owned(), true),
            None => (text.to_owned(), false),
        }
    }

    fn check(pieces: &[&str], stops: &[&str], expected: &str, stopped: bool) {
        assert_eq!(run(pieces, stops), (expected.to_owned(), stopped), "{pieces:?} with {stops:?}");
    }

    #[test]
    fn a_stop_text_over_several_pieces_cuts_the_answer() {
        check(&["A B C ", "O", " P", " Q R"], &["O P Q"], "A B C ", true);
        check(&["ABC", "DEFG", "HIJK"], &["DEFGHIJ"], "ABC", true);
        check(&["ABC", "DEFG", "HIX"], &["DEFGHIJ"], "ABCDEFGHIX", false);
        check(&["aaa", "ab"], &["aab"], "aa", true);
        check(&["abab", "ac"], &["abac"], "ab", true);
        check(&["x", "y"], &[], "xy", false);
        check(&["né", "é!"], &["éé"], "n", true);
        check(&["\u{1F600}", "\u{1F601}"], &["\u{1F601}"], "\u{1F600}", true);
    }

    #[test]
    fn of_several_stop_texts_the_first_to_end_wins_and_then_the_longest() {
        check(&["xabcd"], &["abcd", "bc"], "xa", true);
        check(&["xabcd"], &["bc", "abc"], "x", true);
        check(&["x\n\n"], &["\n\n", "\n"], "x", true);
    }

    #[test]
    fn text_that_may_start_a_stop_text_is_held_back_and_no_more() {
        let mut matcher = StopMatcher::new(&["DEFGHIJ".to_owned()]);
        assert_eq!(matcher.push("ABCDEF"), Passed { text: "ABC".to_owned(), stop: None });
        assert_eq!(matcher.push("GX"), Passed { text: "DEFGX".to_owned(), stop: None });
        assert_eq!(matcher.push("D"), Passed { text: String::new(), stop: None });
        assert_eq!(matcher.finish(), "D");
    }

    #[test]
    fn what_was_let_go_between_two_parts_does_not_end_the_second() {
        let mut matcher = StopMatcher::new(&["ab".to_owned()]);
        assert_eq!(matcher.push("xa").text, "x");
        assert_eq!(matcher.finish(), "a");
        assert_eq!(matcher.push("b"), Passed { text: "b".to_owned(), stop: None });
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_sent_does_not_depend_on_how_the_text_was_cut(
            pieces in prop::collection::vec("[ab\u{e9}]{0,4}", 0..12),
            stops in prop::collection::vec("[ab\u{e9}]{1,5}", 0..4),
        ) {
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
            prop_assert_eq!(run(&pieces, &stops), cut(&pieces.concat(), &stops));
        }
    }
}
