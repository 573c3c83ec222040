//! Pulls of a command: the store, the client and its token, and what is shown meanwhile. Never decides what to pull.

mod ended;
mod lock;
mod reading;
mod show;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use frank_hub::frank_lock::PinnedPayload;
use frank_hub::http::{Client, Delay, Tokens, hub_endpoint};
use frank_hub::store::{Note, PullError, PullEvent, PullOptions, Pulled, StoreError, Upstream};
use frank_hub::{FailureKind, Listing, Reference, Store};

pub(crate) use self::ended::{BEGIN, Ended};
pub(crate) use self::lock::LockPlace;
pub(crate) use self::reading::{Reader, ready};
use self::show::Show;
use crate::interrupt::note_interrupt;
use crate::model::of_fetch;
use crate::report::known;

/// The store of this user.
///
/// # Errors
/// When the environment says of no place for it.
pub(crate) fn store() -> anyhow::Result<Store> {
    Store::default_dir().map(Store::at).map_err(of_fetch)
}

/// All that a pull needs.
pub(crate) struct Puller {
    pub(crate) store: Store,
    pub(crate) upstream: Upstream,
    pub(crate) show: Show,
}

impl Puller {
    /// With the token in `token_file`, or else the one that the environment tells. Ctrl-C ends its pulls from now on.
    ///
    /// # Errors
    /// When there is no store, no client, or a token that is none.
    pub(crate) fn new(token_file: Option<&Path>) -> Result<Self, Ended> {
        let tokens = match token_file {
            Some(path) => Tokens::from_file(path),
            None => Tokens::from_environment(),
        };
        let tokens = tokens.map_err(Ended::token)?;
        let endpoint = hub_endpoint().map_err(Ended::token)?;
        let interrupted: Arc<AtomicBool> =
            note_interrupt().map_err(|error| Ended::begin("io", error))?;
        let client = Client::new(tokens, Some(Arc::clone(&interrupted))).map_err(|error| {
            let reason = error.reason();
            Ended::begin(reason, known(error, FailureKind::Failed, None))
        })?;
        let store = store().map_err(|error| Ended::begin("no_data_home", error))?;
        let store = store.with_interrupt(interrupted);
        Ok(Self { store, upstream: Upstream { client, endpoint }, show: Show::default() })
    }

    /// Pulls what is pinned in `lock`, writes there what it brought, and shows how far it is.
    ///
    /// # Errors
    /// As [`Store::pull`], and when the lock cannot be written: where it is known before, nothing is fetched.
    pub(crate) fn pull(
        &self,
        reference: &Reference,
        refresh: bool,
        lock: &mut LockPlace,
    ) -> Result<Pulled, Ended> {
        let pins = lock.pins(&self.store, reference).cloned();
        let says_all = !refresh && pins.as_ref().is_some_and(PinnedPayload::is_full);
        if !says_all {
            lock.check_place().map_err(|ended| ended.about(reference))?;
        }
        let named = match reference {
            Reference::Name(name) => {
                self.store.payload(name).ok().and_then(|payload| payload.source)
            }
            _ => None,
        };
        let options = PullOptions { refresh, pins: pins.as_ref() };
        let pulled = self.pull_only(reference, options);
        let pulled = pulled.map_err(|error| Ended::pull(reference, error))?;
        let new = PinnedPayload::of(&pulled);
        let pinned = match &pins {
            // The words that the payload was pulled by lead to it still, and so do those that are pinned.
            Some(pins) if named.as_ref() == Some(&pulled.words) => new.under(pins),
            _ => new,
        };
        let pinned = match &pins {
            Some(pins) => pinned.with_gone(pins, &pulled),
            None => pinned,
        };
        let replaces = pins.map_or_else(|| pinned.source.clone(), |pins| pins.source);
        lock.set(&pinned, &replaces).map_err(|ended| ended.about(reference))?;
        Ok(pulled)
    }

    /// What a source has, saying meanwhile why it takes long.
    ///
    /// # Errors
    /// As [`Upstream::list`].
    pub(crate) fn list(&self, reference: &Reference) -> Result<Listing, Ended> {
        let slow = |delay: &Delay| {
            self.show.event(&PullEvent::Note(&Note::List { delay: delay.clone() }));
        };
        self.upstream.list(reference, &slow).map_err(|error| Ended::list(reference, error))
    }

    fn pull_only(
        &self,
        reference: &Reference,
        options: PullOptions<'_>,
    ) -> Result<Pulled, PullError> {
        let show = |event: PullEvent<'_>| self.show.event(&event);
        let pulled = self.store.pull(&self.upstream, reference, options, &show);
        self.show.end();
        pulled
    }
}

/// What the store refused, with its exit code and the way out.
pub(crate) fn of_store(error: StoreError) -> anyhow::Error {
    let (kind, hint) = (error.kind(), error.hint());
    known(error, kind, hint)
}
