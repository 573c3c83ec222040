//! Who may touch a payload right now: one process that changes it, or any number that only read it. Never touches it.
//!
//! The lock of `models/.locks/<payload>` stands for the payload. The file stays where it is when the lock is given back,
//! so where there is none, nobody has the payload.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use frank_os::open_regular;

use super::durable::is_refusal;
use super::{Store, StoreError};
use crate::fetch::{FetchError, Stage, Watch};

/// How often another process's lock is tried.
const LOCK_POLL: Duration = Duration::from_millis(100);

/// What somebody wants to do with a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Intent {
    /// Nobody else may have it meanwhile.
    Change,
    /// Nobody may change it meanwhile. Where the lock may not be written, many may read.
    Read,
}

/// A payload is this process's until this is dropped, or the process ends.
#[derive(Debug)]
pub(super) struct Claim {
    _file: Option<File>,
    /// Why there is no lock that keeps others away, where there is none.
    pub(super) unlocked: Option<String>,
}

impl Store {
    /// Takes the lock of a payload; it is released when the file is dropped, and when the process ends.
    pub(super) fn lock(&self, name: &str, watch: Watch<'_>) -> Result<File, FetchError> {
        let path = self.lock_path(name);
        let file = self.lock_file(name).map_err(FetchError::io("create", &path))?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => watch.report(Stage::Wait, 0, None)?,
                Err(TryLockError::Error(error)) => {
                    return Err(FetchError::io("lock", &path)(error));
                }
            }
            thread::sleep(LOCK_POLL);
        }
    }

    /// The payload, if nobody else has it. Where the store takes no new lock file, the one that is there will do, and where
    /// there is none, nobody has the payload.
    pub(super) fn claim(&self, name: &str, intent: Intent) -> Result<Claim, StoreError> {
        let path = self.lock_path(name);
        let (file, intent) = match self.lock_file(name) {
            Ok(file) => (file, Intent::Change),
            Err(refused) if is_refusal(&refused) => {
                let changes = matches!(intent, Intent::Change);
                let opened = open_regular(&path, OpenOptions::new().read(true));
                match opened.map_err(io::Error::from) {
                    Ok(file) => (file, intent),
                    // Somebody else's lock file may be held, whoever may not look at it.
                    Err(error) if changes && error.kind() != io::ErrorKind::NotFound => {
                        return Err(StoreError::io("open", &path)(error));
                    }
                    Err(_) => {
                        let path = path.display();
                        let unlocked = Some(format!("{path} cannot be made: {refused}"));
                        return Ok(Claim { _file: None, unlocked });
                    }
                }
            }
            Err(error) => return Err(StoreError::io("create", &path)(error)),
        };
        let taken = match intent {
            Intent::Change => file.try_lock(),
            Intent::Read => file.try_lock_shared(),
        };
        match taken {
            Ok(()) => Ok(Claim { _file: Some(file), unlocked: None }),
            Err(TryLockError::WouldBlock) => Err(StoreError::Busy { name: name.to_owned() }),
            Err(TryLockError::Error(error)) => Err(StoreError::io("lock", &path)(error)),
        }
    }

    fn lock_path(&self, name: &str) -> PathBuf {
        self.models.join(".locks").join(name)
    }

    /// The file whose lock stands for the payload `name`.
    fn lock_file(&self, name: &str) -> io::Result<File> {
        let path = self.lock_path(name);
        fs::create_dir_all(path.parent().unwrap_or(&self.models))?;
        let mut options = OpenOptions::new();
        // Never truncated: nothing is in it, and a full drive has no room for a change.
        Ok(open_regular(&path, options.write(true).create(true).truncate(false))?)
    }
}
