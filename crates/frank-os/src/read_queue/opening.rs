//! Which way of reading the system agrees to: the one that was asked for, or the first of all. Never reads.

use std::io;
use std::sync::Arc;

use super::QueueOptions;
use super::backend::{Files, IoBackend, Staging, Transfers};
use super::mmap::Maps;
use super::pread::Preads;
use super::uring::Uring;
use crate::error::OsError;
use crate::faults::Faults;

/// The ways to read, the best first.
const ORDER: [IoBackend; 3] = [IoBackend::Uring, IoBackend::Pread, IoBackend::Mmap];

/// A way to read that the system agreed to.
pub(super) struct Opened {
    pub(super) backend: IoBackend,
    pub(super) transfers: Box<dyn Transfers>,
    /// What it refused before, or of it.
    pub(super) fallback: Option<String>,
}

/// Opens the way that `options` name, or the first that the system has.
///
/// # Errors
/// [`OsError::Backend`] when it refuses the one that was asked for, [`OsError::NoBackend`] when it refuses all.
pub(super) fn open(
    files: &Arc<Files>,
    staging: &Arc<Staging>,
    options: &QueueOptions,
) -> Result<Opened, OsError> {
    let open = |backend| open_one(files, staging, backend, options.faults);
    if let Some(backend) = options.backend {
        return open(backend).map_err(|source| OsError::Backend { backend, source });
    }
    let mut refused = None;
    for backend in ORDER {
        match open(backend) {
            Ok(mut opened) => {
                if let Some(refused) = refused {
                    let instead = format!("reads with {backend}: {refused}");
                    opened.fallback = Some(joined(Some(instead), opened.fallback));
                }
                return Ok(opened);
            }
            Err(error) => {
                refused = Some(joined(refused, Some(format!("{backend} refused: {error}"))));
            }
        }
    }
    Err(OsError::NoBackend { refused: refused.unwrap_or_default() })
}

fn open_one(
    files: &Arc<Files>,
    staging: &Arc<Staging>,
    backend: IoBackend,
    faults: Faults,
) -> io::Result<Opened> {
    let mut fallback = None;
    let transfers: Box<dyn Transfers> = match backend {
        IoBackend::Uring if faults.uring_refused => {
            return Err(io::Error::from_raw_os_error(libc::ENOSYS));
        }
        IoBackend::Uring => {
            let (uring, refused) = Uring::open(files, staging, faults.registering_refused)?;
            fallback = refused
                .map(|error| format!("io_uring reads into memory that is not registered: {error}"));
            Box::new(uring)
        }
        IoBackend::Pread => {
            faults.thread()?;
            Box::new(Preads::start(files, staging)?)
        }
        IoBackend::Mmap => Box::new(Maps::open(files, staging)?),
    };
    Ok(Opened { backend, transfers, fallback })
}

/// What was said before and what is said now, in one sentence.
pub(super) fn joined(before: Option<String>, now: Option<String>) -> String {
    let said: Vec<String> = before.into_iter().chain(now).collect();
    said.join("; ")
}
