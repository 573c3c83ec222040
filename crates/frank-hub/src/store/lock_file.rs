//! `payload.lock`: what a payload is made of and how it was verified. Never looks at the payload itself.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use crate::digest::Sha256;

/// Name of the lock file beside the payload's files.
pub(crate) const LOCK_FILE: &str = "payload.lock";

/// The content of a lock file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PayloadLock {
    /// The reference it came from, without a digest.
    pub(crate) source: String,
    /// What the source calls this state of it.
    pub(crate) revision: String,
    /// Every file of the payload.
    pub(crate) file: Vec<LockedFile>,
}

/// One file, as it was when its digest was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LockedFile {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) sha256: Sha256,
    /// Modification time in nanoseconds since 1970: while it stays, the digest is taken to hold.
    pub(crate) modified_ns: i64,
}

impl PayloadLock {
    /// Reads the lock file in `folder`. `None` where there is none, or where it is none that can be read: what it
    /// should say is then found out anew.
    pub(crate) fn read(folder: &Path) -> io::Result<Option<PayloadLock>> {
        match fs::read_to_string(folder.join(LOCK_FILE)) {
            Ok(text) => Ok(toml::from_str(&text).ok()),
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Writes the lock file in `folder` in one step: a reader sees the old one or the new one.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        let text = toml::to_string(self).map_err(io::Error::other)?;
        // Readable as the umask allows: containers that mount the folder may run as another user.
        let mode = Permissions::from_mode(0o666);
        let mut builder = tempfile::Builder::new();
        let mut file = builder.prefix(".payload.lock.").permissions(mode).tempfile_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(folder.join(LOCK_FILE))?;
        sync_folder(folder)
    }

    /// The entry for `name`.
    pub(crate) fn file(&self, name: &str) -> Option<&LockedFile> {
        self.file.iter().find(|file| file.name == name)
    }
}

/// Makes renames in `folder` durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Modification time in nanoseconds since 1970; 0 where it is unknown or does not fit.
pub(crate) fn modified_ns(metadata: &Metadata) -> i64 {
    let since = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.and_then(|since| i64::try_from(since.as_nanos()).ok()).unwrap_or(0)
}
