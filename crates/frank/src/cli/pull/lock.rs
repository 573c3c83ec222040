//! `frank.lock` of the command line: found, read, and written after every pull that changed it.

use std::path::{Path, PathBuf};

use frank_hub::frank_lock::{FRANK_LOCK, FrankLock, FrankLockError, PinnedPayload};
use frank_hub::store::PayloadLock;
use frank_hub::{FailureKind, Reference};

use crate::report::known;

/// The pins of a project, and where they are.
pub(super) struct LockPlace {
    /// `None` where nobody wants pins.
    path: Option<PathBuf>,
    lock: FrankLock,
}

impl LockPlace {
    /// Reads `path`, which is made when it is not there, or else `frank.lock` in this folder, which is not.
    pub(super) fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        let given = path.unwrap_or(Path::new(FRANK_LOCK));
        let lock = FrankLock::read(given).map_err(of_lock)?;
        let path = (path.is_some() || lock.is_some()).then(|| given.to_owned());
        Ok(Self { path, lock: lock.unwrap_or_default() })
    }

    /// All references that are pinned.
    pub(super) fn references(&self) -> anyhow::Result<Vec<Reference>> {
        let references = self.lock.payload.iter().map(PinnedPayload::reference);
        references.collect::<Result<_, _>>().map_err(|error| known(error, FailureKind::Input, None))
    }

    pub(super) fn pins(&self, reference: &Reference) -> Option<&PinnedPayload> {
        self.lock.pins(reference)
    }

    /// Takes over what was pulled.
    pub(super) fn set(&mut self, pulled: &PayloadLock) -> anyhow::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut after = self.lock.clone();
        after.set(pulled);
        if after != self.lock {
            self.lock = FrankLock::add(path, pulled).map_err(of_lock)?;
        }
        Ok(())
    }
}

fn of_lock(error: FrankLockError) -> anyhow::Error {
    let kind = match &error {
        FrankLockError::Io { .. } => FailureKind::Failed,
        FrankLockError::Malformed { .. } | FrankLockError::Source { .. } => FailureKind::Input,
    };
    known(error, kind, None)
}
