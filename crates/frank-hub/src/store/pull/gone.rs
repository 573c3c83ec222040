//! Payloads whose source has them no longer: they stay good while they are whole here. Never fetches.

use super::PullOptions;
use super::failure::{PullError, PullFailure};
use super::named::Asked;
use super::note::Note;
use super::pulled::Pulled;
use super::report::Reporter;
use super::step::Step;
use crate::listing::Listing;
use crate::store::{Payload, PayloadFile, Store, source_of};

impl Store {
    /// What becomes of a payload of which the source lacks something, as `failure` says: all of it where there is no
    /// `listing`. Files are called gone only when the source answered and does not have them.
    pub(super) fn pull_gone(
        &self,
        asked: Asked<'_>,
        listing: Option<&Listing>,
        failure: PullFailure,
        options: PullOptions<'_>,
        reporter: &Reporter<'_>,
    ) -> Result<Pulled, PullError> {
        let step = if listing.is_none() { Step::List } else { Step::Choose };
        let held = match asked.name {
            Some(name) => self.payload(name).map(Some),
            None => self.held(asked.reference),
        };
        let held = held.map_err(|error| PullError::at(Step::Held)(error.into()))?;
        let Some(payload) = held.filter(|payload| is_good(payload, options)) else {
            return Err(PullError::at(step)(failure));
        };
        if let Some(name) = asked.name {
            let files = self.never_whole(name, listing).map_err(PullError::at(step))?;
            if !files.is_empty() {
                return Err(PullError::at(step)(PullFailure::UpstreamGone { files }));
            }
        }
        let locked = payload.files.iter().filter(|file| file.locked.is_some());
        let gone: Vec<&PayloadFile> = locked.filter(|file| is_gone(file, listing)).collect();
        if gone.is_empty() {
            return Err(PullError::at(step)(failure));
        }
        let checked = self.check_touched(&payload, reporter);
        checked.map_err(PullError::at(Step::Held))?;
        for file in gone {
            reporter.note(Note::UpstreamGone { file: file.name.clone() });
        }
        let words = source_of(asked.reference);
        let mut pulled = Pulled::of_held(&payload, reporter.take_notes()).by(words);
        if let Some(pins) = options.pins.filter(|pins| !pins.file.is_empty()) {
            // Nothing new is known that could be pinned.
            pulled.files.retain(|file| pins.file(&file.name).is_some());
        }
        Ok(pulled)
    }
}

/// Whether the payload can be used, and is what is pinned.
fn is_good(payload: &Payload, options: PullOptions<'_>) -> bool {
    let pins = options.pins.filter(|_| !options.refresh);
    let agrees = pins.is_none_or(|pins| payload.disagreements(pins).is_empty());
    let agrees = agrees && pins.is_none_or(|pins| payload.misplaced(pins).is_empty());
    payload.usable_model().is_ok() && agrees
}

fn is_gone(file: &PayloadFile, listing: Option<&Listing>) -> bool {
    let Some(listing) = listing else { return true };
    let mut paths = file.locked.iter().flat_map(|locked| locked.paths());
    paths.any(|path| !listing.files.iter().any(|there| there.path == path))
}
