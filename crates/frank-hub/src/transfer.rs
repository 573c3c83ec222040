//! One file brought over HTTP: in parallel ranges, resumed, hashed as it comes, verified, repaired. Never renames it.

mod board;
mod error;
mod feed;
mod hashing;
mod layout;
mod range_map;
mod repair;
mod reply;
mod run;
mod saving;
mod state;

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use url::Url;

use crate::digest::{Digest, Sha256};
use crate::fetch::Progress;
use crate::http::{Client, Delay};

pub use error::TransferError;
pub(crate) use range_map::is_map_name;
use range_map::{Saved, map_path};
use run::{Outcome, Run};

/// How often a file may change at its source while it is brought.
const RESTARTS_MAX: usize = 3;

/// A file at a source. Several are joined in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Where its bytes are. Redirects are followed at each use.
    pub url: Url,
    /// Its size, as the source declares it; asked for where it is not known.
    pub bytes: Option<u64>,
    /// Its digest, as the source declares it; without one the bytes are taken as they come.
    pub digest: Option<Digest>,
}

/// A file that was brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brought {
    /// Size of the whole file.
    pub bytes: u64,
    /// Size of each segment.
    pub segment_bytes: Vec<u64>,
    /// Digest of the whole file.
    pub sha256: Sha256,
    /// Bytes of bodies that came over the network for it, in this call.
    pub received: u64,
    /// Whether an earlier call had brought and verified it already.
    pub verified_before: bool,
}

/// Who looks on. Both are called on the thread that called [`bring`].
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Called about ten times a second. [`Stage::Download`](crate::Stage::Download) counts the bytes that are there, those of
    /// earlier calls too; [`Stage::Check`](crate::Stage::Check), once all are there, those that are hashed.
    pub progress: &'a dyn Fn(Progress),
    /// Called for what a user may want to know though it is no failure.
    pub notice: &'a dyn Fn(&Notice),
}

impl Watch<'_> {
    /// Tells of an answer that is long in coming.
    fn delayed(&self, delay: &Delay) {
        (self.notice)(&Notice::Delayed { delay: delay.clone() });
    }
}

/// Something unusual that the transfer goes on from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// An answer is long in coming.
    Delayed {
        /// Why.
        delay: Delay,
    },
    /// The file at the source is not the one of which a part is here, so it is brought from its beginning.
    Changed {
        /// The URL.
        url: String,
    },
    /// The server does not give ranges, so the file comes in one piece.
    Unranged {
        /// The URL.
        url: String,
    },
    /// No digest is declared, and the server says nothing by which another state of the file would be known.
    Unmarked {
        /// The URL.
        url: String,
    },
    /// These bytes are not as they came any more: they are brought again.
    Repairing {
        /// Bytes of the ranges.
        bytes: u64,
    },
    /// The digest is wrong though all is as it came: everything is brought again and compared.
    Comparing {
        /// Bytes of the ranges.
        bytes: u64,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Delayed { delay } => write!(out, "{delay}"),
            Notice::Changed { url } => {
                write!(out, "{url}: changed at its source since it was begun; begun again")
            }
            Notice::Unranged { url } => {
                write!(out, "{url}: the server gives no ranges; brought in one piece")
            }
            Notice::Unmarked { url } => {
                write!(
                    out,
                    "{url}: the server sends neither a strong ETag nor a Last-Modified, so a change of the file \
                     meanwhile would not be seen"
                )
            }
            Notice::Repairing { bytes } => {
                write!(out, "{bytes} bytes are not as they came any more, and are brought again")
            }
            Notice::Comparing { bytes } => {
                write!(out, "wrong digest: {bytes} bytes are brought again to find what differs")
            }
        }
    }
}

/// Brings the file that `segments` make up, and leaves it at `partial`: complete, verified, and durable on the drive.
///
/// What an earlier call left there is used again, as far as the range map beside it says. On failure the file and its map
/// stay for the next call, unless the bytes are wrong and stayed wrong when they were brought again.
/// # Errors
/// [`TransferError`]; [`TransferError::reason`] says which kind it is.
pub fn bring(
    client: &Client,
    segments: &[Segment],
    partial: &Path,
    watch: Watch<'_>,
) -> Result<Brought, TransferError> {
    let mut received = 0;
    let mut restarts = 0;
    loop {
        let sizes = feed::sizes(client, segments, watch)?;
        let mut run = Run::open(client, segments, &sizes, partial, watch)?;
        let outcome = run.run();
        received += run.received();
        match outcome {
            Ok(Outcome::Done(brought)) => {
                return Ok(Brought { received, segment_bytes: sizes, ..brought });
            }
            Ok(Outcome::Changed(url)) => {
                // What came is of a file that is no more, or of two of them.
                discard(partial).map_err(TransferError::io("remove", partial))?;
                if restarts == RESTARTS_MAX {
                    return Err(TransferError::Changed { url });
                }
                restarts += 1;
                (watch.notice)(&Notice::Changed { url });
            }
            // The new state of the source is not the one whose digest was declared.
            Err(TransferError::Digest { url, .. }) if restarts > 0 => {
                return Err(TransferError::Changed { url });
            }
            Err(error) => return Err(error),
        }
    }
}

/// Bytes of an unfinished file that are here, and bytes it will have, from its range map alone. `None` without a map.
/// # Errors
/// When the map cannot be read.
pub fn partial_bytes(partial: &Path) -> io::Result<Option<(u64, u64)>> {
    Ok(Saved::read(&map_path(partial))?.map(|saved| (saved.here(), saved.total())))
}

/// Removes what lies at `partial`, and its range map; either may be missing. To be called with the old path after the
/// finished file was renamed, too.
/// # Errors
/// When one of them cannot be removed.
pub fn discard(partial: &Path) -> io::Result<()> {
    // The map goes first: without one, no byte of the file is believed.
    for path in [map_path(partial).as_path(), partial] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
