//! By what a file is known that nobody touched since its digest was taken. Never reads a byte of it.
//!
//! A time of modification can be set back by whoever changed the bytes, and the time of change cannot; a file that was put
//! in the place of another has a number of its own. All three together cost no more to look at than one.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

/// What the system says of a file beside its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// When its bytes were changed, in nanoseconds since 1970; 0 where that does not fit.
    pub(crate) modified_ns: i64,
    /// When anything about it was changed, likewise; a new name or link counts.
    pub(crate) changed_ns: i64,
    /// Its number on its drive, of which TOML holds the bits as a signed number.
    pub(crate) inode: i64,
}

impl Stamp {
    pub(crate) fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            modified_ns: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
            inode: metadata.ino().cast_signed(),
        }
    }

    /// Whether at most its name or its links are others than at `before`.
    pub(crate) fn is_only_renamed(&self, before: Stamp) -> bool {
        (self.modified_ns, self.inode) == (before.modified_ns, before.inode)
    }
}

fn nanoseconds(seconds: i64, rest: i64) -> i64 {
    let all = seconds.checked_mul(1_000_000_000).and_then(|all| all.checked_add(rest));
    all.filter(|&all| all > 0).unwrap_or(0)
}
