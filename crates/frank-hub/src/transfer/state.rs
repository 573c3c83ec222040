//! What an answer calls the state of its file: a strong `ETag`, or else when it was changed last. Pure; never asks.

use std::time::{Duration, SystemTime};

use httpdate::parse_http_date;

/// How much older than the answer a `Last-Modified` has to be: within the same second the file may have been changed twice
/// (RFC 9110, 8.8.2.2).
const SETTLED: Duration = Duration::from_secs(1);

/// What an answer calls the state of its file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    /// The strong `ETag`, with its quotes: of equal ones every byte is equal.
    pub(super) etag: Option<String>,
    /// When the file was changed last.
    pub(super) modified: Option<LastModified>,
}

/// A `Last-Modified` that is a date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LastModified {
    /// The date as it was sent, which a server compares letter by letter.
    pub(super) text: String,
    time: SystemTime,
    /// Whether no change can hide behind it.
    pub(super) is_settled: bool,
}

impl State {
    /// Of the headers `ETag`, `Last-Modified` and `Date`.
    pub(super) fn of(etag: Option<&str>, modified: Option<&str>, date: Option<&str>) -> State {
        let date = date.and_then(|date| parse_http_date(date).ok());
        let is_settled = |time: SystemTime| {
            date.zip(time.checked_add(SETTLED)).is_some_and(|(date, settled)| settled <= date)
        };
        let modified = modified.and_then(LastModified::settled);
        State {
            etag: strong(etag).map(str::to_owned),
            modified: modified
                .map(|known| LastModified { is_settled: is_settled(known.time), ..known }),
        }
    }

    /// Whether an answer of state `new` is for certain of another file than one of this state.
    pub(super) fn differs(&self, new: &State) -> bool {
        if let (Some(known), Some(new)) = (&self.etag, &new.etag) {
            return known != new;
        }
        let times = self.modified.as_ref().zip(new.modified.as_ref());
        times.is_some_and(|(known, new)| known.time != new.time)
    }

    /// Whether every byte is the same as long as the state is.
    pub(super) fn is_strong(&self) -> bool {
        self.if_range().is_some()
    }

    /// What a request for a range makes its condition.
    pub(super) fn if_range(&self) -> Option<&str> {
        let modified = self.modified.as_ref().filter(|modified| modified.is_settled);
        self.etag.as_deref().or(modified.map(|modified| modified.text.as_str()))
    }

    /// This state, and what `first` knew of it before.
    pub(super) fn or(self, first: State) -> State {
        // The first time counts: what came with it may be of an earlier change in the same second.
        State { etag: self.etag.or(first.etag), modified: first.modified.or(self.modified) }
    }
}

impl LastModified {
    /// A date behind which no change hides; `None` where it is none.
    pub(super) fn settled(text: &str) -> Option<LastModified> {
        let time = parse_http_date(text).ok()?;
        Some(LastModified { text: text.to_owned(), time, is_settled: true })
    }
}

/// The `ETag` when it is a strong one: of equal ones every byte is equal.
fn strong(etag: Option<&str>) -> Option<&str> {
    etag.filter(|etag| etag.len() > 2 && etag.starts_with('"') && etag.ends_with('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "Wed, 21 Oct 2015 07:28:00 GMT";
    const NEXT: &str = "Wed, 21 Oct 2015 07:28:01 GMT";

    fn of(etag: &'static str, modified: &'static str, date: &'static str) -> State {
        let some = |text: &'static str| Some(text).filter(|text| !text.is_empty());
        State::of(some(etag), some(modified), some(date))
    }

    #[test]
    fn only_strong_etags_count() {
        assert_eq!(strong(Some("\"a\"")), Some("\"a\""));
        for weak in ["W/\"a\"", "a", "\"\"", ""] {
            assert_eq!(strong(Some(weak)), None);
        }
    }

    #[test]
    fn a_time_is_a_condition_only_when_the_answer_is_a_second_younger() {
        assert_eq!(of("", OLD, NEXT).if_range(), Some(OLD));
        for (modified, date) in [(OLD, OLD), (NEXT, OLD), (OLD, ""), ("soon", NEXT), ("", NEXT)] {
            assert_eq!(of("", modified, date).if_range(), None, "{modified} {date}");
        }
        assert_eq!(of("\"a\"", OLD, NEXT).if_range(), Some("\"a\""), "a strong ETag is better");
        assert_eq!(of("W/\"a\"", OLD, NEXT).if_range(), Some(OLD));
    }

    #[test]
    fn a_state_differs_by_its_etag_and_else_by_its_time() {
        for (known, new, expected) in [
            (of("\"a\"", OLD, NEXT), of("\"b\"", OLD, NEXT), true),
            (of("\"a\"", OLD, NEXT), of("\"a\"", NEXT, NEXT), false),
            (of("\"a\"", OLD, NEXT), of("", NEXT, NEXT), true),
            (of("", OLD, OLD), of("", NEXT, NEXT), true),
            (of("", OLD, OLD), of("", OLD, NEXT), false),
            (of("", OLD, NEXT), of("", "", NEXT), false),
            (State::default(), of("\"a\"", OLD, NEXT), false),
        ] {
            assert_eq!(known.differs(&new), expected, "{known:?} {new:?}");
        }
    }

    #[test]
    fn a_time_that_was_not_settled_at_first_never_becomes_a_condition() {
        let first = of("", OLD, OLD);
        assert_eq!(of("", OLD, NEXT).or(first).if_range(), None);
        assert_eq!(of("", OLD, NEXT).or(State::default()).if_range(), Some(OLD));
    }
}
