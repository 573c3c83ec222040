//! Cached pages in a directory, found again by later processes. Never knows what a payload means.
//!
//! An entry is one file: bytes under a key, with the key of the entry before it. The budget is a hard cap on what the
//! files take, checked before a file is written. Entries without children go first, those used longest ago before the
//! others, and what was just stored or restored stays. A file that is damaged is a miss and is removed. When the disk
//! refuses to take more, storing ends with one warning, and nothing else does.

mod directory;
mod entry_file;
mod index;
mod worker;

use std::fs::{File, FileTimes};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

pub use directory::DiskCacheError;
pub(crate) use worker::{DiskWorker, Load};

use directory::{Directory, expected_charge, own};
use entry_file::{EntryError, EntryHeader, read_payload};
use index::{Entry, EntryId, Index, Refusal};

/// Names an entry among those of one fingerprint: a SHA-256 of what its payload was made from.
pub type EntryKey = [u8; 32];

/// What became of an entry that was to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// It lies on disk now.
    Written,
    /// It was there already, and counts as just used.
    Present,
    /// The budget has no room for it without what was just stored or restored, or its parent is not there.
    Refused,
    /// The disk failed, now or earlier in this process.
    Off,
}

/// Counts for metrics and tests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskCacheStats {
    /// Entries of all models in the directory.
    pub entries: usize,
    /// Bytes that they take, never more than the budget.
    pub used_bytes: u64,
}

/// A directory of entries, used by one process at a time. Threads may share it; [`DiskCache::contains`] never waits for
/// the disk.
#[derive(Debug)]
pub struct DiskCache {
    directory: Directory,
    fingerprint: [u8; 32],
    state: Mutex<State>,
    /// Held while files are written or removed: a folder goes with the last file in it.
    changing: Mutex<()>,
    is_storing: AtomicBool,
    has_warned_of_damage: AtomicBool,
    /// The most that a file took beyond what its length says: a file system may give space in large units.
    extra_bytes: AtomicU64,
}

#[derive(Debug)]
struct State {
    index: Index,
    /// The last time of use that was written to a file. The next is later, whatever the clock does.
    last_used: SystemTime,
}

impl State {
    /// The time of a use that is now.
    fn next_use(&mut self) -> SystemTime {
        let next = self.last_used.checked_add(Duration::from_nanos(1)).unwrap_or(self.last_used);
        self.last_used = SystemTime::now().max(next);
        self.last_used
    }
}

impl DiskCache {
    /// Opens `directory`, or makes it, for entries of `fingerprint`, which stands for the model, its weights and the
    /// layout of payloads. Entries of other fingerprints are never read, and count towards `budget_bytes`.
    ///
    /// Headers are read, payloads are not. What is left over from a killed process, damaged or more than the budget is
    /// removed.
    ///
    /// # Errors
    /// [`DiskCacheError`] when the directory cannot be this process's own: it is no directory, in use, holds other
    /// files, or others may write in it. Nothing was removed then.
    pub fn open(
        directory: &Path,
        budget_bytes: u64,
        fingerprint: [u8; 32],
    ) -> Result<Self, DiskCacheError> {
        let directory = Directory::open(directory, &fingerprint)?;
        let found = directory.scan()?;
        let mut index = Index::new(budget_bytes);
        let surplus = index.fill(found.entries);
        // A time in the future, by a clock that was wrong, is not carried on.
        let now = SystemTime::now();
        let last_used = found.last_used.unwrap_or(now).min(now);
        let cache = Self {
            directory,
            fingerprint,
            state: Mutex::new(State { index, last_used }),
            changing: Mutex::new(()),
            is_storing: AtomicBool::new(true),
            has_warned_of_damage: AtomicBool::new(false),
            extra_bytes: AtomicU64::new(0),
        };
        if found.n_damaged > 0 {
            cache.warn_of_damage(&format!("{} files were removed", found.n_damaged));
        }
        cache.delete(&surplus);
        Ok(cache)
    }

    /// Whether an entry is there, as far as is known without reading it. Never waits for the disk.
    #[must_use]
    pub fn contains(&self, key: &EntryKey) -> bool {
        self.lock().index.contains(&own(key))
    }

    /// Fills `payload` with the bytes that were stored under `key`, all of them and no more. False: there is no such
    /// entry (any more), and `payload` holds anything.
    pub fn load(&self, key: &EntryKey, payload: &mut [u8]) -> bool {
        let id = own(key);
        if !self.contains(key) {
            return false;
        }
        let path = self.directory.path(&id);
        let read = File::open(path).map_err(EntryError::from).and_then(|mut file| {
            read_payload(&mut file, &self.fingerprint, key, payload)?;
            Ok(file)
        });
        match read {
            Ok(file) => self.note_use(key, &file),
            Err(error) => {
                let _changing = self.change();
                self.lock().index.remove(&id);
                self.delete(&[id]);
                self.warn_of_damage(&error.to_string());
                return false;
            }
        }
        true
    }

    /// Stores `payload` under `key`. It is found by way of `parent`, so that one has to be there, and is kept as long
    /// as this one.
    pub fn store(&self, key: &EntryKey, parent: Option<&EntryKey>, payload: &[u8]) -> Stored {
        let _changing = self.change();
        if self.contains(key) {
            self.refresh(key);
            return Stored::Present;
        }
        if !self.is_storing() {
            return Stored::Off;
        }
        let admitted = expected_charge(payload.len()) + self.extra_bytes.load(Ordering::Relaxed);
        let admission = self.lock().index.admit(parent.map(own).as_ref(), admitted);
        let evicted = match admission {
            Ok(evicted) => evicted,
            Err(Refusal::NoParent | Refusal::NoRoom | Refusal::TooLarge) => return Stored::Refused,
        };
        if !self.delete(&evicted) {
            self.lock().index.cancel(admitted);
            return Stored::Off;
        }
        self.write(key, parent, payload, admitted)
    }

    /// What stands for the model, its weights and the layout of payloads.
    #[must_use]
    pub fn fingerprint(&self) -> &[u8; 32] {
        &self.fingerprint
    }

    /// Whether entries are still stored: not once the disk has failed.
    #[must_use]
    pub fn is_storing(&self) -> bool {
        self.is_storing.load(Ordering::Relaxed)
    }

    /// Counts as of now.
    #[must_use]
    pub fn stats(&self) -> DiskCacheStats {
        let state = self.lock();
        DiskCacheStats { entries: state.index.len(), used_bytes: state.index.used_bytes() }
    }

    fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(
        &self,
        key: &EntryKey,
        parent: Option<&EntryKey>,
        payload: &[u8],
        admitted: u64,
    ) -> Stored {
        let header = EntryHeader {
            fingerprint: self.fingerprint,
            key: *key,
            parent: parent.copied(),
            payload_bytes: payload.len() as u64,
        };
        match self.directory.write(header, payload) {
            Ok((file, charge)) if charge <= admitted => {
                let used = {
                    let mut state = self.lock();
                    let entry = Entry { parent: parent.copied(), charge };
                    state.index.commit(own(key), entry, admitted);
                    state.next_use()
                };
                set_last_used(&file, used);
                Stored::Written
            }
            Ok((_, charge)) => {
                self.extra_bytes.fetch_add(charge - admitted, Ordering::Relaxed);
                self.lock().index.cancel(admitted);
                self.delete(&[own(key)]);
                Stored::Refused
            }
            Err(error) => {
                self.lock().index.cancel(admitted);
                self.stop_storing(&error.to_string());
                Stored::Off
            }
        }
    }

    /// Deletes files that the index has forgotten. False when one could not be, which ends storing: it takes room that
    /// nobody counts.
    fn delete(&self, forgotten: &[EntryId]) -> bool {
        let mut removals = forgotten.iter().map(|id| self.directory.remove(id));
        match removals.find_map(io::Result::err) {
            Some(error) => {
                self.stop_storing(&error.to_string());
                false
            }
            None => true,
        }
    }

    fn refresh(&self, key: &EntryKey) {
        // One that cannot be opened is found to be damaged when it is wanted.
        if let Ok(file) = File::open(self.directory.path(&own(key))) {
            self.note_use(key, &file);
        }
    }

    /// Moves an entry to the end of the order, here and for the process after this one.
    fn note_use(&self, key: &EntryKey, file: &File) {
        let used = {
            let mut state = self.lock();
            state.index.touch(&own(key));
            state.next_use()
        };
        set_last_used(file, used);
    }

    fn stop_storing(&self, reason: &str) {
        if self.is_storing.swap(false, Ordering::Relaxed) {
            tracing::warn!("the disk cache stores nothing more: {reason}");
        }
    }

    fn warn_of_damage(&self, what: &str) {
        if !self.has_warned_of_damage.swap(true, Ordering::Relaxed) {
            tracing::warn!("the disk cache held what it cannot use: {what}");
        }
    }
}

fn set_last_used(file: &File, used: SystemTime) {
    // Where times cannot be set, a later process finds the order of writing instead.
    drop(file.set_times(FileTimes::new().set_modified(used)));
}
