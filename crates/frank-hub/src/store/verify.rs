//! `--verify-only`: every byte of a payload against its lock file. Never fetches, and never moves a file.

use serde::Serialize;

use super::durable::{file_metadata, modified_ns};
use super::payload_lock::{LockedFile, PayloadLock};
use super::{FetchError, Store, StoreError, hash};
use crate::digest::Sha256;
use crate::fetch::{Progress, Watch};
use crate::listing::Role;

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
    /// pull brings that again, and until then the payload counts as incomplete.
    /// # Errors
    /// [`StoreError::Unknown`], [`StoreError::Incomplete`] for a payload without a lock file; a file that is wrong is no
    /// error here but a verdict.
    pub fn verify(
        &self,
        name: &str,
        progress: &dyn Fn(&str, Progress),
    ) -> Result<Vec<VerifiedFile>, VerifyError> {
        let payload = self.payload(name)?;
        let _lock = self.try_lock(name)?;
        let read = PayloadLock::read(&payload.folder);
        let Some(mut lock) = read.map_err(StoreError::io("read", &payload.folder))? else {
            let (name, faults, from) = (payload.name.clone(), payload.faults(), payload.source);
            return Err(StoreError::Incomplete { name, faults, from }.into());
        };
        let before = lock.clone();
        let mut verdicts = Vec::with_capacity(lock.file.len());
        for file in &mut lock.file {
            let told = |step: Progress| progress(&file.name, step);
            let watch = Watch { progress: &told, interrupt: self.interrupt.as_deref() };
            let (verdict, modified) = verdict(&payload.folder.join(&file.name), file, watch)?;
            let LockedFile { name, role, bytes, sha256, .. } = file.clone();
            verdicts.push(VerifiedFile { name, role, bytes, sha256, verdict });
            file.damaged = matches!(verdict, Verdict::Size { .. } | Verdict::Sha256 { .. });
            if verdict == Verdict::Verified {
                file.modified_ns = modified;
            }
        }
        if lock != before {
            let folder = &payload.folder;
            lock.write(folder).map_err(StoreError::io("write the lock file in", folder))?;
        }
        Ok(verdicts)
    }
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

/// What is found of a file, and its modification time.
fn verdict(
    path: &std::path::Path,
    locked: &LockedFile,
    watch: Watch<'_>,
) -> Result<(Verdict, i64), FetchError> {
    let metadata = file_metadata(path).map_err(FetchError::io("read", path))?;
    let Some(metadata) = metadata else { return Ok((Verdict::Missing, 0)) };
    let modified = modified_ns(&metadata);
    if metadata.len() != locked.bytes {
        return Ok((Verdict::Size { got: metadata.len() }, modified));
    }
    let got = hash(path, locked.bytes, watch)?;
    let is_right = got == locked.sha256;
    Ok((if is_right { Verdict::Verified } else { Verdict::Sha256 { got } }, modified))
}
