//! `--verify-only`: every byte of a payload against its lock file. Never fetches, and never moves a file.

use std::path::Path;

use serde::Serialize;

use super::durable::file_metadata;
use super::exclusion::Intent;
use super::payload_lock::{LOCK_FILE, LockedFile, PayloadLock};
use super::{FetchError, Payload, Store, StoreError, hash};
use crate::digest::Sha256;
use crate::fetch::{Progress, Watch};
use crate::listing::Role;
use crate::stamp::Stamp;

/// One file of a payload after it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerifiedFile {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// Size by the lock file.
    pub bytes: u64,
    /// Digest by the lock file.
    pub sha256: Sha256,
    /// What was found.
    pub verdict: Verdict,
}

/// What a payload was found to be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verification {
    /// Its files, in the order of the lock file.
    pub files: Vec<VerifiedFile>,
    /// What could not be done beside reading, because the store may not be written: each a sentence.
    pub notes: Vec<String>,
}

/// What was found of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum Verdict {
    /// Its bytes are those of the lock file.
    Verified,
    /// It is not there.
    Missing,
    /// It has another size.
    Size {
        /// Its size.
        got: u64,
    },
    /// It has another digest.
    Sha256 {
        /// Its digest.
        got: Sha256,
    },
}

impl Verdict {
    /// A word for programs.
    pub fn reason(self) -> &'static str {
        match self {
            Verdict::Verified => "verified",
            Verdict::Missing => "missing",
            Verdict::Size { .. } => "size",
            Verdict::Sha256 { .. } => "sha256",
        }
    }
}

impl Store {
    /// Reads every file of the payload `name` and compares it with the lock file, which remembers what is damaged: the next
    /// pull brings that again, and until then the payload counts as incomplete. Where the store may not be written, the
    /// notes say what was left out.
    /// # Errors
    /// [`StoreError::Unknown`], [`StoreError::Incomplete`] for a payload without a lock file; a file that is wrong is no
    /// error here but a verdict.
    pub fn verify(
        &self,
        name: &str,
        progress: &dyn Fn(&str, Progress),
    ) -> Result<Verification, VerifyError> {
        let payload = self.payload(name)?;
        let claim = self.claim(name, Intent::Read)?;
        let mut lock = lock_of(&payload)?;
        let before = lock.clone();
        let files = self.read_all(&payload.folder, &mut lock, progress)?;
        let unlocked = claim.unlocked.as_ref();
        let unlocked =
            unlocked.map(|why| format!("a pull that begins meanwhile is not kept away: {why}"));
        let mut notes: Vec<String> = unlocked.into_iter().collect();
        notes.extend(note_found(&payload.folder, &before, &lock));
        Ok(Verification { files, notes })
    }

    /// Reads the files of a payload, and changes its entries to what was found.
    fn read_all(
        &self,
        folder: &Path,
        lock: &mut PayloadLock,
        progress: &dyn Fn(&str, Progress),
    ) -> Result<Vec<VerifiedFile>, FetchError> {
        let mut files = Vec::with_capacity(lock.file.len());
        for file in &mut lock.file {
            let told = |step: Progress| progress(&file.name, step);
            let watch = Watch { progress: &told, interrupt: self.interrupt.as_deref() };
            let (verdict, stamp) = verdict(&folder.join(&file.name), file, watch)?;
            let LockedFile { name, role, bytes, sha256, .. } = file.clone();
            files.push(VerifiedFile { name, role, bytes, sha256, verdict });
            file.damaged = matches!(verdict, Verdict::Size { .. } | Verdict::Sha256 { .. });
            if let Some(stamp) = stamp.filter(|_| verdict == Verdict::Verified) {
                *file = file.clone().stamped(stamp);
            }
        }
        Ok(files)
    }
}

/// The lock file of a payload that has one.
pub(super) fn lock_of(payload: &Payload) -> Result<PayloadLock, StoreError> {
    let read = PayloadLock::read(&payload.folder);
    read.map_err(StoreError::io("read", &payload.folder))?.ok_or_else(|| StoreError::Incomplete {
        name: payload.name.clone(),
        faults: payload.faults(),
        from: payload.source.clone(),
    })
}

/// Writes what was found of the files in `folder`; says why where that cannot be written, as what was found is worth more
/// than a record of it.
pub(super) fn note_found(folder: &Path, before: &PayloadLock, now: &PayloadLock) -> Option<String> {
    let written = if now == before { Ok(()) } else { now.write(folder) };
    let path = folder.join(LOCK_FILE);
    let told = |error| format!("what was found is not noted in {}: {error}", path.display());
    written.err().map(told)
}

/// Why a payload could not be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// There is no such payload, or it has no lock file.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file could not be read, or the reading was interrupted.
    #[error(transparent)]
    Fetch(#[from] FetchError),
}

/// What is found of a file, and how it was before it was read.
fn verdict(
    path: &Path,
    locked: &LockedFile,
    watch: Watch<'_>,
) -> Result<(Verdict, Option<Stamp>), FetchError> {
    let metadata = file_metadata(path).map_err(FetchError::io("read", path))?;
    let Some(metadata) = metadata else { return Ok((Verdict::Missing, None)) };
    let stamp = Some(Stamp::of(&metadata));
    if metadata.len() != locked.bytes {
        return Ok((Verdict::Size { got: metadata.len() }, stamp));
    }
    let got = hash(path, locked.bytes, watch)?;
    let is_right = got == locked.sha256;
    Ok((if is_right { Verdict::Verified } else { Verdict::Sha256 { got } }, stamp))
}
