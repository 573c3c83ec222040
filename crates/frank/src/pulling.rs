//! Pulls of a command: the store, the client and its token, and what is shown meanwhile. Never decides what to pull.

mod show;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use frank_hub::http::{Client, TokenError, Tokens, hub_endpoint};
use frank_hub::store::{PullError, PullEvent, PullOptions, Pulled, StoreError, Upstream};
use frank_hub::{FailureKind, ListError, Reference, Store};

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
    pub(crate) fn new(token_file: Option<&Path>) -> anyhow::Result<Self> {
        let tokens = match token_file {
            Some(path) => Tokens::from_file(path),
            None => Tokens::from_environment(),
        };
        let tokens = tokens.map_err(of_token)?;
        let endpoint = hub_endpoint().map_err(of_token)?;
        let interrupted: Arc<AtomicBool> = note_interrupt()?;
        let client = Client::new(tokens, Some(Arc::clone(&interrupted)))
            .map_err(|error| known(error, FailureKind::Failed, None))?;
        let store = store()?.with_interrupt(interrupted);
        Ok(Self { store, upstream: Upstream { client, endpoint }, show: Show::default() })
    }

    /// Pulls, and shows how far it is.
    ///
    /// # Errors
    /// As [`Store::pull`].
    pub(crate) fn pull(
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

fn of_token(error: TokenError) -> anyhow::Error {
    known(error, FailureKind::Input, None)
}

/// A source that does not say what it has, with its exit code and the way out.
pub(crate) fn of_list(error: ListError) -> anyhow::Error {
    let hint = match &error {
        ListError::Http(error) => error.hint(),
        error => error.hint(),
    };
    let kind = error.kind();
    known(error, kind, hint)
}

/// A pull that failed, with its exit code and the way out.
pub(crate) fn of_pull(error: PullError) -> anyhow::Error {
    let (kind, hint) = (error.kind(), error.hint());
    known(error, kind, hint)
}

/// What the store refused, with its exit code and the way out.
pub(crate) fn of_store(error: StoreError) -> anyhow::Error {
    let (kind, hint) = (error.kind(), error.hint());
    known(error, kind, hint)
}
