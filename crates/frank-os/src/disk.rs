//! Free space and kind of file systems. Never reserves or writes any space.

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
    let c_path = c_path(path)?;
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

/// Whether the file system that holds `path` keeps its files in memory, so that reading one says nothing about a drive.
///
/// # Errors
/// [`OsError::Disk`] when `path` does not exist or the system refuses.
pub fn is_in_memory(path: &Path) -> Result<bool, OsError> {
    const RAMFS_MAGIC: i64 = 0x8584_58f6;
    let c_path = c_path(path)?;
    let mut facts = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: `c_path` ends in a zero byte (`CString::new`), and `facts` has room for one `statfs`.
    let status = unsafe { libc::statfs(c_path.as_ptr(), facts.as_mut_ptr()) };
    if status != 0 {
        return Err(OsError::Disk { path: path.to_owned(), source: io::Error::last_os_error() });
    }
    // SAFETY: a status of 0, checked above, means that the kernel filled the whole struct.
    let kind = unsafe { facts.assume_init() }.f_type;
    #[expect(clippy::useless_conversion, reason = "the fields are narrower on 32-bit machines")]
    let (kind, tmpfs) = (i64::from(kind), i64::from(libc::TMPFS_MAGIC));
    Ok(kind == tmpfs || kind == RAMFS_MAGIC)
}

fn c_path(path: &Path) -> Result<CString, OsError> {
    let failed =
        |error: std::ffi::NulError| OsError::Disk { path: path.to_owned(), source: error.into() };
    CString::new(path.as_os_str().as_bytes()).map_err(failed)
}
