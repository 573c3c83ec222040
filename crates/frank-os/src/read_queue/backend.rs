//! What the ways of reading have in common: the memory they fill, the descriptors they read, and single transfers.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use crate::data_file::DataFile;
use crate::error::OsError;
use crate::memory::AnonBuffer;

/// How reads reach the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoBackend {
    /// Many reads are handed to the kernel at once.
    Uring,
    /// A few threads that each wait for a read.
    Pread,
    /// Files are mapped, and bytes are copied out of the mapping.
    Mmap,
}

impl IoBackend {
    /// Whether reads go on while the program does something else. Out of a map bytes are copied when they are asked for,
    /// by the thread that asks.
    #[must_use]
    pub fn runs_beside(self) -> bool {
        self != Self::Mmap
    }
}

impl fmt::Display for IoBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uring => "io_uring",
            Self::Pread => "pread",
            Self::Mmap => "mmap",
        })
    }
}

/// One request to the system; a read is one or more of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transfer {
    /// The read that it belongs to.
    pub(super) slot: usize,
    pub(super) file: usize,
    /// Past the page cache: `offset`, `place` and `len` are aligned then.
    pub(super) direct: bool,
    pub(super) offset: u64,
    /// Where in the staging memory the bytes go.
    pub(super) place: usize,
    pub(super) len: usize,
}

/// A transfer that the system is done with.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) slot: usize,
    /// Bytes that came, 0 at the end of the file.
    pub(super) result: io::Result<usize>,
}

/// A way of reading. What it was given and has not ended is under way.
pub(super) trait Transfers: fmt::Debug + Send {
    /// Takes a transfer; there are never more than [`super::DEPTH`].
    fn push(&mut self, transfer: Transfer);
    /// Hands the system all that was pushed.
    fn submit(&mut self);
    /// One transfer that ended; with `wait`, which takes one under way, until there is one. Hands over what was pushed
    /// before it waits.
    fn next(&mut self, wait: bool) -> Option<Ended>;
}

/// The memory that transfers fill. Backends share it, so that it outlives what they do.
#[derive(Debug)]
pub(super) struct Staging(AnonBuffer);

impl Staging {
    /// Takes memory for `bytes`, all of it now.
    pub(super) fn new(bytes: usize) -> Result<Self, OsError> {
        let mut memory = AnonBuffer::new(AnonBuffer::occupied(bytes as u64))?;
        memory.populate()?;
        Ok(Self(memory))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Where a transfer writes: `len` bytes from `place`, which lie within the memory.
    pub(super) fn target(&self, place: usize, len: usize) -> *mut u8 {
        assert!(
            place.checked_add(len).is_some_and(|end| end <= self.len()),
            "{place} + {len} bytes"
        );
        self.0.start().wrapping_add(place)
    }

    /// The bytes from `place`.
    ///
    /// # Safety
    /// No transfer writes there while the slice is used.
    pub(super) unsafe fn bytes(&self, place: usize, len: usize) -> &[u8] {
        let start = self.target(place, len);
        // SAFETY: `target` checked that the range lies within the mapping, whose bytes are zeroes or what was read; the
        // caller says that nothing writes to them.
        unsafe { std::slice::from_raw_parts(start, len) }
    }
}

/// The files of a queue, each open through the page cache and, where the system agrees, past it.
#[derive(Debug)]
pub(super) struct Files(Vec<(Arc<DataFile>, Option<File>)>);

impl Files {
    /// Opens each file a second time, past the page cache. Says what was refused, and why.
    pub(super) fn open(files: &[Arc<DataFile>], refuse: bool) -> (Self, Option<String>) {
        let mut refused = None;
        let open = |file: &Arc<DataFile>| {
            let direct = if refuse {
                Err(io::Error::from_raw_os_error(libc::EINVAL))
            } else {
                file.open_direct()
            };
            let direct = direct
                .map_err(|error| {
                    refused.get_or_insert_with(|| direct_refusal(file, &error));
                })
                .ok();
            (Arc::clone(file), direct)
        };
        (Self(files.iter().map(open).collect()), refused)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn data(&self, file: usize) -> &DataFile {
        &self.0[file].0
    }

    pub(super) fn has_direct(&self, file: usize) -> bool {
        self.0[file].1.is_some()
    }

    /// The descriptor for reads of one kind; that of the page cache where there is no other.
    pub(super) fn descriptor(&self, file: usize, direct: bool) -> RawFd {
        match &self.0[file] {
            (_, Some(file)) if direct => file.as_raw_fd(),
            (data, _) => data.descriptor(),
        }
    }
}

/// Why reads of a file go through the page cache.
pub(super) fn direct_refusal(file: &DataFile, error: &io::Error) -> String {
    format!(
        "reads of {} go through the page cache: O_DIRECT refused: {error}",
        file.path().display()
    )
}
