//! Models of the store before they are used: what was touched since it was verified is hashed once, and noted as it is
//! then. Never fetches, and never moves a file.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use super::durable::file_metadata;
use super::exclusion::{Claim, Intent};
use super::payload_lock::{LockedFile, PayloadLock};
use super::verify::{lock_of, note_found};
use super::{Payload, Store, StoreError, hash};
use crate::digest::Sha256;
use crate::fetch::{FailureKind, FetchError, Progress, Stage, Watch};
use crate::listing::Role;
use crate::stamp::Stamp;

/// How often it is looked whether another process is done with a payload.
const CLAIM_POLL: Duration = Duration::from_millis(100);

/// A model that may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// Its first file.
    pub model: PathBuf,
    /// What could not be done beside reading: each a sentence.
    pub notes: Vec<String>,
}

/// Why a model must not be used.
#[derive(Debug, thiserror::Error)]
pub enum ReadyError {
    /// Something is missing, known to be damaged, or cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file could not be read, or the reading was interrupted.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// A file was touched, and is not what was verified.
    #[error(
        "{name}: {file} was touched since it was verified: it has sha256 {got}, {want} expected"
    )]
    Altered {
        /// The payload.
        name: String,
        /// The file.
        file: String,
        /// Its digest.
        got: Sha256,
        /// The digest of what was verified.
        want: Sha256,
    },
}

impl ReadyError {
    /// The kind of this failure.
    pub fn kind(&self) -> FailureKind {
        match self {
            ReadyError::Store(error) => error.kind(),
            ReadyError::Fetch(error) => error.kind(),
            ReadyError::Altered { .. } => FailureKind::Verification,
        }
    }

    /// The way out, where there is one that always applies.
    pub fn hint(&self) -> Option<String> {
        match self {
            ReadyError::Store(error) => error.hint(),
            ReadyError::Fetch(error) => error.hint(),
            ReadyError::Altered { name, .. } => {
                Some(format!("`frank pull {name}` brings what was verified"))
            }
        }
    }
}

impl Payload {
    /// Names of the model's files that were touched since they were verified, or of which an older lock file does not say
    /// by what that would be known.
    pub fn touched(&self) -> Vec<&str> {
        let is_touched = |locked: &&LockedFile| {
            let there = file_metadata(&self.folder.join(&locked.name)).ok().flatten();
            locked.role == Role::Model && there.is_some_and(|now| !locked.is_untouched(&now))
        };
        let locked = self.files.iter().filter_map(|file| file.locked.as_ref());
        locked.filter(is_touched).map(|locked| locked.name.as_str()).collect()
    }
}

impl Store {
    /// Makes sure that the model of `payload` is what was verified: files that were touched since are hashed, and noted as
    /// they are now. Where none was, it costs a look at each. `progress` hears how far the reading of which file is.
    /// # Errors
    /// [`ReadyError`]; what is not right is noted as damaged.
    pub fn ready(
        &self,
        payload: &Payload,
        progress: &dyn Fn(&str, Progress),
    ) -> Result<Ready, ReadyError> {
        let model = payload.usable_model()?;
        if payload.touched().is_empty() {
            return Ok(Ready { model, notes: Vec::new() });
        }
        let _claim = self.claim_in_turn(&payload.name, progress)?;
        // Somebody may have brought other files meanwhile.
        let payload = self.payload(&payload.name)?;
        let model = payload.usable_model()?;
        let mut lock = lock_of(&payload)?;
        let before = lock.clone();
        let altered = self.read_touched(&payload, &mut lock, progress)?;
        let notes = note_found(&payload.folder, &before, &lock).into_iter().collect();
        altered.map_or(Ok(Ready { model, notes }), Err)
    }

    /// The payload, once nobody else has it; without a lock where the store takes none.
    fn claim_in_turn(
        &self,
        name: &str,
        progress: &dyn Fn(&str, Progress),
    ) -> Result<Claim, ReadyError> {
        let told = |step: Progress| progress("", step);
        let watch = Watch { progress: &told, interrupt: self.interrupt.as_deref() };
        loop {
            match self.claim(name, Intent::Read) {
                Err(StoreError::Busy { .. }) => watch.report(Stage::Wait, 0, None)?,
                claimed => return Ok(claimed?),
            }
            thread::sleep(CLAIM_POLL);
        }
    }

    /// Hashes what was touched and changes its entries to what was found. Returns the first that is not right.
    fn read_touched(
        &self,
        payload: &Payload,
        lock: &mut PayloadLock,
        progress: &dyn Fn(&str, Progress),
    ) -> Result<Option<ReadyError>, ReadyError> {
        let mut altered = None;
        for file in lock.file.iter_mut().filter(|file| file.role == Role::Model) {
            let path = payload.folder.join(&file.name);
            let now = file_metadata(&path).map_err(FetchError::io("read", &path))?;
            let Some(now) = now.filter(|now| !file.is_untouched(now)) else { continue };
            let told = |step: Progress| progress(&file.name, step);
            let watch = Watch { progress: &told, interrupt: self.interrupt.as_deref() };
            let got = hash(&path, file.bytes, watch)?;
            if got == file.sha256 {
                *file = file.clone().stamped(Stamp::of(&now));
                continue;
            }
            let (name, want) = (payload.name.clone(), file.sha256);
            altered.get_or_insert(ReadyError::Altered { name, file: file.name.clone(), got, want });
            file.damaged = true;
        }
        Ok(altered)
    }
}
