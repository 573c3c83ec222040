//! Names, paths, roles and the revision that `frank.lock` says, against the source. Never sizes or digests.

use super::failure::{PullError, PullFailure};
use super::manifest::{differing, mismatch, mismatched};
use super::named::Asked;
use super::step::Step;
use super::{Job, PullOptions};
use crate::fetch::FetchError;
use crate::frank_lock::{PinnedFile, PinnedPayload};
use crate::listing::{Chosen, Listing, Role};
use crate::reference::PipReference;
use crate::store::payload_lock::{LockedFile, PayloadLock};
use crate::store::{ManifestMismatch, Payload, Store};

impl Store {
    /// Compares what is pinned with what the source has. A payload that was called by its name has to have every name that
    /// is pinned: no words would bring it.
    pub(super) fn check_places(
        &self,
        asked: Asked<'_>,
        options: PullOptions<'_>,
        listing: &Listing,
        chosen: &Chosen,
    ) -> Result<(), PullFailure> {
        let Some(pins) = options.pins.filter(|_| !options.refresh) else { return Ok(()) };
        let mut mismatches: Vec<ManifestMismatch> =
            revision(pins, &chosen.payload, listing).into_iter().collect();
        for pin in &pins.file {
            if let Some(file) = chosen.files.iter().find(|file| file.name == pin.name) {
                let paths = file.segments.iter().map(|segment| segment.path.as_str());
                mismatches.extend(places(pin, file.role, paths));
            }
        }
        if asked.name.is_some() {
            let folder = self.models.join(&chosen.payload);
            let lock = PayloadLock::read(&folder);
            let lock = lock.map_err(FetchError::io("read the lock file in", &folder))?;
            let is_known = |name: &str| {
                chosen.files.iter().any(|file| file.name == name)
                    || lock.as_ref().is_some_and(|lock| lock.file(name).is_some())
            };
            let unknown = pins.file.iter().filter(|pin| !is_known(&pin.name));
            mismatches.extend(unknown.map(|pin| mismatch(pin, "file", "it is pinned", "none")));
        }
        told(&pins.source, mismatches)
    }
}

impl Job<'_> {
    /// Compares what is pinned with files that the source no longer has, as they were there.
    pub(super) fn check_kept(&self) -> Result<(), PullFailure> {
        let Some(pins) = self.options.pins.filter(|_| !self.options.refresh) else { return Ok(()) };
        told(&pins.source, self.kept.iter().flat_map(|file| of_locked(pins, file)).collect())
    }
}

/// Compares what is pinned with a file out of packages.
pub(super) fn check_package(
    pip: &PipReference,
    options: PullOptions<'_>,
) -> Result<(), PullFailure> {
    let Some(pins) = options.pins.filter(|_| !options.refresh) else { return Ok(()) };
    let pin = pins.file(pip.file_name());
    let mismatches = pin.into_iter().flat_map(|pin| places(pin, Role::Model, [pip.path.as_str()]));
    told(&pins.source, mismatches.collect())
}

impl Payload {
    /// What `frank.lock` says otherwise about paths and roles than the lock file of the payload.
    pub fn misplaced(&self, pins: &PinnedPayload) -> Vec<ManifestMismatch> {
        let locked = self.files.iter().filter_map(|file| file.locked.as_ref());
        locked.flat_map(|file| of_locked(pins, file)).collect()
    }

    /// Refuses a payload of which a file was pulled from another path, or is for something else, than is pinned.
    /// # Errors
    /// [`PullFailure::ManifestMismatch`] with all that differs.
    pub fn check_places(&self, pins: &PinnedPayload) -> Result<(), PullError> {
        let from = format!("the payload `{}`", self.name);
        told(&from, self.misplaced(pins)).map_err(PullError::at(Step::Manifest))
    }
}

fn of_locked(pins: &PinnedPayload, file: &LockedFile) -> Vec<ManifestMismatch> {
    pins.file(&file.name).map_or_else(Vec::new, |pin| places(pin, file.role, file.paths()))
}

/// What a pin says otherwise about a file of this role, which the source has at one of `paths`, and which has none where
/// there are none.
fn places<'a>(
    pin: &PinnedFile,
    role: Role,
    paths: impl IntoIterator<Item = &'a str>,
) -> Vec<ManifestMismatch> {
    let role = differing(pin, "role", pin.role.zip(Some(role)));
    let paths: Vec<&str> = paths.into_iter().filter(|path| !path.is_empty()).collect();
    // One that was joined from fragments is at each of them.
    let elsewhere = pin.path.as_deref().filter(|pinned| !paths.contains(pinned));
    let path = elsewhere.map(|pinned| match paths.first() {
        Some(path) => mismatch(pin, "path", pinned, path),
        None => mismatch(pin, "path", pinned, "none"),
    });
    role.into_iter().chain(path).collect()
}

/// What is pinned and cannot be the revision of what the source has. Branches, tags and short commits are for the source to
/// know, which was asked for them.
fn revision(pins: &PinnedPayload, payload: &str, listing: &Listing) -> Option<ManifestMismatch> {
    let pinned = pins.revision.as_deref().filter(|pinned| !pinned.is_empty())?;
    let is_commit = pinned.len() == 40 && pinned.bytes().all(|byte| byte.is_ascii_hexdigit());
    let has = listing.revision.as_str();
    let may_be = !has.is_empty() && (!is_commit || has.eq_ignore_ascii_case(pinned));
    (!may_be).then(|| ManifestMismatch {
        file: payload.to_owned(),
        what: "revision",
        pinned: pinned.to_owned(),
        source: if has.is_empty() { "none" } else { has }.to_owned(),
    })
}

fn told(from: &str, mismatches: Vec<ManifestMismatch>) -> Result<(), PullFailure> {
    if mismatches.is_empty() { Ok(()) } else { Err(mismatched(from, mismatches)) }
}
