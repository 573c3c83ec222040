//! A new file that has no name until it is complete: whatever ends the process before, nothing is left of it. Never
//! replaces a file.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file without a name.
#[derive(Debug)]
pub struct NamelessFile {
    file: File,
}

impl NamelessFile {
    /// Makes an empty file on the file system of `folder` which, as any new file, those may read whom the umask lets;
    /// `None` where that file system has no files without names.
    ///
    /// # Errors
    /// What the system says when `folder` is not there or nothing may be written there.
    pub fn create_in(folder: &Path) -> io::Result<Option<Self>> {
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_TMPFILE)
            .mode(0o666)
            .open(folder);
        match opened {
            Ok(file) => {
                let file = Self { file };
                // Without /proc it could be given no name.
                Ok(file.path().exists().then_some(file))
            }
            // Some kernels say of such file systems that a folder cannot be written to.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The file, for writing.
    pub fn as_file(&self) -> &File {
        &self.file
    }

    /// Where this process can open it.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }

    /// Gives it the name `path`, on the same file system.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] when something is there, be it a broken link, and else what the system says.
    pub fn give_name(&self, path: &Path) -> io::Result<()> {
        let source = CString::new(self.path().as_os_str().as_bytes())?;
        let target = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: both end in a zero byte (`CString::new`) and outlive the call.
        let status = unsafe {
            libc::linkat(
                libc::AT_FDCWD,
                source.as_ptr(),
                libc::AT_FDCWD,
                target.as_ptr(),
                libc::AT_SYMLINK_FOLLOW,
            )
        };
        if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}
