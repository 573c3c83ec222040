//! What tells that somebody wrote to an open file: its size, its times, and what else moves them. Never reads a byte of
//! it.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Seconds and nanoseconds.
type Time = (i64, i64);

/// An open file at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileState {
    bytes: u64,
    /// When it was written to last. Whoever may write to the file may set this to any time.
    written: Time,
    /// When anything about it was changed last, its bytes and the time above included. The system alone sets this.
    touched: Time,
    facts: Facts,
}

/// What can be changed of a file without its bytes, and moves [`FileState::touched`] too.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Facts {
    mode: u32,
    owner: (u32, u32),
    n_links: u64,
    /// Where it is now; `None` when the system does not say.
    path: Option<PathBuf>,
}

impl FileState {
    /// The state of `file` now.
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        let mut path = path_now(file);
        loop {
            let metadata = file.metadata()?;
            // A file that is moved meanwhile would have its new time with its old path.
            let path_after = path_now(file);
            if path_after == path {
                return Ok(Self::new(&metadata, path));
            }
            path = path_after;
        }
    }

    fn new(metadata: &Metadata, path: Option<PathBuf>) -> Self {
        let facts = Facts {
            mode: metadata.mode(),
            owner: (metadata.uid(), metadata.gid()),
            n_links: metadata.nlink(),
            path,
        };
        let (bytes, written, touched) = sizes_and_times(metadata);
        Self { bytes, written, touched, facts }
    }

    /// Whether nothing was done to the file since; `metadata` is what the system says of it now.
    pub(crate) fn is_as(&self, metadata: &Metadata) -> bool {
        (self.bytes, self.written, self.touched) == sizes_and_times(metadata)
    }

    /// Whether what became of the file until `later` leaves its bytes as they were: it was moved, replaced under its path,
    /// linked, or given away.
    pub(crate) fn has_its_bytes(&self, later: &Self) -> bool {
        let is_written = (self.bytes, self.written) != (later.bytes, later.written);
        !is_written && (self.touched == later.touched || self.facts != later.facts)
    }
}

fn sizes_and_times(metadata: &Metadata) -> (u64, Time, Time) {
    let written = (metadata.mtime(), metadata.mtime_nsec());
    let touched = (metadata.ctime(), metadata.ctime_nsec());
    (metadata.len(), written, touched)
}

fn path_now(file: &File) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A state after `change` of one that was touched at second 1.
    fn check(expected: bool, change: impl FnOnce(&mut FileState)) {
        let facts = Facts { mode: 0o644, owner: (1, 2), n_links: 1, path: Some("/a".into()) };
        let before = FileState { bytes: 10, written: (1, 0), touched: (1, 0), facts };
        let mut later = before.clone();
        change(&mut later);
        assert_eq!(before.has_its_bytes(&later), expected, "{later:?}");
    }

    #[test]
    fn a_time_that_nothing_but_a_write_explains_is_a_write() {
        check(true, |_| {});
        check(false, |state| state.touched = (1, 1));
        check(false, |state| state.written = (0, 9));
        check(false, |state| state.bytes = 9);
    }

    #[test]
    fn a_time_that_was_moved_by_something_else_is_none() {
        check(true, |state| (state.touched, state.facts.n_links) = ((1, 1), 0));
        check(true, |state| (state.touched, state.facts.path) = ((1, 1), Some("/b".into())));
        check(true, |state| (state.touched, state.facts.mode) = ((1, 1), 0o600));
        check(false, |state| {
            (state.touched, state.written, state.facts.n_links) = ((1, 1), (1, 1), 2);
        });
    }
}
