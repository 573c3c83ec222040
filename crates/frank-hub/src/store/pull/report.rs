//! What a pull says while it runs: progress, the ends of steps, and notes, of which it keeps a record. Never decides anything.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

use super::note::Note;
use super::step::Step;
use crate::digest::Digest;
use crate::fetch::{FetchError, Progress, Stage, Watch};
use crate::listing::Chosen;
use crate::transfer::{self, Notice};

/// Something that happened in a pull.
#[derive(Debug, Clone)]
pub enum PullEvent<'a> {
    /// So many bytes of a file are done in this step.
    Progress {
        /// The step.
        step: Step,
        /// Name of the file in the store; empty where a step is about all of them.
        file: &'a str,
        /// Bytes done.
        bytes: u64,
        /// Bytes of the whole file, where they are known.
        total: Option<u64>,
    },
    /// A step, or a file's part of it, ended well.
    Done(Done<'a>),
    /// Something that the person who pulls should know.
    Note(&'a Note),
}

/// How a step ended.
#[derive(Debug, Clone)]
pub enum Done<'a> {
    /// The source has so many files at this revision.
    List {
        /// How many.
        files: usize,
        /// The commit; empty where the source has none.
        revision: &'a str,
    },
    /// This payload is wanted.
    Choose {
        /// Its name in the store.
        payload: &'a str,
        /// Its files.
        files: usize,
        /// Bytes of all of them, where the source says it.
        bytes: Option<u64>,
    },
    /// There is room for what is to come.
    Room {
        /// Bytes that are to come, as far as the source declares sizes.
        need: u64,
        /// Whether it declares that of every file.
        is_all: bool,
        /// Bytes that are free.
        free: u64,
    },
    /// A file is whole, and its bytes are the right ones.
    Verify {
        /// Its name.
        file: &'a str,
        /// Its size.
        bytes: u64,
        /// Bytes of it that came over the network in this pull.
        received: u64,
        /// The digest that its source declares, or the one that it has where the source declares none.
        digest: Digest,
    },
    /// So many files got their names.
    Finalize {
        /// How many.
        files: usize,
    },
    /// The lock file says what there is.
    Lock,
}

/// Who is told, and a record of the notes.
pub(super) struct Reporter<'a> {
    watch: &'a dyn Fn(PullEvent<'_>),
    interrupt: Option<&'a AtomicBool>,
    notes: RefCell<Vec<Note>>,
}

impl<'a> Reporter<'a> {
    pub(super) fn new(
        watch: &'a dyn Fn(PullEvent<'_>),
        interrupt: Option<&'a AtomicBool>,
    ) -> Reporter<'a> {
        Reporter { watch, interrupt, notes: RefCell::default() }
    }

    pub(super) fn done(&self, done: Done<'_>) {
        (self.watch)(PullEvent::Done(done));
    }

    pub(super) fn chosen(&self, chosen: &Chosen) {
        let sizes = chosen.files.iter();
        let bytes = sizes.into_iter().try_fold(0u64, |sum, file| sum.checked_add(file.bytes()?));
        let (payload, files) = (chosen.payload.as_str(), chosen.files.len());
        self.done(Done::Choose { payload, files, bytes });
    }

    pub(super) fn note(&self, note: Note) {
        (self.watch)(PullEvent::Note(&note));
        // A home line may make a client try again a thousand times; nobody wants to read that afterwards.
        if !matches!(note.code(), "retrying" | "waiting") {
            self.notes.borrow_mut().push(note);
        }
    }

    pub(super) fn take_notes(&self) -> Vec<Note> {
        self.notes.take()
    }

    /// Tells how far a step is, unless the pull was interrupted.
    pub(super) fn progress(
        &self,
        step: Step,
        file: &str,
        bytes: u64,
        total: Option<u64>,
    ) -> Result<(), FetchError> {
        if self.interrupt.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return Err(FetchError::Interrupted);
        }
        (self.watch)(PullEvent::Progress { step, file, bytes, total });
        Ok(())
    }

    /// Calls `work` on one file with a watch that passes its progress on.
    pub(super) fn watched<T>(&self, file: &str, work: impl FnOnce(Watch<'_>) -> T) -> T {
        let progress = |Progress { stage, bytes, total }: Progress| {
            let step = match stage {
                Stage::Wait => Step::Wait,
                Stage::Check => Step::Held,
                Stage::Download => Step::Transfer,
                Stage::Unpack => Step::Verify,
            };
            (self.watch)(PullEvent::Progress { step, file, bytes, total });
        };
        work(Watch { progress: &progress, interrupt: self.interrupt })
    }

    /// The same for a transfer, which hashes what came in.
    pub(super) fn transferring<T>(
        &self,
        file: &str,
        work: impl FnOnce(transfer::Watch<'_>) -> T,
    ) -> T {
        let progress = |Progress { stage, bytes, total }: Progress| {
            let step = if stage == Stage::Check { Step::Verify } else { Step::Transfer };
            (self.watch)(PullEvent::Progress { step, file, bytes, total });
        };
        let notice = |notice: &Notice| {
            self.note(Note::Transfer { file: file.to_owned(), notice: notice.clone() });
        };
        work(transfer::Watch { progress: &progress, notice: &notice })
    }
}
