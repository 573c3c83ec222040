//! Small files and renames that survive a loss of power. Never knows what a file says, and never waits for a pipe.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use frank_os::{OsError, open_regular};

use crate::beside::is_full;

/// Bytes of such a file at most: a lock file of as many files as a listing may have is a tenth of it.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Writes `text` to `folder/name` in one step: a reader sees the old file or the new one.
pub(crate) fn write(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    // Readable as the umask allows: containers that mount the folder may run as another user.
    let mode = Permissions::from_mode(0o666);
    let prefix = format!(".{}.", name.trim_start_matches('.'));
    let mut builder = tempfile::Builder::new();
    let mut file = builder.prefix(&prefix).permissions(mode).tempfile_in(folder)?;
    if is_full() {
        return Err(io::ErrorKind::StorageFull.into());
    }
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(folder.join(name))?;
    sync_folder(folder)
}

/// The text of a file; `None` where there is none, or where it is no text. An error that is about anything but a regular
/// file names its path.
pub(super) fn read(path: &Path) -> io::Result<Option<String>> {
    let file = match open_regular(path, OpenOptions::new().read(true)) {
        Err(OsError::Open { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        file => file?,
    };
    let mut text = String::new();
    match file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
        Err(error) => Err(error),
        Ok(_) if text.len() as u64 > FILE_BYTES_MAX => {
            Err(io::Error::other(format!("{} is larger than 64 MiB", path.display())))
        }
        Ok(_) => Ok(Some(text)),
    }
}

/// What the system says about the file at `path`; `None` where there is none. An error names what stands there instead of
/// a file: it is somebody's, and is neither read nor replaced.
pub(super) fn file_metadata(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(Some(metadata)),
        Ok(metadata) => Err(OsError::not_a_file(path, metadata.file_type()).into()),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Whether the system takes no new file or change there: the drive is full or must not be written, or the folder is not
/// this user's.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(error.kind(), PermissionDenied | QuotaExceeded | ReadOnlyFilesystem | StorageFull)
}

/// Makes renames in `folder` durable.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Modification time in nanoseconds since 1970; 0 where it is unknown or does not fit.
pub(super) fn modified_ns(metadata: &Metadata) -> i64 {
    let since = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.and_then(|since| i64::try_from(since.as_nanos()).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_place_of_a_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let told = format!("{} is a directory, not a file", dir.path().display());
        assert_eq!(read(dir.path()).unwrap_err().to_string(), told);
        assert_eq!(file_metadata(dir.path()).unwrap_err().to_string(), told);
        assert!(read(&dir.path().join("none")).unwrap().is_none());
        assert!(file_metadata(&dir.path().join("none")).unwrap().is_none());
    }

    #[test]
    fn a_file_without_an_end_is_not_read_into_memory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("payload.lock");
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let told = format!("{} is larger than 64 MiB", path.display());
        assert_eq!(read(&path).unwrap_err().to_string(), told);
        fs::write(&path, b"\xff").unwrap();
        assert!(read(&path).unwrap().is_none());
    }
}
