//! What can fail when the operating system is asked for something. Never says what to do about it.

use std::fs::FileType;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::read_queue::IoBackend;

/// A refused request to the operating system, with the place and the number that matter.
#[derive(Debug, thiserror::Error)]
pub enum OsError {
    /// The file cannot be opened.
    #[error("cannot open {}", path.display())]
    Open {
        /// The file asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The path names something that has no bytes at offsets.
    #[error("{} is a {kind}, not a file", path.display())]
    NotAFile {
        /// The path asked for.
        path: PathBuf,
        /// What it is instead: `directory`, `pipe`, `socket` or `device`.
        kind: &'static str,
    },
    /// A read failed.
    #[error("cannot read {want} bytes at offset {offset} of {}", path.display())]
    Read {
        /// The file read from.
        path: PathBuf,
        /// First byte asked for.
        offset: u64,
        /// Bytes asked for.
        want: u64,
        /// What the system said.
        source: io::Error,
    },
    /// A read reached past the end of the file.
    #[error("{} ends before offset {offset} + {want} bytes", path.display())]
    PastEnd {
        /// The file read from.
        path: PathBuf,
        /// First byte asked for.
        offset: u64,
        /// Bytes asked for.
        want: u64,
    },
    /// The file is not what it was when it was opened.
    #[error("{} was changed while it was in use: {was} bytes then, {bytes} now", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// Its bytes when it was opened.
        was: u64,
        /// Its bytes now; where they are as many, it was written to.
        bytes: u64,
    },
    /// The system has no such way to read for this process.
    #[error("cannot read files with {backend}")]
    Backend {
        /// The way asked for.
        backend: IoBackend,
        /// What the system said.
        source: io::Error,
    },
    /// The system has no way to read at all for this process.
    #[error("cannot read files: {refused}")]
    NoBackend {
        /// Each way, and what the system said.
        refused: String,
    },
    /// A write failed.
    #[error("cannot write at offset {offset} of a file in {}", path.display())]
    Write {
        /// The folder of the file.
        path: PathBuf,
        /// First byte to write.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The address space or the system's commit limit has no room.
    #[error("cannot reserve {bytes} bytes of memory")]
    Map {
        /// Bytes asked for.
        bytes: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The pages of a reserved buffer cannot be had.
    #[error("cannot fill {bytes} bytes of memory with pages")]
    Populate {
        /// Bytes of the buffer.
        bytes: u64,
        /// What the system said.
        source: io::Error,
    },
    /// A file of facts under `/proc` cannot be read.
    #[error("cannot read {path}")]
    Proc {
        /// The file.
        path: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A file of facts under `/proc` lacks a field, or has it in another form.
    #[error("{path} has no `{field}` in kB")]
    ProcField {
        /// The file.
        path: &'static str,
        /// The missing field.
        field: &'static str,
    },
    /// The file system cannot be asked for its free space.
    #[error("cannot ask for the free space of {}", path.display())]
    Disk {
        /// A path on that file system.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl OsError {
    /// [`OsError::NotAFile`] for `path`, which names something of this type.
    #[must_use]
    pub fn not_a_file(path: &Path, file_type: FileType) -> Self {
        let kind = if file_type.is_dir() {
            "directory"
        } else if file_type.is_fifo() {
            "pipe"
        } else if file_type.is_socket() {
            "socket"
        } else {
            "device"
        };
        Self::NotAFile { path: path.to_owned(), kind }
    }
}

/// What the system said about opening the file, where that is all there is to say: whoever asked knows the path.
impl From<OsError> for io::Error {
    fn from(error: OsError) -> Self {
        match error {
            OsError::Open { source, .. } => source,
            other => io::Error::other(other),
        }
    }
}
