//! Reads by a few threads that each wait for one at a time.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::backend::{Ended, Files, Staging, Transfer, Transfers};

/// Threads: more of them wait for memory and no longer for the drive.
const N_THREADS: usize = 4;

/// Threads that read, and what they are to read.
#[derive(Debug)]
pub(super) struct Preads {
    pushed: Vec<Transfer>,
    work: Arc<Work>,
    ended: Receiver<Ended>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Work {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    transfers: VecDeque<Transfer>,
    closed: bool,
}

impl Preads {
    /// Starts the threads; fewer where the system gives no more.
    ///
    /// # Errors
    /// What the system said when it gives none.
    pub(super) fn start(files: &Arc<Files>, staging: &Arc<Staging>) -> io::Result<Self> {
        let work = Arc::new(Work::default());
        let (sender, ended) = mpsc::channel();
        let mut started = Self { pushed: Vec::new(), work, ended, threads: Vec::new() };
        for _ in 0..N_THREADS {
            let (work, sender) = (Arc::clone(&started.work), sender.clone());
            let (files, staging) = (Arc::clone(files), Arc::clone(staging));
            let thread = thread::Builder::new().name("frank-read".to_owned());
            match thread.spawn(move || work.read_all(&files, &staging, &sender)) {
                Ok(thread) => started.threads.push(thread),
                Err(error) if started.threads.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(started)
    }
}

impl Transfers for Preads {
    fn push(&mut self, transfer: Transfer) {
        self.pushed.push(transfer);
    }

    fn submit(&mut self) {
        if !self.pushed.is_empty() {
            self.work.lock().transfers.extend(self.pushed.drain(..));
            self.work.changed.notify_all();
        }
    }

    fn next(&mut self, wait: bool) -> Option<Ended> {
        if !wait {
            return self.ended.try_recv().ok();
        }
        self.submit();
        Some(self.ended.recv().expect("threads end when the queue does"))
    }
}

impl Drop for Preads {
    /// Leaves out what no thread has begun, and waits for the rest.
    fn drop(&mut self) {
        let mut waiting = self.work.lock();
        waiting.transfers.clear();
        waiting.closed = true;
        drop(waiting);
        self.work.changed.notify_all();
        for thread in self.threads.drain(..) {
            let _panicked = thread.join();
        }
    }
}

impl Work {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The work of a thread, until the queue is dropped.
    fn read_all(&self, files: &Files, staging: &Staging, ended: &Sender<Ended>) {
        while let Some(transfer) = self.take() {
            let result = read(files, staging, transfer);
            if ended.send(Ended { slot: transfer.slot, result }).is_err() {
                return;
            }
        }
    }

    /// The oldest transfer; waits for one. `None` when the queue was dropped.
    fn take(&self) -> Option<Transfer> {
        let nothing_to_do = |waiting: &mut Waiting| waiting.transfers.is_empty() && !waiting.closed;
        let mut waiting = self
            .changed
            .wait_while(self.lock(), nothing_to_do)
            .unwrap_or_else(PoisonError::into_inner);
        waiting.transfers.pop_front()
    }
}

fn read(files: &Files, staging: &Staging, transfer: Transfer) -> io::Result<usize> {
    let Transfer { file, direct, place, len, .. } = transfer;
    let offset = transfer.offset.try_into().map_err(|_| io::ErrorKind::InvalidInput)?;
    let (descriptor, target) = (files.descriptor(file, direct), staging.target(place, len));
    // SAFETY: `target` starts `len` bytes of staging memory, which `staging` keeps mapped; the queue has given them to
    // this transfer alone, and lends them to nobody before it ended. `files` keeps the descriptor open.
    let n_bytes = unsafe { libc::pread(descriptor, target.cast(), len, offset) };
    usize::try_from(n_bytes).map_err(|_| io::Error::last_os_error())
}
