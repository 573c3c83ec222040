//! Reading what the store holds, with what is shown meanwhile. Never asks anybody, and needs no token.

use std::path::PathBuf;

use frank_hub::store::{Payload, Step, Verification};
use frank_hub::{Progress, Stage, Store};

use super::show::Show;
use super::{Ended, of_store, store};
use crate::interrupt::note_interrupt;
use crate::report::{known, printable, tell};

/// The store of this user and what is shown while it is read.
pub(crate) struct Reader {
    pub(crate) store: Store,
    show: Show,
}

impl Reader {
    /// Ctrl-C ends what it reads from now on.
    ///
    /// # Errors
    /// When there is no store.
    pub(crate) fn new() -> Result<Self, Ended> {
        let interrupted = note_interrupt().map_err(|error| Ended::begin("io", error))?;
        let store = store().map_err(|error| Ended::begin("no_data_home", error))?;
        Ok(Self { store: store.with_interrupt(interrupted), show: Show::default() })
    }

    /// Reads all of the payload `name`, and shows how far it is.
    ///
    /// # Errors
    /// As [`Store::verify`].
    pub(crate) fn verify(&self, name: &str) -> Result<Verification, Ended> {
        let found = self.store.verify(name, &|file, progress| self.progress(file, progress));
        self.show.end();
        let found = found.map_err(Ended::verify)?;
        warn(&found.notes);
        Ok(found)
    }

    fn progress(&self, file: &str, progress: Progress) {
        let step = if progress.stage == Stage::Wait { Step::Wait } else { Step::Verify };
        self.show.progress(step, file, progress.bytes, progress.total);
    }
}

/// The first file of a model that may be used. What was touched since it was verified is read first, and that is said.
///
/// # Errors
/// As [`Store::ready`].
pub(crate) fn ready(payload: &Payload) -> anyhow::Result<PathBuf> {
    let model = payload.usable_model().map_err(of_store)?;
    let touched = payload.touched();
    if touched.is_empty() {
        return Ok(model);
    }
    for file in touched {
        let why = "was touched since it was verified, so it is read before it is used";
        tell(&printable(&format!("{}: {file} {why}", payload.name)));
    }
    let reader = Reader::new()?;
    let ready = reader.store.ready(payload, &|file, progress| reader.progress(file, progress));
    reader.show.end();
    let ready = ready.map_err(|error| {
        let (kind, hint) = (error.kind(), error.hint());
        known(error, kind, hint)
    })?;
    warn(&ready.notes);
    Ok(ready.model)
}

fn warn(notes: &[String]) {
    for note in notes {
        tell(&printable(&format!("warning: {note}")));
    }
}
