//! How the mock hub misbehaves: which answers, how often, and in what way. Never a socket.

use std::sync::Mutex;
use std::time::Duration;

use super::message::Answer;

/// What goes wrong with an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// This is answered instead.
    Answer(Answer),
    /// This is answered to a request without `Range`; others are served as ever.
    WithoutRange(Answer),
    /// The whole file is sent with status 200, whatever range was asked for.
    IgnoreRange,
    /// The whole file is sent with status 200 and without its length; the connection ends behind it.
    NoLength,
    /// The range that is sent, and said to be sent, begins this many bytes after the one that was asked for.
    ShiftRange(u64),
    /// The connection is closed after this many bytes of the body.
    Cut(u64),
    /// After this many bytes of the body nothing follows, and the connection stays open.
    Stall(u64),
    /// The body comes in pieces of so many bytes with a pause before each.
    Slow {
        /// Size of a piece.
        bytes: usize,
        /// The pause before it.
        pause: Duration,
    },
    /// The bytes at these offsets of the file are sent wrong. Applies to requests that want one of them.
    Flip(Vec<u64>),
}

/// Which answers a fault is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The programming interface of the hub: revisions and listings.
    Api,
    /// The hub's first answer for a file, which says where its bytes are.
    Resolve,
    /// The answer with the bytes of a file.
    Bytes,
}

/// A fault, where it happens and how often.
#[derive(Debug, Clone)]
pub struct Rule {
    place: Place,
    path: String,
    fault: Fault,
    spared: u32,
    times: u32,
}

impl Rule {
    /// `fault` happens in every answer at `place` for the file at `path`. For [`Place::Api`] the path is that of the
    /// request, and a part of it is enough: `/tree/`.
    pub fn new(place: Place, path: &str, fault: Fault) -> Rule {
        let answers = matches!(fault, Fault::Answer(_) | Fault::WithoutRange(_));
        assert!(answers || place == Place::Bytes, "{fault:?} is about bytes, not about {place:?}");
        Rule { place, path: path.to_owned(), fault, spared: 0, times: u32::MAX }
    }

    /// It happens so often, and then never again.
    #[must_use]
    pub fn times(self, times: u32) -> Rule {
        Rule { times, ..self }
    }

    /// So many answers go well before it happens.
    #[must_use]
    pub fn sparing(self, spared: u32) -> Rule {
        Rule { spared, ..self }
    }
}

/// A request as rules look at it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Circumstances<'a> {
    pub(super) place: Place,
    pub(super) path: &'a str,
    /// Whether the request names a range.
    pub(super) ranged: bool,
    /// The bytes that it wants, from the first up to, and without, the second.
    pub(super) wanted: (u64, u64),
}

/// The rules in force.
#[derive(Debug, Default)]
pub(super) struct Rules(Mutex<Vec<Rule>>);

impl Rules {
    pub(super) fn add(&self, rule: Rule) {
        self.0.lock().expect("no rule panics").push(rule);
    }

    pub(super) fn clear(&self) {
        self.0.lock().expect("no rule panics").clear();
    }

    /// The first fault that applies to a request, which is counted.
    pub(super) fn strike(&self, request: Circumstances<'_>) -> Option<Fault> {
        let mut rules = self.0.lock().expect("no rule panics");
        let rule = rules.iter_mut().find(|rule| rule.applies(request))?;
        if rule.spared > 0 {
            rule.spared -= 1;
            return None;
        }
        rule.times -= 1;
        Some(rule.fault.clone())
    }
}

impl Rule {
    fn applies(&self, request: Circumstances<'_>) -> bool {
        let named = match self.place {
            Place::Api => request.path.contains(&self.path),
            Place::Resolve | Place::Bytes => request.path == self.path,
        };
        let (begin, end) = request.wanted;
        let concerned = match &self.fault {
            Fault::WithoutRange(_) => !request.ranged,
            Fault::Flip(offsets) => offsets.iter().any(|offset| (begin..end).contains(offset)),
            Fault::Answer(_)
            | Fault::IgnoreRange
            | Fault::NoLength
            | Fault::ShiftRange(_)
            | Fault::Cut(_)
            | Fault::Stall(_)
            | Fault::Slow { .. } => true,
        };
        self.times > 0 && self.place == request.place && named && concerned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(path: &str, wanted: (u64, u64)) -> Circumstances<'_> {
        Circumstances { place: Place::Bytes, path, ranged: true, wanted }
    }

    #[test]
    fn a_rule_spares_then_strikes_so_often_as_it_says() {
        let rules = Rules::default();
        rules.add(Rule::new(Place::Bytes, "a", Fault::IgnoreRange).sparing(1).times(2));
        let struck: Vec<_> = (0..5).map(|_| rules.strike(request("a", (0, 1))).is_some()).collect();
        assert_eq!(struck, [false, true, true, false, false]);
        assert!(rules.strike(request("b", (0, 1))).is_none());
    }

    #[test]
    fn a_flip_is_used_up_only_by_a_request_that_wants_its_byte() {
        let rules = Rules::default();
        rules.add(Rule::new(Place::Bytes, "a", Fault::Flip(vec![100])).times(1));
        assert!(rules.strike(request("a", (0, 100))).is_none());
        assert!(rules.strike(request("a", (100, 101))).is_some());
        assert!(rules.strike(request("a", (100, 101))).is_none());
    }
}
