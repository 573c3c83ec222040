//! What the mock hub was asked and what it sent, and whoever waits for a number of bytes. Never a socket.

use std::fmt;
use std::ops::Range;
use std::sync::Mutex;

use super::message::Head;
use super::shelf::Shelf;

/// Which of the two hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// The hub itself, which tokens are for.
    Hub,
    /// Where large files come from, which no token is for.
    Storage,
}

/// A request and what became of it.
#[derive(Debug, Clone)]
pub struct Request {
    /// Who was asked.
    pub host: Host,
    /// `GET`, `HEAD` or another method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Names in lower case, in the order they came in.
    pub headers: Vec<(String, String)>,
    /// Path in its repository of the file that was asked for.
    pub file: Option<String>,
    /// Status of the answer; 0 before there is one.
    pub status: u16,
    /// The bytes of the file that were sent.
    pub sent: Range<u64>,
}

impl Request {
    /// The value of a header, whose name is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(held, _)| held == name).map(|(_, value)| value.as_str())
    }
}

/// The requests so far.
#[derive(Debug, Default)]
pub(super) struct Record(Mutex<Vec<Request>>);

impl Record {
    /// Notes a request, and returns its number.
    pub(super) fn begin(&self, host: Host, head: &Head) -> usize {
        let mut requests = self.0.lock().expect("nobody panics with the record");
        requests.push(Request {
            host,
            method: head.method.clone(),
            target: head.target.clone(),
            headers: head.headers.clone(),
            file: None,
            status: 0,
            sent: 0..0,
        });
        requests.len() - 1
    }

    pub(super) fn change(&self, number: usize, change: impl FnOnce(&mut Request)) {
        change(&mut self.0.lock().expect("nobody panics with the record")[number]);
    }

    pub(super) fn all(&self) -> Vec<Request> {
        self.0.lock().expect("nobody panics with the record").clone()
    }
}

type Act = Box<dyn FnOnce(&Shelf) + Send>;

/// Counts the bytes of files that are sent, and acts when there are so many.
#[derive(Default)]
pub(super) struct Meter(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    bytes: u64,
    waiting: Vec<(u64, Act)>,
}

impl Meter {
    /// Lets `act` run when `bytes` bytes were sent. Nobody sends any more before it has returned.
    pub(super) fn at(&self, bytes: u64, act: Act) {
        self.0.lock().expect("nobody panics with the meter").waiting.push((bytes, act));
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.lock().expect("nobody panics with the meter").bytes
    }

    /// Says how many of `wanted` bytes may be sent now, and counts them as sent.
    pub(super) fn grant(&self, wanted: u64, shelf: &Shelf) -> u64 {
        let mut counted = self.0.lock().expect("nobody panics with the meter");
        while let Some(due) = counted.waiting.iter().position(|(at, _)| *at <= counted.bytes) {
            let (_, act) = counted.waiting.swap_remove(due);
            act(shelf);
        }
        let left = counted.waiting.iter().map(|(at, _)| at - counted.bytes).min();
        let granted = wanted.min(left.unwrap_or(u64::MAX));
        counted.bytes += granted;
        granted
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Meter({} bytes)", self.bytes())
    }
}
