//! Why an answer is long in coming, for whoever waits for it. Never waits itself.

use std::fmt;
use std::time::Duration;

use super::error::HttpError;

/// Why an answer is long in coming.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delay {
    /// A request failed in passing, and is sent again.
    Retry {
        /// How it failed.
        error: HttpError,
        /// Which try comes next: the first of them is 2.
        attempt: u32,
        /// The pause before it.
        pause: Duration,
    },
    /// The answer is not here yet, and still waited for.
    Silence {
        /// Host and port.
        host: String,
        /// How long it has been waited for.
        after: Duration,
    },
}

impl fmt::Display for Delay {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Delay::Retry { error, attempt, pause } => {
                write!(out, "try {attempt} in {:.1} s: {error}", pause.as_secs_f64())
            }
            Delay::Silence { host, after } => {
                write!(
                    out,
                    "waiting for {host}: no whole answer after {:.1} s",
                    after.as_secs_f64()
                )
            }
        }
    }
}
