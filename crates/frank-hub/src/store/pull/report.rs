//! What a pull says: steps, progress, notes and the outcome. Never decides anything.

use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use crate::digest::Digest;
use crate::fetch::{FetchError, Progress, Stage, Watch};
use crate::listing::{Chosen, Role};
use crate::store::{LockedFile, Payload, PayloadLock};
use crate::transfer::{self, Notice};

/// The steps of a pull, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// The source is asked what it has.
    List,
    /// The wanted files are found in it.
    Choose,
    /// What `frank.lock` says is compared with what the source says.
    Manifest,
    /// Another process has the payload.
    Wait,
    /// What is here already is looked at, and hashed where it was touched.
    Held,
    /// The room on the drive is compared with what is to come.
    Room,
    /// Bytes come in.
    Transfer,
    /// Sizes and digests are compared; fragments are checked for being fragments.
    Verify,
    /// Files get their names.
    Finalize,
    /// The lock file is written.
    Lock,
}

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
        /// Bytes that are to come.
        need: u64,
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

/// Something that the person who pulls should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// An earlier pull had come to this step.
    Resumed {
        /// The step that this pull goes on with.
        step: Step,
        /// Bytes that are here already.
        here: u64,
    },
    /// What an earlier pull left is of another state of the source, and is not used.
    StartsOver {
        /// The file.
        file: String,
    },
    /// A file of another payload has the same bytes and is linked.
    Linked {
        /// The file.
        file: String,
        /// The other payload.
        payload: String,
    },
    /// A file that is replaced went to the trash.
    Trashed {
        /// The file.
        file: String,
        /// Its id in the trash.
        id: String,
        /// Why it is replaced.
        reason: String,
    },
    /// The source has other bytes than the file here, which stays.
    Drifted {
        /// The file.
        file: String,
    },
    /// The source no longer has a file that is here and as it was verified.
    UpstreamGone {
        /// The file.
        file: String,
    },
    /// The source declares no digest, so that only the size could be compared.
    NoDigest {
        /// The file.
        file: String,
    },
    /// Something unusual that a transfer went on from.
    Transfer {
        /// The file.
        file: String,
        /// What it was.
        notice: Notice,
    },
}

impl Note {
    /// A word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Note::Resumed { .. } => "resumed",
            Note::StartsOver { .. } => "starts_over",
            Note::Linked { .. } => "linked",
            Note::Trashed { .. } => "trashed",
            Note::Drifted { .. } => "drifted",
            Note::UpstreamGone { .. } => "upstream_gone",
            Note::NoDigest { .. } => "no_digest",
            Note::Transfer { notice: Notice::Retrying { .. }, .. } => "retrying",
            Note::Transfer { notice: Notice::Changed { .. }, .. } => "starts_over",
            Note::Transfer { notice: Notice::Unranged { .. }, .. } => "unranged",
            Note::Transfer {
                notice: Notice::Repairing { .. } | Notice::Comparing { .. }, ..
            } => "repairing",
        }
    }

    /// Whether it should worry somebody.
    pub fn is_warning(&self) -> bool {
        matches!(self, Note::Drifted { .. } | Note::UpstreamGone { .. } | Note::NoDigest { .. })
    }
}

impl fmt::Display for Note {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Resumed { step, here } => write!(out, "resumed at {step}, {here} bytes are here"),
            Note::StartsOver { file } => {
                write!(
                    out,
                    "{file}: the source has moved on; what came of the old file is not used"
                )
            }
            Note::Linked { file, payload } => {
                write!(out, "{file}: the payload {payload} has the same bytes, linked")
            }
            Note::Trashed { file, id, reason } => {
                write!(out, "{file}: {reason}; the old file is in the trash as {id}")
            }
            Note::Drifted { file } => {
                write!(
                    out,
                    "drifted: {file}: the source has other bytes now; `--refresh` fetches them"
                )
            }
            Note::UpstreamGone { file } => {
                write!(
                    out,
                    "upstream_gone: {file}: the source no longer has it; the copy here is good"
                )
            }
            Note::NoDigest { file } => {
                write!(
                    out,
                    "no_digest: {file}: the source declares none, only the size was compared"
                )
            }
            Note::Transfer { file, notice } => write!(out, "{file}: {notice}"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Step::List => "list",
            Step::Choose => "choose",
            Step::Manifest => "manifest",
            Step::Wait => "wait",
            Step::Held => "held",
            Step::Room => "room",
            Step::Transfer => "transfer",
            Step::Verify => "verify",
            Step::Finalize => "finalize",
            Step::Lock => "lock",
        })
    }
}

/// A payload after a pull.
#[derive(Debug, Clone)]
pub struct Pulled {
    /// Its name in the store.
    pub payload: String,
    /// Its folder.
    pub folder: PathBuf,
    /// What its lock file says.
    pub lock: PayloadLock,
    /// What was done for each file that was wanted.
    pub files: Vec<PulledFile>,
    /// What was said on the way.
    pub notes: Vec<Note>,
}

/// What was done for a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PulledFile {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// How it got here.
    pub outcome: FileOutcome,
    /// Bytes of it that came over the network in this pull; `None` where nobody counted.
    pub received: Option<u64>,
}

/// How a file got where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileOutcome {
    /// It was here.
    Held,
    /// An earlier pull had verified it.
    Resumed,
    /// Another payload has the same bytes.
    Linked,
    /// Its bytes came in.
    Fetched,
}

impl Pulled {
    pub(super) fn new(
        payload: &str,
        folder: &Path,
        lock: PayloadLock,
        files: Vec<PulledFile>,
        notes: Vec<Note>,
    ) -> Pulled {
        Pulled { payload: payload.to_owned(), folder: folder.to_owned(), lock, files, notes }
    }

    /// A payload for which nothing was to be done.
    pub(super) fn of_held(payload: &Payload, notes: Vec<Note>) -> Pulled {
        let files = payload.files.iter().map(|file| PulledFile {
            name: file.name.clone(),
            role: file.role,
            outcome: FileOutcome::Held,
            received: Some(0),
        });
        let locked: Vec<LockedFile> =
            payload.files.iter().filter_map(|file| file.locked.clone()).collect();
        let lock = PayloadLock {
            source: payload.source.clone().unwrap_or_default(),
            revision: payload.revision.clone(),
            file: locked,
        };
        Pulled::new(&payload.name, &payload.folder, lock, files.collect(), notes)
    }

    /// Says of all files that they came in, by a program that does not count.
    pub(super) fn set_fetched(&mut self) {
        for file in &mut self.files {
            (file.outcome, file.received) = (FileOutcome::Fetched, None);
        }
    }
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
        if note.code() != "retrying" {
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
