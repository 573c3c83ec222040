//! Files of payloads that were touched since they were verified, where no pull looks at them one by one: they are hashed
//! before they count as good, and noted as they are then. Never changes a file.

use std::path::Path;

use super::failure::PullFailure;
use super::report::Reporter;
use crate::fetch::FetchError;
use crate::stamp::Stamp;
use crate::store::durable::file_metadata;
use crate::store::exclusion::Intent;
use crate::store::payload_lock::{LockedFile, PayloadLock};
use crate::store::{Payload, Store, StoreError, hash};

impl Store {
    /// Hashes all files of a payload that were touched.
    /// # Errors
    /// [`PullFailure::UpstreamGone`] names those that are not what was verified.
    pub(super) fn check_touched(
        &self,
        payload: &Payload,
        reporter: &Reporter<'_>,
    ) -> Result<(), PullFailure> {
        let _claim = self.claim(&payload.name, Intent::Read)?;
        let lock = PayloadLock::read(&payload.folder);
        let lock = lock.map_err(StoreError::io("read", &payload.folder))?;
        let Some(mut lock) = lock else { return Ok(()) };
        let before = lock.clone();
        let mut damaged = Vec::new();
        for file in &mut lock.file {
            match as_it_is_now(&payload.folder.join(&file.name), file, reporter)? {
                Some(good) => *file = good,
                None => damaged.push(file.name.clone()),
            }
        }
        if lock != before {
            // A lock file that cannot be written costs another reading, and no more.
            lock.write(&payload.folder).ok();
        }
        if damaged.is_empty() { Ok(()) } else { Err(PullFailure::UpstreamGone { files: damaged }) }
    }

    /// Notes that the file at `source` in a payload has another link now, which touched it though nobody changed a byte.
    /// Where that cannot be noted, the next pull of that payload reads the file once.
    pub(super) fn note_link(&self, payload: &str, source: &Path, linked: &LockedFile, now: Stamp) {
        let is_it = linked.stamp().is_some_and(|before| now.is_only_renamed(before));
        let Some(folder) = source.parent().filter(|_| is_it) else { return };
        let Ok(_claim) = self.claim(payload, Intent::Change) else { return };
        let Ok(Some(mut lock)) = PayloadLock::read(folder) else { return };
        let is_it = |file: &&mut LockedFile| {
            file.name == linked.name && file.sha256 == linked.sha256 && file.bytes == linked.bytes
        };
        if let Some(file) = lock.file.iter_mut().find(is_it) {
            *file = file.clone().stamped(now);
            lock.write(folder).ok();
        }
    }
}

/// The entry of a file with its present times, if it still has the bytes that were verified.
fn as_it_is_now(
    path: &Path,
    file: &LockedFile,
    reporter: &Reporter<'_>,
) -> Result<Option<LockedFile>, FetchError> {
    let metadata = file_metadata(path).map_err(FetchError::io("read", path))?;
    let Some(metadata) = metadata.filter(|now| now.len() == file.bytes && !file.damaged) else {
        return Ok(None);
    };
    if file.is_untouched(&metadata) {
        return Ok(Some(file.clone()));
    }
    let sha256 = reporter.watched(&file.name, |watch| hash(path, file.bytes, watch))?;
    Ok((sha256 == file.sha256).then(|| file.clone().stamped(Stamp::of(&metadata))))
}
