//! Payloads on their way to the trash and back. Never touches one that an endpoint needs.

use std::fs::{File, TryLockError};
use std::time::SystemTime;

use super::trash::{self, Trashed, Way};
use super::{Store, StoreError};

impl Store {
    /// Moves the payload `name` to the trash, whole or not, and says how it comes back.
    /// # Errors
    /// [`StoreError::Unknown`], [`StoreError::InUse`] with every generation that needs it, [`StoreError::Busy`].
    pub fn remove(&self, name: &str, reason: &str) -> Result<Trashed, StoreError> {
        let payload = self.payload(name)?;
        let _lock = self.try_lock(name)?;
        if !payload.uses.is_empty() {
            return Err(StoreError::InUse { name: name.to_owned(), uses: payload.uses });
        }
        let trash = self.trash_folder();
        trash::discard(&payload.folder, &trash, reason, Way::Move, SystemTime::now())
            .map_err(StoreError::io("move to the trash", &payload.folder))
    }

    /// What is in the trash, in the order of days and names.
    /// # Errors
    /// [`StoreError::Io`].
    pub fn trash(&self) -> Result<Vec<Trashed>, StoreError> {
        let trash = self.trash_folder();
        trash::list(&trash).map_err(StoreError::io("read", &trash))
    }

    /// Puts what has this id in the trash back to where it was.
    /// # Errors
    /// [`StoreError::NotInTrash`], [`StoreError::NoOrigin`], and [`StoreError::Occupied`]: nothing is ever replaced.
    pub fn restore(&self, id: &str) -> Result<Trashed, StoreError> {
        let trash = self.trash_folder();
        let found = trash::find(&trash, id).map_err(StoreError::io("read", &trash))?;
        let trashed = found.ok_or_else(|| StoreError::NotInTrash { id: id.to_owned() })?;
        let Some(target) = trashed.from.clone() else {
            return Err(StoreError::NoOrigin { id: id.to_owned(), path: trashed.path });
        };
        let inside = target.strip_prefix(&self.models).ok();
        let name = inside.and_then(|inside| inside.iter().next()).and_then(|name| name.to_str());
        let _lock = name.map(|name| self.try_lock(name)).transpose()?;
        if target.symlink_metadata().is_ok() {
            return Err(StoreError::Occupied { path: target });
        }
        trash::restore(&trashed, &target)
            .map_err(StoreError::io("restore from the trash", &trashed.path))?;
        Ok(trashed)
    }

    /// The lock of a payload, if nobody else has it.
    pub(super) fn try_lock(&self, name: &str) -> Result<File, StoreError> {
        let path = self.lock_path(name);
        let file = self.lock_file(name).map_err(StoreError::io("create", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(StoreError::Busy { name: name.to_owned() }),
            Err(TryLockError::Error(error)) => Err(StoreError::io("lock", &path)(error)),
        }
    }
}
