//! A file without a name, for measuring a drive: it is gone when it is closed, however the process ends. Never a file
//! that anybody else can open.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::OsError;

/// Reads and writes that go past the page cache start at multiples of this, and so do their buffers.
///
/// Source: the largest logical block of drives in use; the kernel asks for the drive's own, which divides it.
pub const DIRECT_ALIGNMENT: usize = 4096;

/// A file without a name in some folder. Reads and writes take `&self`: many threads may use it at once.
#[derive(Debug)]
pub struct ScratchFile {
    file: File,
    folder: PathBuf,
}

impl ScratchFile {
    /// Makes an empty file on the file system that holds `folder`.
    ///
    /// # Errors
    /// [`OsError::Open`] when `folder` is not there or nothing may be written there.
    pub fn create_in(folder: &Path) -> Result<Self, OsError> {
        let cannot_open = |source| OsError::Open { path: folder.to_owned(), source };
        let nameless = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_TMPFILE)
            .mode(0o600)
            .open(folder);
        let file = match nameless {
            // Not every file system can; some kernels then say that a folder cannot be written to.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)) => {
                created_and_removed(folder)
            }
            other => other,
        };
        Ok(Self { file: file.map_err(cannot_open)?, folder: folder.to_owned() })
    }

    /// Makes reads and writes go past the page cache from now on; false where the file system refuses, and nothing
    /// changes then.
    #[must_use]
    pub fn bypass_cache(&self) -> bool {
        let descriptor = self.file.as_raw_fd();
        // SAFETY: asks for the flags of a descriptor that `self.file` owns; no memory is passed.
        let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFL) };
        if flags < 0 {
            return false;
        }
        // SAFETY: sets flags of a descriptor that `self.file` owns; no memory is passed.
        unsafe { libc::fcntl(descriptor, libc::F_SETFL, flags | libc::O_DIRECT) == 0 }
    }

    /// Writes all of `bytes` from `offset`.
    ///
    /// # Errors
    /// [`OsError::Write`] when the system refuses, or `bytes` or `offset` is not aligned to [`DIRECT_ALIGNMENT`] past
    /// the page cache.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), OsError> {
        self.file.write_all_at(bytes, offset).map_err(|source| self.write_error(offset, source))
    }

    /// Waits until all that was written lies on the drive.
    ///
    /// # Errors
    /// [`OsError::Write`] when the system refuses.
    pub fn sync(&self) -> Result<(), OsError> {
        self.file.sync_data().map_err(|source| self.write_error(0, source))
    }

    /// Fills all of `buf` with the bytes from `offset`.
    ///
    /// # Errors
    /// [`OsError::Read`] when the file ends before, the system refuses, or `buf` or `offset` is not aligned to
    /// [`DIRECT_ALIGNMENT`] past the page cache.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), OsError> {
        self.file.read_exact_at(buf, offset).map_err(|source| OsError::Read {
            path: self.folder.clone(),
            offset,
            want: buf.len() as u64,
            source,
        })
    }

    /// Asks the system to drop `bytes` of its cached pages from `offset`, those that lie on the drive already; it may
    /// keep them.
    pub fn forget_cached(&self, offset: u64, bytes: u64) {
        let (Ok(offset), Ok(bytes)) = (offset.try_into(), bytes.try_into()) else { return };
        let descriptor = self.file.as_raw_fd();
        // SAFETY: advice on a descriptor that `self.file` owns; no memory is passed.
        let _refused =
            unsafe { libc::posix_fadvise(descriptor, offset, bytes, libc::POSIX_FADV_DONTNEED) };
    }

    fn write_error(&self, offset: u64, source: io::Error) -> OsError {
        OsError::Write { path: self.folder.clone(), offset, source }
    }
}

/// For file systems that make no file without a name: the name is there for a moment.
fn created_and_removed(folder: &Path) -> io::Result<File> {
    let path = folder.join(format!(".frank-scratch-{}", std::process::id()));
    let file =
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_around_leaves_no_name_either() {
        let folder = tempfile::tempdir().unwrap();
        let file = created_and_removed(folder.path()).unwrap();
        file.write_all_at(b"gone", 0).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
