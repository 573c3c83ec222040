//! The thread that reads and writes a disk cache beside the step loop, over a fixed number of buffers. Never decides
//! what is read or written.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use frank_plan::DISK_CACHE_BUFFERS;

use super::{DiskCache, EntryKey};

/// Entries that are read ahead of who wants them: one is being read while another is being used.
const LOAD_BUFFERS: usize = 2;

/// Entries on their way to the disk. What finds no buffer comes again later.
const STORE_BUFFERS: usize = 2;

const _: () = assert!(
    (LOAD_BUFFERS + STORE_BUFFERS) as u64 <= DISK_CACHE_BUFFERS,
    "the plan counts the buffers"
);

/// An entry to be read. `tag` is the caller's own name for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load<T> {
    pub(crate) tag: T,
    pub(crate) key: EntryKey,
    pub(crate) n_bytes: usize,
}

#[derive(Debug)]
struct Store {
    key: EntryKey,
    parent: Option<EntryKey>,
    buffer: Vec<u8>,
    n_bytes: usize,
}

/// A disk cache with its thread. `T` names what is loaded.
#[derive(Debug)]
pub(crate) struct DiskWorker<T> {
    shared: Arc<Shared<T>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared<T> {
    cache: DiskCache,
    desk: Mutex<Desk<T>>,
    work: Condvar,
}

/// What caller and thread pass each other.
#[derive(Debug)]
struct Desk<T> {
    loads: VecDeque<Load<T>>,
    stores: VecDeque<Store>,
    /// What was loaded, in the order of the loads; no buffer where there was no entry.
    loaded: VecDeque<(Load<T>, Option<Vec<u8>>)>,
    load_buffers: Vec<Vec<u8>>,
    store_buffers: Vec<Vec<u8>>,
    ends: bool,
}

enum Job<T> {
    Load(Load<T>, Vec<u8>),
    Store(Store),
}

impl<T> Shared<T> {
    fn desk(&self) -> MutexGuard<'_, Desk<T>> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Copy + Send + 'static> DiskWorker<T> {
    /// Starts the thread for entries of at most `entry_bytes_max`. It calls `wake` after each entry, without holding
    /// anything that another method of this wants.
    ///
    /// # Panics
    /// When the system gives the process no thread.
    pub(crate) fn start(
        cache: DiskCache,
        entry_bytes_max: usize,
        wake: impl Fn() + Send + 'static,
    ) -> Self {
        let buffers = |n| (0..n).map(|_| vec![0; entry_bytes_max]).collect();
        let desk = Desk {
            loads: VecDeque::new(),
            stores: VecDeque::new(),
            loaded: VecDeque::new(),
            load_buffers: buffers(LOAD_BUFFERS),
            store_buffers: buffers(STORE_BUFFERS),
            ends: false,
        };
        let shared = Arc::new(Shared { cache, desk: Mutex::new(desk), work: Condvar::new() });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("frank-disk-cache".to_owned())
            .spawn(move || {
                while let Some(job) = of_thread.wait_for_job() {
                    of_thread.run(job);
                    wake();
                }
            })
            .expect("the system gives the process one more thread at start");
        Self { shared, thread: Some(thread) }
    }

    /// The cache that it works on.
    pub(crate) fn cache(&self) -> &DiskCache {
        &self.shared.cache
    }

    /// Asks for an entry. It comes through [`DiskWorker::take_loaded`], after those asked for before.
    pub(crate) fn load(&self, load: Load<T>) {
        self.shared.desk().loads.push_back(load);
        self.shared.work.notify_all();
    }

    /// Forgets loads that have not begun.
    pub(crate) fn forget(&self, is_unwanted: impl Fn(&T) -> bool) {
        self.shared.desk().loads.retain(|load| !is_unwanted(&load.tag));
    }

    /// The next entry that was loaded, if there is one, goes to `take` with its bytes: `None` when it was not there.
    /// False: nothing was loaded (yet).
    pub(crate) fn take_loaded(&self, take: impl FnOnce(T, Option<&[u8]>)) -> bool {
        let Some((load, buffer)) = self.shared.desk().loaded.pop_front() else { return false };
        take(load.tag, buffer.as_ref().map(|buffer| &buffer[..load.n_bytes]));
        if let Some(buffer) = buffer {
            self.shared.desk().load_buffers.push(buffer);
            self.shared.work.notify_all();
        }
        true
    }

    /// Has `fill` write the `n_bytes` of an entry, which is stored soon unless it says false. False, without calling it,
    /// while all buffers are on their way to the disk.
    pub(crate) fn store(
        &self,
        key: EntryKey,
        parent: Option<EntryKey>,
        n_bytes: usize,
        fill: impl FnOnce(&mut [u8]) -> bool,
    ) -> bool {
        let Some(mut buffer) = self.shared.desk().store_buffers.pop() else { return false };
        if fill(&mut buffer[..n_bytes]) {
            self.shared.desk().stores.push_back(Store { key, parent, buffer, n_bytes });
            self.shared.work.notify_all();
        } else {
            self.shared.desk().store_buffers.push(buffer);
        }
        true
    }

    /// Whether a buffer is free for an entry to be stored.
    pub(crate) fn may_store(&self) -> bool {
        !self.shared.desk().store_buffers.is_empty()
    }
}

impl<T> DiskWorker<T> {
    fn end(&mut self) {
        self.shared.desk().ends = true;
        self.shared.work.notify_all();
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so on stderr and ended all the same.
            drop(thread.join());
        }
    }
}

impl<T> Drop for DiskWorker<T> {
    /// Returns when what was to be stored is stored.
    fn drop(&mut self) {
        self.end();
    }
}

impl<T: Copy> Shared<T> {
    /// What somebody waits for comes before what nobody waits for. `None` when there will be nothing more.
    fn wait_for_job(&self) -> Option<Job<T>> {
        let mut desk = self.desk();
        loop {
            if !desk.ends
                && !desk.load_buffers.is_empty()
                && let Some(load) = desk.loads.pop_front()
                && let Some(buffer) = desk.load_buffers.pop()
            {
                return Some(Job::Load(load, buffer));
            }
            if let Some(store) = desk.stores.pop_front() {
                return Some(Job::Store(store));
            }
            if desk.ends {
                return None;
            }
            desk = self.work.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Does it and puts the outcome on the desk. A panic costs the entry and nothing else: a request may wait for it.
    fn run(&self, job: Job<T>) {
        match job {
            Job::Load(load, mut buffer) => {
                let bytes = &mut buffer[..load.n_bytes];
                let cache = AssertUnwindSafe(|| self.cache.load(&load.key, bytes));
                let is_there = catch_unwind(cache).unwrap_or(false);
                let mut desk = self.desk();
                if is_there {
                    desk.loaded.push_back((load, Some(buffer)));
                } else {
                    desk.loaded.push_back((load, None));
                    desk.load_buffers.push(buffer);
                }
            }
            Job::Store(Store { key, parent, buffer, n_bytes }) => {
                let bytes = &buffer[..n_bytes];
                let cache = AssertUnwindSafe(|| self.cache.store(&key, parent.as_ref(), bytes));
                // What became of it is of no use to anybody: a page that is not there is computed.
                drop(catch_unwind(cache));
                self.desk().store_buffers.push(buffer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use tempfile::TempDir;

    use super::*;

    const N_BYTES: usize = 100;

    /// A worker over `dir`, and where it says that it has done something.
    fn worker(dir: &TempDir) -> (DiskWorker<u32>, Receiver<()>) {
        let cache = DiskCache::open(dir.path(), 1 << 20, [0; 32]).unwrap();
        let (sender, receiver) = channel();
        // The test may be gone when the last entries are written.
        let worker = DiskWorker::start(cache, N_BYTES, move || {
            let _unheard = sender.send(());
        });
        (worker, receiver)
    }

    fn store(worker: &DiskWorker<u32>, n: u8) -> bool {
        worker.store([n; 32], None, N_BYTES, |bytes| {
            bytes.fill(n);
            true
        })
    }

    #[test]
    fn entries_come_in_the_order_they_were_asked_for_and_missing_ones_say_so() {
        let dir = TempDir::new().unwrap();
        let (worker, done) = worker(&dir);
        for n in 0..20 {
            while !store(&worker, n) {
                done.recv().unwrap();
            }
        }
        drop(worker);
        let (worker, done) = self::worker(&dir);
        for n in 0..21 {
            worker.load(Load { tag: n, key: [n as u8; 32], n_bytes: N_BYTES });
        }
        let mut found = Vec::new();
        while found.len() < 21 {
            let taken = worker.take_loaded(|tag, bytes| found.push((tag, bytes.map(|b| b[99]))));
            if !taken {
                done.recv().unwrap();
            }
        }
        let expected: Vec<_> = (0..21).map(|n| (n, (n < 20).then_some(n as u8))).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn buffers_that_nobody_takes_bound_what_is_read_ahead() {
        let dir = TempDir::new().unwrap();
        let (worker, done) = worker(&dir);
        assert!(store(&worker, 1));
        done.recv().unwrap();
        for tag in 0..20 {
            worker.load(Load { tag, key: [1; 32], n_bytes: N_BYTES });
        }
        for _ in 0..LOAD_BUFFERS {
            done.recv().unwrap();
        }
        assert!(store(&worker, 2), "a store does not wait for who takes no loads");
        done.recv().unwrap();
        assert_eq!(worker.shared.desk().loads.len(), 20 - LOAD_BUFFERS);
        worker.forget(|_| true);
        let mut n_loaded = 0;
        while worker.take_loaded(|_, _| n_loaded += 1) {}
        assert_eq!(n_loaded, LOAD_BUFFERS);
    }

    #[test]
    fn an_entry_that_cannot_be_made_costs_no_buffer() {
        let dir = TempDir::new().unwrap();
        let (worker, _done) = worker(&dir);
        for _ in 0..2 * STORE_BUFFERS {
            assert!(worker.store([1; 32], None, N_BYTES, |_| false));
        }
        assert!(worker.may_store() && !worker.cache().contains(&[1; 32]));
    }

    #[test]
    fn what_was_to_be_stored_is_stored_before_the_end() {
        let dir = TempDir::new().unwrap();
        let (worker, _done) = worker(&dir);
        let n_stored = (0..STORE_BUFFERS as u8).filter(|n| store(&worker, *n)).count();
        drop(worker);
        assert_eq!(n_stored, STORE_BUFFERS);
        assert_eq!(self::worker(&dir).0.cache().stats().entries, STORE_BUFFERS);
    }
}
