//! Files that are read at offsets, whole ranges at a time. Never writes, and never interprets a byte.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::error::OsError;
use crate::file_state::FileState;
use crate::memory::PAGE_BYTES;

/// A regular file, open for reading. Reads take `&self`: many threads may read at once.
#[derive(Debug)]
pub struct DataFile {
    file: File,
    path: PathBuf,
    bytes: u64,
    /// The last one in which it was known to have the bytes of when it was opened.
    state: Mutex<FileState>,
}

impl DataFile {
    /// Opens a regular file.
    ///
    /// # Errors
    /// [`OsError::Open`] when the system refuses; [`OsError::NotAFile`] for a directory, pipe, socket or device
    /// (a pipe is refused at once, without waiting for a writer).
    pub fn open(path: &Path) -> Result<Self, OsError> {
        let cannot_open = |source| OsError::Open { path: path.to_owned(), source };
        let file = open_regular(path, OpenOptions::new().read(true))?;
        let bytes = file.metadata().map_err(cannot_open)?.len();
        let state = Mutex::new(FileState::of(&file).map_err(cannot_open)?);
        Ok(Self { file, path: path.to_owned(), bytes, state })
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

    /// [`OsError::Changed`] when the open file has another size than when it was opened, or was written to since, also when
    /// the time of its last write was put back; `None` otherwise. A new file under the same path is another file, and what
    /// was opened stays as it was.
    ///
    /// Not seen is a write in the same tick of the file system's clock (some milliseconds) as a look at it before, one
    /// through a mapping until the system takes note of it, one that hides behind a move, a link or another owner or mode
    /// since the last look with the old time put back, and what happens below the file system or on another machine. Taken
    /// for a write is a change of an extended attribute, or a move there and back between two looks.
    #[must_use]
    pub fn changed(&self) -> Option<OsError> {
        let metadata = self.file.metadata().ok()?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_as(&metadata) {
            return None;
        }
        let now = FileState::of(&self.file).ok()?;
        if state.has_its_bytes(&now) {
            *state = now;
            return None;
        }
        let (path, was, bytes) = (self.path.clone(), self.bytes, metadata.len());
        Some(OsError::Changed { path, was, bytes })
    }

    /// Bytes of the file now.
    pub(crate) fn len_now(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Opens the same file again, whatever its path names now, for reads past the page cache.
    pub(crate) fn open_direct(&self) -> io::Result<File> {
        let own = format!("/proc/self/fd/{}", self.descriptor());
        OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(own)
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Tells the system that reads will not follow each other: from now on it reads nothing beside what is asked for,
    /// and each read in one piece.
    pub fn expect_scattered_reads(&self) {
        // The whole file; the system may refuse, and reads are as right and a little more then.
        let _refused = self.advise(0, 0, libc::POSIX_FADV_RANDOM);
    }

    /// Asks the system to drop its cached pages that hold any of `bytes` from `offset`; it may keep them.
    pub fn forget_cached(&self, offset: u64, bytes: u64) {
        if bytes == 0 {
            // To the system a length of 0 means all that follows.
            return;
        }
        // It drops whole pages only, and those at the ends hold a part of the range.
        let start = offset - offset % PAGE_BYTES;
        let end = offset.saturating_add(bytes).div_ceil(PAGE_BYTES).saturating_mul(PAGE_BYTES);
        if let (Ok(start), Ok(len)) = (start.try_into(), (end - start).try_into()) {
            let _refused = self.advise(start, len, libc::POSIX_FADV_DONTNEED);
        }
    }

    fn advise(&self, start: libc::off_t, len: libc::off_t, advice: libc::c_int) -> libc::c_int {
        // SAFETY: advice on a descriptor that `self.file` owns; no memory is passed.
        unsafe { libc::posix_fadvise(self.file.as_raw_fd(), start, len, advice) }
    }
}

/// Opens a regular file with `options`, and refuses at once whatever else `path` names: a pipe would be waited for until
/// somebody opens its other end.
///
/// # Errors
/// [`OsError::NotAFile`] for a directory, pipe, socket or device, else [`OsError::Open`] with what the system says.
pub fn open_regular(path: &Path, options: &mut OpenOptions) -> Result<File, OsError> {
    let cannot_open = |source| OsError::Open { path: path.to_owned(), source };
    let file = match options.custom_flags(libc::O_NONBLOCK).open(path) {
        Ok(file) => file,
        // What the system says of sockets, of pipes that nobody reads and of folders does not tell what they are.
        Err(source) => {
            let metadata = path.metadata().ok().filter(|metadata| !metadata.is_file());
            let told = metadata.map(|metadata| OsError::not_a_file(path, metadata.file_type()));
            return Err(told.unwrap_or_else(|| cannot_open(source)));
        }
    };
    let metadata = file.metadata().map_err(cannot_open)?;
    if !metadata.is_file() {
        return Err(OsError::not_a_file(path, metadata.file_type()));
    }
    wait_for_reads(&file);
    Ok(file)
}

/// Takes back that reads are not waited for, which only opening a pipe needed: some kernels take it at its word when many
/// reads of a file are handed to them at once.
pub(crate) fn wait_for_reads(file: &File) {
    // SAFETY: sets the flags of a descriptor that `file` owns to none; no memory is passed. Where it is refused, a read
    // that is put off is begun again.
    let _refused = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, 0) };
}
