//! Reads by `io_uring`: all that were started go to the kernel in one call, into memory that it holds in place.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

use io_uring::{IoUring, Probe, opcode, squeue, types};

use super::DEPTH;
use super::backend::{Ended, Files, Staging, Transfer, Transfers};

/// A ring of the kernel's, with the files and the staging memory registered.
pub(super) struct Uring {
    ring: IoUring,
    /// Keeps the registered descriptors' files, as long as the ring.
    _files: Arc<Files>,
    staging: Arc<Staging>,
    /// Whether the staging memory is the ring's buffer 0.
    is_registered: bool,
    /// Transfers that were pushed and have not ended.
    n_under_way: usize,
}

impl std::fmt::Debug for Uring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Uring").field("n_under_way", &self.n_under_way).finish_non_exhaustive()
    }
}

impl Uring {
    /// Sets up a ring. Says why the staging memory could not be registered, where that was refused.
    ///
    /// # Errors
    /// What the system said when it has no ring for this process, or an old one without plain reads.
    pub(super) fn open(
        files: &Arc<Files>,
        staging: &Arc<Staging>,
        refuse_registering: bool,
    ) -> io::Result<(Self, Option<io::Error>)> {
        let ring = IoUring::new(DEPTH as u32)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Read::CODE) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let kinds = (0..files.len()).flat_map(|file| [(file, false), (file, true)]);
        let descriptors: Vec<RawFd> =
            kinds.map(|(file, direct)| files.descriptor(file, direct)).collect();
        if !descriptors.is_empty() {
            ring.submitter().register_files(&descriptors)?;
        }
        let refused = if refuse_registering {
            Some(io::Error::from_raw_os_error(libc::ENOMEM))
        } else {
            register(&ring, staging).err()
        };
        let (files, staging) = (Arc::clone(files), Arc::clone(staging));
        let is_registered = refused.is_none();
        Ok((Self { ring, _files: files, staging, is_registered, n_under_way: 0 }, refused))
    }

    fn entry(&self, transfer: Transfer) -> squeue::Entry {
        let Transfer { slot, file, direct, offset, place, len } = transfer;
        let descriptor = types::Fixed((2 * file + usize::from(direct)) as u32);
        let target = self.staging.target(place, len);
        let len = u32::try_from(len).expect("the queue asks for less at once");
        let entry = if self.is_registered {
            opcode::ReadFixed::new(descriptor, target, len, 0).offset(offset).build()
        } else {
            opcode::Read::new(descriptor, target, len).offset(offset).build()
        };
        entry.user_data(slot as u64)
    }

    /// Hands over what was pushed, and waits until `n_ended` have ended.
    fn enter(&mut self, n_ended: usize) {
        loop {
            match self.ring.submit_and_wait(n_ended).map_err(|error| error.raw_os_error()) {
                Ok(_) => return,
                // Memory or places are short for a moment. What is under way gives some back.
                Err(Some(libc::EAGAIN | libc::EBUSY)) if n_ended == 0 => return,
                Err(Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) => {
                    if !self.ring.completion().is_empty() {
                        return;
                    }
                    std::thread::yield_now();
                }
                Err(error) => panic!("io_uring_enter of a ring in use: {error:?}"),
            }
        }
    }
}

impl Transfers for Uring {
    fn push(&mut self, transfer: Transfer) {
        let entry = self.entry(transfer);
        // SAFETY: the target lies in the staging memory and is this transfer's alone until it ended; `staging` keeps it
        // mapped, and `drop` waits for the kernel. The descriptor is registered.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the queue has no more under way than the ring has entries");
        self.n_under_way += 1;
    }

    fn submit(&mut self) {
        if !self.ring.submission().is_empty() {
            self.enter(0);
        }
    }

    fn next(&mut self, wait: bool) -> Option<Ended> {
        let mut entry = self.ring.completion().next();
        while wait && entry.is_none() {
            self.enter(1);
            entry = self.ring.completion().next();
        }
        let entry = entry?;
        self.n_under_way -= 1;
        let result = usize::try_from(entry.result())
            .map_err(|_| io::Error::from_raw_os_error(-entry.result()));
        Some(Ended { slot: entry.user_data() as usize, result })
    }
}

impl Drop for Uring {
    /// Waits for the kernel: it writes to the staging memory until the last transfer ended.
    fn drop(&mut self) {
        while self.n_under_way > 0 {
            self.next(true);
        }
    }
}

/// Has the kernel hold the staging memory in place, as buffer 0.
fn register(ring: &IoUring, staging: &Staging) -> io::Result<()> {
    let len = staging.len();
    let buffer = libc::iovec { iov_base: staging.target(0, len).cast(), iov_len: len };
    // SAFETY: the memory stays mapped for as long as the ring, which is dropped before `staging`.
    unsafe { ring.submitter().register_buffers(&[buffer]) }
}
