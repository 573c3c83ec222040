//! Small files and renames that survive a loss of power. Never knows what a file says.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// Writes `text` to `folder/name` in one step: a reader sees the old file or the new one.
pub(crate) fn write(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    // Readable as the umask allows: containers that mount the folder may run as another user.
    let mode = Permissions::from_mode(0o666);
    let prefix = format!(".{}.", name.trim_start_matches('.'));
    let mut builder = tempfile::Builder::new();
    let mut file = builder.prefix(&prefix).permissions(mode).tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(folder.join(name))?;
    sync_folder(folder)
}

/// The text of a file; `None` where there is none, or where it is no text.
pub(super) fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// What the system says about the file at `path`; `None` where there is none, or something that is no file.
pub(super) fn file_metadata(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata).filter(Metadata::is_file)),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
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
