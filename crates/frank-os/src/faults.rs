//! Failures that a test asks for, most of them of a [`crate::ReadQueue`]. Never any by default, and never from outside of
//! a release build.

use std::io;

/// Reads of a queue that something happens to, counted as they are handed to the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultWindow {
    /// Reads that go well before.
    pub after: u64,
    /// Reads that it happens to then; all are well again after them.
    pub times: u64,
}

impl FaultWindow {
    /// Whether it happens to read number `read`, from 0.
    pub(crate) fn holds(self, read: u64) -> bool {
        read >= self.after && read - self.after < self.times
    }
}

/// Failures that are made where the system would make them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// These reads fail with `EIO`.
    pub read_error: Option<FaultWindow>,
    /// The system is asked for half of what is wanted in these reads.
    pub short_read: Option<FaultWindow>,
    /// No file can be opened past the page cache.
    pub direct_refused_at_open: bool,
    /// Files open past the page cache, and reads of them fail with `EINVAL`.
    pub direct_refused_at_transfer: bool,
    /// There is no `io_uring`.
    pub uring_refused: bool,
    /// `io_uring` cannot hold the staging memory in place.
    pub registering_refused: bool,
    /// The system gives the process no more threads.
    pub threads_refused: bool,
}

impl Faults {
    /// The faults that `FRANK_FAULTS` names, separated by commas, in builds with debug assertions; none in others.
    ///
    /// `read-error:100` lets 100 reads of a queue pass and fails all later ones, `read-error:100+5` fails five and lets
    /// the rest pass; `short-read` counts as well. `direct-refused-at-open`, `direct-refused-at-transfer`,
    /// `uring-refused`, `registering-refused` and `threads-refused` take no number. Other names are left alone.
    #[must_use]
    pub fn from_env() -> Self {
        if !cfg!(debug_assertions) {
            return Self::default();
        }
        Self::parse(&std::env::var("FRANK_FAULTS").unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let mut faults = Self::default();
        for fault in text.split(',').map(str::trim) {
            let (name, window) = fault.split_once(':').unwrap_or((fault, "0"));
            match name {
                "read-error" => faults.read_error = parse_window(window),
                "short-read" => faults.short_read = parse_window(window),
                "direct-refused-at-open" => faults.direct_refused_at_open = true,
                "direct-refused-at-transfer" => faults.direct_refused_at_transfer = true,
                "uring-refused" => faults.uring_refused = true,
                "registering-refused" => faults.registering_refused = true,
                "threads-refused" => faults.threads_refused = true,
                _ => {}
            }
        }
        faults
    }

    /// Whether a thread may be started now.
    ///
    /// # Errors
    /// What the system says at its limit of threads, where a test asks for it.
    pub fn thread(&self) -> io::Result<()> {
        if self.threads_refused {
            return Err(io::Error::from_raw_os_error(libc::EAGAIN));
        }
        Ok(())
    }
}

/// `100` or `100+5`.
fn parse_window(text: &str) -> Option<FaultWindow> {
    let (after, times) = match text.split_once('+') {
        Some((after, times)) => (after, times.parse().ok()?),
        None => (text, u64::MAX),
    };
    Some(FaultWindow { after: after.parse().ok()?, times })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_named_with_their_window() {
        let faults = Faults::parse("read-error:100+5, uring-refused,no-space,short-read:3");
        assert_eq!(faults.read_error, Some(FaultWindow { after: 100, times: 5 }));
        assert_eq!(faults.short_read, Some(FaultWindow { after: 3, times: u64::MAX }));
        assert!(faults.uring_refused && !faults.direct_refused_at_open);
        assert_eq!(Faults::parse(""), Faults::default());
    }

    #[test]
    fn a_window_opens_and_closes() {
        let window = FaultWindow { after: 2, times: 2 };
        assert_eq!([1, 2, 3, 4].map(|read| window.holds(read)), [false, true, true, false]);
        assert!(FaultWindow { after: 1, times: u64::MAX }.holds(u64::MAX));
    }
}
