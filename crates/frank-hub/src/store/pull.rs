//! Pulling a payload into the store, step by step, each of which a later pull can take up again. Never opens a
//! connection itself.

mod aside;
mod copy;
mod examine;
mod failure;
mod finish;
mod gone;
mod in_use;
mod manifest;
mod named;
mod note;
mod packaged;
mod pins;
mod pulled;
mod report;
mod step;
mod suspicion;
mod touched;
mod transfer;

use std::fs;
use std::path::PathBuf;

use url::Url;

use self::aside::set_aside;
use self::examine::Task;
use self::named::{Asked, Choice};
use self::report::Reporter;
use super::payload_lock::{LockedFile, PayloadLock};
use super::wanted::{Wanted, WantedFile};
use super::{PARTIAL_DIR, Store, source_of};
use crate::fetch::FetchError;
use crate::frank_lock::PinnedPayload;
use crate::http::{Client, Delay};
use crate::listing::{Chosen, Listing};
use crate::reference::Reference;
use crate::sources::{self, ListError};

pub use failure::{PullError, PullFailure};
pub use manifest::ManifestMismatch;
pub use note::Note;
pub use pulled::{FileOutcome, Pulled, PulledFile};
pub use report::{Done, PullEvent};
pub use step::Step;

/// Whom a pull asks.
pub struct Upstream {
    /// Who sends its requests.
    pub client: Client,
    /// Address of the model hub.
    pub endpoint: Url,
}

impl Upstream {
    /// What `reference` has to offer; `tell` hears of answers that are long in coming.
    /// # Errors
    /// As [`sources::list`].
    pub fn list(&self, reference: &Reference, tell: &dyn Fn(&Delay)) -> Result<Listing, ListError> {
        sources::list(reference, &self.endpoint, &self.client, tell)
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
    /// A name is pulled from where it came from, and is that payload, wherever the words that it was pulled by lead now.
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
            Reference::Name(name) => {
                let source = self.source_of_payload(name).map_err(PullError::at(Step::List))?;
                let asked = Asked { reference: &source, name: Some(name) };
                self.pull_asked(upstream, asked, options, reporter)
            }
            _ => self.pull_asked(upstream, Asked { reference, name: None }, options, reporter),
        }
    }

    fn pull_asked(
        &self,
        upstream: &Upstream,
        asked: Asked<'_>,
        options: PullOptions<'_>,
        reporter: Reporter<'_>,
    ) -> Result<Pulled, PullError> {
        match asked.reference {
            Reference::Pip(pip) => {
                pins::check_package(pip, options).map_err(PullError::at(Step::Manifest))?;
                self.pull_package(asked, pip, options, &reporter)
            }
            _ => self.pull_listed(upstream, asked, options, reporter),
        }
    }

    /// The reference that a payload of the store came from.
    fn source_of_payload(&self, name: &str) -> Result<Reference, PullFailure> {
        let payload = self.payload(name)?.readable()?;
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
        asked: Asked<'_>,
        options: PullOptions<'_>,
        reporter: Reporter<'_>,
    ) -> Result<Pulled, PullError> {
        let reference = asked.reference;
        let tell = |delay: &Delay| reporter.note(Note::List { delay: delay.clone() });
        let listing = match upstream.list(&manifest::pinned(reference, options), &tell) {
            // A pinned commit is no other payload than the one that was asked for.
            Ok(listing) => Listing { source: place_of(reference, &listing), ..listing },
            Err(ListError::Http(error)) if error.is_gone() => {
                let failure = ListError::from(error).into();
                return self.pull_gone(asked, None, failure, options, &reporter);
            }
            Err(error) => return Err(PullError::at(Step::List)(error.into())),
        };
        reporter.done(Done::List { files: listing.files.len(), revision: &listing.revision });
        let choice = match self.chosen(asked, &listing) {
            Ok(choice) => choice,
            // All that was wanted may be gone.
            Err(failure) if failure.is_absence() => {
                return self.pull_gone(asked, Some(&listing), failure, options, &reporter);
            }
            Err(failure) => return Err(PullError::at(Step::Choose)(failure)),
        };
        reporter.chosen(&choice.chosen);
        manifest::check_listed(options, &listing, &choice.chosen)
            .and_then(|()| self.check_places(asked, options, &listing, &choice.chosen))
            .map_err(PullError::at(Step::Manifest))?;
        let lock = reporter.watched("", |watch| self.lock(&choice.chosen.payload, watch));
        let _lock = lock.map_err(|error| PullError::at(Step::Wait)(error.into()))?;
        let job = Job::new(self, &upstream.client, &listing, &choice, options, reporter);
        let job = job.map_err(PullError::at(Step::Held))?;
        Job { is_named: asked.name.is_some(), ..job }.run()
    }
}

/// One pull of one payload, whose lock this process holds.
struct Job<'a> {
    store: &'a Store,
    client: &'a Client,
    listing: &'a Listing,
    chosen: &'a Chosen,
    /// Words that led to the payload once and lead elsewhere now.
    astray: Option<&'a str>,
    /// Whether the payload was called by its name.
    is_named: bool,
    options: PullOptions<'a>,
    reporter: Reporter<'a>,
    folder: PathBuf,
    lock: Option<PayloadLock>,
    /// Files that the source no longer has, as they are now.
    kept: Vec<LockedFile>,
    /// What an earlier pull left.
    before: Option<Wanted>,
    wanted: Wanted,
    /// What it left of files that are not wanted now.
    aside: Vec<WantedFile>,
}

impl<'a> Job<'a> {
    fn new(
        store: &'a Store,
        client: &'a Client,
        listing: &'a Listing,
        choice: &'a Choice,
        options: PullOptions<'a>,
        reporter: Reporter<'a>,
    ) -> Result<Job<'a>, PullFailure> {
        let Choice { reference, chosen, astray } = choice;
        let astray = astray.as_deref();
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
        let aside = set_aside(&folder, before.as_ref(), &wanted);
        let kept = Vec::new();
        Ok(Job {
            store,
            client,
            listing,
            chosen,
            astray,
            is_named: false,
            options,
            reporter,
            folder,
            lock,
            kept,
            before,
            wanted,
            aside,
        })
    }

    fn run(mut self) -> Result<Pulled, PullError> {
        let result = self.steps();
        if result.is_err() {
            self.tidy();
        }
        result
    }

    fn steps(&mut self) -> Result<Pulled, PullError> {
        self.kept = self.check_gone().map_err(PullError::at(Step::List))?;
        self.check_kept().map_err(PullError::at(Step::Manifest))?;
        let mut tasks = self.examine()?;
        self.adopt(&mut tasks).map_err(|error| PullError::at(Step::Held)(error.into()))?;
        self.check_unused(&tasks).map_err(PullError::at(Step::Held))?;
        if tasks.iter().any(|task| !task.is_held()) {
            self.begin().map_err(|error| PullError::at(Step::Room)(error.into()))?;
            self.note_resumption(&tasks)?;
            self.link(&tasks)?;
            self.check_room(&tasks).map_err(|error| PullError::at(Step::Room)(error.into()))?;
            self.suspect_declared();
        }
        let outcomes = self.bring(&tasks)?;
        self.finalize(&tasks)?;
        let lock = self.seal(&tasks).map_err(|error| PullError::at(Step::Lock)(error.into()))?;
        if !tasks.iter().all(Task::is_held) {
            self.suspect_brought(&lock);
        }
        let notes = self.reporter.take_notes();
        let pulled = Pulled::new(&self.chosen.payload, &self.folder, lock, outcomes, notes);
        Ok(pulled.by(self.wanted.source.clone()))
    }

    /// Makes the folders and notes what is wanted, before the first byte.
    fn begin(&self) -> Result<(), FetchError> {
        let partial = self.folder.join(PARTIAL_DIR);
        fs::create_dir_all(&partial).map_err(FetchError::io("create", &partial))?;
        self.note_wanted()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
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
        // Lock files of older versions kept what signed the request.
        (Ok(held @ Reference::Url(_)), _) => source_of(&held) == source,
        _ => held == source,
    }
}
