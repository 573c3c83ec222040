//! What the person who pulls should know though nothing failed. Never decides when to say it.

use std::fmt;
use std::time::Duration;

use super::step::Step;
use crate::digest::Digest;
use crate::http::Delay;
use crate::transfer::Notice;

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
    /// The source is long in saying what it has.
    List {
        /// Why.
        delay: Delay,
    },
    /// Parts of a model that should differ have the same bytes: a server that answers with an error does that.
    SameBytes {
        /// The parts.
        files: Vec<String>,
        /// Their digest.
        digest: Digest,
        /// The size of each.
        bytes: u64,
    },
    /// The bytes of a file came quicker than the network links of this machine can bring them.
    TooQuick {
        /// The file.
        file: String,
        /// Bytes that came.
        bytes: u64,
        /// In which time.
        took: Duration,
        /// What all links together bring in a second.
        link_bytes: u64,
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
            Note::List { delay } | Note::Transfer { notice: Notice::Delayed { delay }, .. } => {
                match delay {
                    Delay::Retry { .. } => "retrying",
                    Delay::Silence { .. } => "waiting",
                }
            }
            Note::SameBytes { .. } => "same_bytes",
            Note::TooQuick { .. } => "too_quick",
            Note::Transfer { notice: Notice::Unmarked { .. }, .. } => "unmarked",
            Note::Transfer { notice: Notice::Changed { .. }, .. } => "starts_over",
            Note::Transfer { notice: Notice::Unranged { .. }, .. } => "unranged",
            Note::Transfer {
                notice: Notice::Repairing { .. } | Notice::Comparing { .. }, ..
            } => "repairing",
        }
    }

    /// Whether it should worry somebody.
    pub fn is_warning(&self) -> bool {
        match self {
            Note::Drifted { .. }
            | Note::UpstreamGone { .. }
            | Note::NoDigest { .. }
            | Note::SameBytes { .. }
            | Note::TooQuick { .. } => true,
            Note::Transfer { notice, .. } => matches!(notice, Notice::Unmarked { .. }),
            Note::Resumed { .. }
            | Note::StartsOver { .. }
            | Note::Linked { .. }
            | Note::Trashed { .. }
            | Note::List { .. } => false,
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Resumed { step, here } => write!(out, "resumed at {step}, {here} bytes are here"),
            Note::List { delay } => write!(out, "list: {delay}"),
            Note::SameBytes { files, digest, bytes } => {
                let (n, kind, files) = (files.len(), digest.kind(), files.join(", "));
                write!(
                    out,
                    "same_bytes: {n} parts are the same {bytes} bytes ({kind} {digest}), which parts of a model never \
                     are: {files}"
                )
            }
            Note::StartsOver { file }
            | Note::Linked { file, .. }
            | Note::Trashed { file, .. }
            | Note::Transfer { file, .. } => write!(out, "{file}: {}", self.told()),
            Note::Drifted { file }
            | Note::UpstreamGone { file }
            | Note::NoDigest { file }
            | Note::TooQuick { file, .. } => {
                write!(out, "{}: {file}: {}", self.code(), self.told())
            }
        }
    }
}

impl Note {
    /// What is said of one file, without its name.
    fn told(&self) -> String {
        let text = match self {
            Note::StartsOver { .. } => {
                "the source has moved on; what came of the old file is not used"
            }
            Note::Linked { payload, .. } => {
                return format!("the payload {payload} has the same bytes, linked");
            }
            Note::Trashed { id, reason, .. } => {
                return format!("{reason}; the old file is in the trash as {id}");
            }
            Note::Drifted { .. } => "the source has other bytes now; `--refresh` fetches them",
            Note::UpstreamGone { .. } => "the source no longer has it; the copy here is good",
            Note::NoDigest { .. } => "the source declares none, only the size was compared",
            Note::TooQuick { bytes, took, link_bytes, .. } => {
                return too_quick(*bytes, *took, *link_bytes);
            }
            Note::Transfer { notice, .. } => return notice.to_string(),
            // These are about no file alone.
            Note::Resumed { .. } | Note::List { .. } | Note::SameBytes { .. } => "",
        };
        text.to_owned()
    }
}

fn too_quick(bytes: u64, took: Duration, link_bytes: u64) -> String {
    let took = took.as_secs_f64();
    format!(
        "{bytes} bytes came in {took:.3} s, and the network links of this machine bring {link_bytes} bytes a second: \
         something on the way may have made them up"
    )
}
