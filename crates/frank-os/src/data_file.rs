//! Files that are read at offsets, whole ranges at a time. Never writes, and never interprets a byte.

use std::fs::{File, FileType, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::OsError;

/// A regular file, open for reading. Reads take `&self`: many threads may read at once.
#[derive(Debug)]
pub struct DataFile {
    file: File,
    path: PathBuf,
    bytes: u64,
}

impl DataFile {
    /// Opens a regular file.
    ///
    /// # Errors
    /// [`OsError::Open`] when the system refuses; [`OsError::NotAFile`] for a directory, pipe, socket or device
    /// (a pipe is refused at once, without waiting for a writer).
    pub fn open(path: &Path) -> Result<Self, OsError> {
        let cannot_open = |source| OsError::Open { path: path.to_owned(), source };
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)
            .map_err(cannot_open)?;
        let metadata = file.metadata().map_err(cannot_open)?;
        if !metadata.is_file() {
            return Err(OsError::NotAFile {
                path: path.to_owned(),
                kind: kind_name(metadata.file_type()),
            });
        }
        Ok(Self { file, path: path.to_owned(), bytes: metadata.len() })
    }

    /// Bytes of the file when it was opened.
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Whether the file had no bytes when it was opened.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The path that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Fills all of `buf` with the bytes from `offset`.
    ///
    /// # Errors
    /// [`OsError::PastEnd`] when the file ends before `offset + buf.len()`; [`OsError::Read`] when the system
    /// refuses. The contents of `buf` are unspecified then.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), OsError> {
        let want = buf.len() as u64;
        self.file.read_exact_at(buf, offset).map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => {
                OsError::PastEnd { path: self.path.clone(), offset, want }
            }
            _ => OsError::Read { path: self.path.clone(), offset, want, source },
        })
    }
}

fn kind_name(file_type: FileType) -> &'static str {
    if file_type.is_dir() {
        "directory"
    } else if file_type.is_fifo() {
        "pipe"
    } else if file_type.is_socket() {
        "socket"
    } else {
        "device"
    }
}
