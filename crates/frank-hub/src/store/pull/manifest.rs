//! `frank.lock` against the source: what was pinned has to be what the source says. Never against the bytes here, which
//! may well be right while the pins are wrong.

use std::fmt;

use super::failure::{PullError, PullFailure};
use super::step::Step;
use super::{Job, PullOptions};
use crate::frank_lock::{PinnedFile, PinnedPayload};
use crate::listing::{Chosen, Listing};
use crate::reference::{HubReference, Reference};
use crate::store::payload_lock::{LockedFile, SourceFile};
use crate::store::{Payload, PayloadFile};

/// One thing that `frank.lock` and the source disagree about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestMismatch {
    /// The file.
    pub file: String,
    /// What it is: `bytes`, `sha256`, `git_sha1`, `file` or `revision`.
    pub what: &'static str,
    /// What `frank.lock` says.
    pub pinned: String,
    /// What the source says.
    pub source: String,
}

impl fmt::Display for ManifestMismatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ManifestMismatch { file, what, pinned, source } = self;
        write!(out, "{what} of {file}: {pinned} in frank.lock, {source} there")
    }
}

/// The reference at the commit that is pinned; with `refresh` as it was asked for.
pub(super) fn pinned(reference: &Reference, options: PullOptions<'_>) -> Reference {
    let pins = options.pins.filter(|_| !options.refresh);
    match (reference, pins.and_then(|pins| pins.revision.clone())) {
        (Reference::Hub(hub), Some(commit)) => {
            Reference::Hub(HubReference { revision: Some(commit), ..hub.clone() })
        }
        _ => reference.clone(),
    }
}

/// Compares what is pinned with what the source declares.
pub(super) fn check_listed(
    options: PullOptions<'_>,
    listing: &Listing,
    chosen: &Chosen,
) -> Result<(), PullFailure> {
    let Some(pins) = options.pins.filter(|_| !options.refresh) else { return Ok(()) };
    let mut mismatches = Vec::new();
    for pin in &pins.file {
        let file = chosen.files.iter().find(|file| file.name == pin.name);
        let Some(file) = file else {
            let is_listed = listing.files.iter().any(|file| file.file_name() == pin.name);
            // One that is gone is told apart: the copy here may be the last.
            if is_listed {
                let (what, source) = ("file", "it is not part of this payload");
                mismatches.push(mismatch(pin, what, "it is pinned", source));
            }
            continue;
        };
        let bytes = pin.bytes.zip(file.bytes());
        mismatches.extend(differing(pin, "bytes", bytes));
        if let [whole] = file.segments.as_slice() {
            let whole = SourceFile::new(String::new(), whole.bytes, whole.digest);
            mismatches.extend(differing(pin, "sha256", pin.sha256.zip(whole.sha256)));
            mismatches.extend(differing(pin, "git_sha1", pin.git_sha1.zip(whole.git_sha1)));
        }
    }
    if mismatches.is_empty() { Ok(()) } else { Err(mismatched(&pins.source, mismatches)) }
}

impl Job<'_> {
    /// Compares what is pinned with a file whose bytes are those that the source declares.
    pub(super) fn check_pinned(&self, file: &LockedFile) -> Result<(), PullFailure> {
        let Some(pins) = self.options.pins.filter(|_| !self.options.refresh) else { return Ok(()) };
        let Some(pin) = pins.file(&file.name) else { return Ok(()) };
        let bytes = differing(pin, "bytes", pin.bytes.map(|pinned| (pinned, file.bytes)));
        let sha256 = differing(pin, "sha256", pin.sha256.map(|pinned| (pinned, file.sha256)));
        let mismatches: Vec<ManifestMismatch> = bytes.into_iter().chain(sha256).collect();
        if mismatches.is_empty() { Ok(()) } else { Err(mismatched(&pins.source, mismatches)) }
    }
}

impl Payload {
    /// What `frank.lock` says otherwise than the lock file of the payload, which has what the source said when it was
    /// pulled.
    pub fn disagreements(&self, pins: &PinnedPayload) -> Vec<ManifestMismatch> {
        let mut found: Vec<ManifestMismatch> =
            pins.file.iter().flat_map(|pin| self.disagreements_about(pin)).collect();
        // Where the bytes of all files are pinned, it is all one which commit they came with.
        let is_pinned =
            |file: &PayloadFile| pins.file(&file.name).is_some_and(|pin| pin.sha256.is_some());
        let revision = pins.revision.as_ref().filter(|pinned| **pinned != self.revision);
        if let Some(pinned) = revision.filter(|_| !self.files.iter().all(is_pinned)) {
            let (file, what) = (self.name.clone(), "revision");
            let (pinned, source) = (pinned.clone(), self.revision.clone());
            found.push(ManifestMismatch { file, what, pinned, source });
        }
        found
    }

    fn disagreements_about(&self, pin: &PinnedFile) -> Vec<ManifestMismatch> {
        let held = self.files.iter().find(|file| file.name == pin.name);
        let Some(held) = held.and_then(|file| file.locked.as_ref()) else {
            return vec![mismatch(pin, "file", "it is pinned", "it was not pulled")];
        };
        let bytes = differing(pin, "bytes", pin.bytes.map(|pinned| (pinned, held.bytes)));
        let sha256 = differing(pin, "sha256", pin.sha256.map(|pinned| (pinned, held.sha256)));
        let sha1 = differing(pin, "git_sha1", pin.git_sha1.zip(held.git_sha1));
        bytes.into_iter().chain(sha256).chain(sha1).collect()
    }

    /// Refuses a payload that is not what is pinned.
    /// # Errors
    /// [`PullFailure::ManifestMismatch`] with all that differs.
    pub fn check_pins(&self, pins: &PinnedPayload) -> Result<(), PullError> {
        let mismatches = self.disagreements(pins);
        if mismatches.is_empty() {
            return Ok(());
        }
        let failure = mismatched(&format!("the payload `{}`", self.name), mismatches);
        Err(PullError::at(Step::Manifest)(failure))
    }
}

pub(super) fn differing<T: PartialEq + ToString>(
    pin: &PinnedFile,
    what: &'static str,
    values: Option<(T, T)>,
) -> Option<ManifestMismatch> {
    let (pinned, source) = values.filter(|(pinned, source)| pinned != source)?;
    Some(mismatch(pin, what, &pinned.to_string(), &source.to_string()))
}

pub(super) fn mismatch(
    pin: &PinnedFile,
    what: &'static str,
    pinned: &str,
    source: &str,
) -> ManifestMismatch {
    let (file, pinned, source) = (pin.name.clone(), pinned.to_owned(), source.to_owned());
    ManifestMismatch { file, what, pinned, source }
}

pub(super) fn mismatched(from: &str, mismatches: Vec<ManifestMismatch>) -> PullFailure {
    PullFailure::ManifestMismatch { from: from.to_owned(), mismatches }
}
