//! `frank.lock` of a command: found, read, and written after every pull that changed it.

use std::path::{Path, PathBuf};

use frank_hub::frank_lock::{FRANK_LOCK, FrankLock, PinnedPayload};
use frank_hub::store::{Payload, Step};
use frank_hub::{Reference, Store};

use super::ended::{BEGIN, Ended};

/// The pins of a project, and where they are.
pub(crate) struct LockPlace {
    /// `None` where nobody wants pins.
    path: Option<PathBuf>,
    lock: FrankLock,
}

impl LockPlace {
    /// Reads `path`, which is made when it is not there, or else `frank.lock` in this folder, which is not.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, Ended> {
        let given = path.unwrap_or(Path::new(FRANK_LOCK));
        let lock = FrankLock::read(given).map_err(|error| Ended::lock(BEGIN.to_owned(), error))?;
        let path = (path.is_some() || lock.is_some()).then(|| given.to_owned());
        Ok(Self { path, lock: lock.unwrap_or_default() })
    }

    /// All references that are pinned.
    ///
    /// # Errors
    /// Never for what was read.
    pub(crate) fn references(&self) -> Result<Vec<Reference>, Ended> {
        let parsed = self.lock.payload.iter().map(|pinned| {
            pinned.reference().map_err(|error| Ended::reference(&pinned.source, error))
        });
        parsed.collect()
    }

    /// What is pinned of what `reference` names. A name stands for its payload, whichever words it was pinned by.
    pub(crate) fn pins(&self, store: &Store, reference: &Reference) -> Option<&PinnedPayload> {
        match reference {
            Reference::Name(name) => self.pins_of(store, &store.payload(name).ok()?),
            // Other words may have been pinned that lead to the same payload.
            other => {
                self.lock.pins(other).or_else(|| self.pins_of(store, &store.held(other).ok()??))
            }
        }
    }

    fn pins_of(&self, store: &Store, payload: &Payload) -> Option<&PinnedPayload> {
        // Where the others cannot be read, these pins are taken to be of this one.
        self.lock.pins_of(payload, &store.payloads().unwrap_or_default())
    }

    /// Makes sure that what will be pulled can be pinned.
    ///
    /// # Errors
    /// When there is to be a lock and its place takes none.
    pub(crate) fn check_place(&self) -> Result<(), Ended> {
        let Some(path) = &self.path else { return Ok(()) };
        FrankLock::check_place(path).map_err(|error| Ended::lock(BEGIN.to_owned(), error))
    }

    /// Takes over what was pulled, in the place of what was pinned from `replaces`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn set(&mut self, pinned: &PinnedPayload, replaces: &str) -> Result<(), Ended> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut after = self.lock.clone();
        after.set(pinned.clone(), replaces);
        if after != self.lock {
            let added = FrankLock::add(path, pinned, replaces);
            self.lock = added.map_err(|error| Ended::lock(Step::Lock.to_string(), error))?;
        }
        Ok(())
    }
}
