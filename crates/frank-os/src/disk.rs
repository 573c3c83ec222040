//! Free space of file systems. Never reserves or writes any.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::OsError;

/// Bytes that an ordinary user may still write to the file system that holds `path`.
///
/// # Errors
/// [`OsError::Disk`] when `path` does not exist or the system refuses.
pub fn free_disk(path: &Path) -> Result<u64, OsError> {
    let failed = |source| OsError::Disk { path: path.to_owned(), source };
    let c_path = CString::new(path.as_os_str().as_bytes()).map_err(|error| failed(error.into()))?;
    let mut facts = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: `c_path` ends in a zero byte (`CString::new`), and `facts` has room for one `statvfs`.
    let status = unsafe { libc::statvfs(c_path.as_ptr(), facts.as_mut_ptr()) };
    if status != 0 {
        return Err(failed(io::Error::last_os_error()));
    }
    // SAFETY: a status of 0, checked above, means that the kernel filled the whole struct.
    let facts = unsafe { facts.assume_init() };
    #[expect(
        clippy::useless_conversion,
        reason = "the fields are narrower than u64 on 32-bit machines"
    )]
    let (blocks, block_bytes) = (u64::from(facts.f_bavail), u64::from(facts.f_frsize));
    Ok(blocks.saturating_mul(block_bytes))
}
