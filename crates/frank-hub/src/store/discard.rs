//! Payloads on their way to the trash and back. Never touches one that an endpoint needs.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::exclusion::Intent;
use super::trash::{self, Trashed, Way};
use super::uses::{self, USED_BY_DIR, Use};
use super::{Store, StoreError};

impl Store {
    /// Moves the payload `name` to the trash, whole or not, and says how it comes back.
    /// # Errors
    /// [`StoreError::Unknown`], [`StoreError::InUse`] with every generation that needs it, [`StoreError::Busy`].
    pub fn remove(&self, name: &str, reason: &str) -> Result<Trashed, StoreError> {
        let folder = self.payload(name)?.folder;
        let _claim = self.claim(name, Intent::Change)?;
        check_unused(name, &folder)?;
        trash::discard(&folder, &self.trash_folder(), reason, Way::Move, SystemTime::now())
            .map_err(StoreError::io("move to the trash", &folder))
    }

    /// What is in the trash, in the order of days and names.
    /// # Errors
    /// [`StoreError::Io`].
    pub fn trash(&self) -> Result<Vec<Trashed>, StoreError> {
        trash::list(&self.trash_folder())
    }

    /// Puts what has this id in the trash back to where it was.
    /// # Errors
    /// [`StoreError::NotInTrash`], [`StoreError::NoOrigin`], [`StoreError::Outside`], and [`StoreError::Occupied`]: nothing
    /// is ever replaced.
    pub fn restore(&self, id: &str) -> Result<Trashed, StoreError> {
        let found = trash::find(&self.trash_folder(), id);
        let trashed = found.ok_or_else(|| StoreError::NotInTrash { id: id.to_owned() })?;
        let (target, name) = self.target(&trashed)?;
        let _claim = self.claim(&name, Intent::Change)?;
        if target.symlink_metadata().is_ok() {
            return Err(StoreError::Occupied { path: target });
        }
        trash::restore(&trashed, &target)
            .map_err(StoreError::io("restore from the trash", &trashed.path))?;
        Ok(trashed)
    }

    /// Where a thing in the trash goes back to, and the payload that this is or belongs to.
    fn target(&self, trashed: &Trashed) -> Result<(PathBuf, String), StoreError> {
        let (id, path) = (trashed.id.clone(), trashed.path.clone());
        let Some(target) = trashed.from.clone() else {
            return Err(StoreError::NoOrigin { id, path });
        };
        let inside = target.strip_prefix(&self.models).ok();
        let inside = inside.filter(|inside| trash::is_inside(inside));
        let name = inside.and_then(|inside| inside.iter().next()).and_then(|name| name.to_str());
        match name {
            Some(name) => Ok((target.clone(), name.to_owned())),
            None => Err(StoreError::Outside { id, from: target, path }),
        }
    }
}

/// Refuses to take what the payload `name` in `folder` has from those who need it. Where nobody can tell who does, somebody
/// may.
pub(super) fn check_unused(name: &str, folder: &Path) -> Result<(), StoreError> {
    let used_by = folder.join(USED_BY_DIR);
    let uses: Vec<Use> = uses::read(folder).map_err(StoreError::io("read", &used_by))?;
    if uses.is_empty() { Ok(()) } else { Err(StoreError::InUse { name: name.to_owned(), uses }) }
}
