//! Many reads of data files at once, into staging memory that is taken once. Never decides what is read, and leaves
//! nothing of it in the page cache.

mod arena;
mod backend;
mod failure;
mod mmap;
mod opening;
mod pread;
mod uring;

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::data_file::DataFile;
use crate::error::OsError;
use crate::faults::Faults;
use crate::memory::AnonBuffer;
use crate::scratch_file::DIRECT_ALIGNMENT;
use arena::Arena;
pub use backend::IoBackend;
use backend::{Ended, Files, Staging, Transfer, Transfers, direct_refusal};
use failure::{Attempts, Remedy};
use opening::joined;

/// Reads in flight at most: more of them wait in the drive's own queue.
const DEPTH: usize = 64;

/// Bytes that the system is asked for at once at most; it gives no more than 2 GiB.
const TRANSFER_BYTES_MAX: usize = 1 << 30;

const PAGE: usize = DIRECT_ALIGNMENT;

/// How a [`ReadQueue`] reads.
#[derive(Debug, Clone)]
pub struct QueueOptions {
    /// The way to read; `None` takes `io_uring`, `pread` where the system has none, and `mmap` where it gives no threads.
    pub backend: Option<IoBackend>,
    /// Bytes of staging memory, rounded up to [`AnonBuffer::occupied`].
    pub staging_bytes: usize,
    /// Failures that a test asks for.
    pub faults: Faults,
}

/// Reads of some files, in flight and ended, and the memory that they fill.
///
/// Dropping it waits for what the system has begun.
#[derive(Debug)]
pub struct ReadQueue {
    /// Tells what ended here from what ended in another queue.
    id: u64,
    backend: IoBackend,
    transfers: Box<dyn Transfers>,
    files: Arc<Files>,
    /// For each file whether it is read past the page cache.
    direct: Vec<bool>,
    fallback: Option<String>,
    staging: Arc<Staging>,
    arena: Arena,
    /// Reads in flight.
    reads: Vec<Option<Read>>,
    n_in_flight: usize,
    ended: VecDeque<Finished>,
    faults: Faults,
    /// Transfers that were handed to the backend.
    n_transfers: u64,
    n_reread: u64,
    /// Since when reads are in flight; `None` when none is.
    busy_since: Option<Instant>,
    /// Time before that.
    busy: Duration,
}

/// A read in flight.
#[derive(Debug)]
struct Read {
    tag: u64,
    file: usize,
    offset: u64,
    len: usize,
    /// Its pages of the staging memory; the first holds byte `offset` rounded down to a page.
    pages: Range<usize>,
    /// All bytes before this offset of the file have come.
    filled: u64,
    /// Whether the transfer under way goes past the page cache.
    direct: bool,
    /// The number of that transfer.
    number: u64,
    attempts: Attempts,
}

impl Read {
    fn end(&self) -> u64 {
        self.offset + self.len as u64
    }

    /// Where the byte at `offset` of the file lies in the staging memory.
    fn place(&self, offset: u64) -> usize {
        self.pages.start * PAGE + (offset - page_start(self.offset)) as usize
    }
}

/// A read that ended. Its staging memory stays taken until [`ReadQueue::give_back`].
#[derive(Debug)]
pub struct Finished {
    /// What [`ReadQueue::start`] was given.
    pub tag: u64,
    /// [`OsError::Read`] when the system refused, [`OsError::PastEnd`] when the file ends before; there are no bytes then.
    pub result: Result<(), OsError>,
    queue: u64,
    pages: Range<usize>,
    start: usize,
    len: usize,
}

impl ReadQueue {
    /// Takes the staging memory and readies a way to read `files`.
    ///
    /// # Errors
    /// [`OsError::Backend`] when the system refuses the way that was asked for, [`OsError::NoBackend`] when all of them;
    /// [`OsError::Map`] or [`OsError::Populate`] when there is no memory.
    pub fn open(files: &[Arc<DataFile>], options: &QueueOptions) -> Result<Self, OsError> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let faults = options.faults;
        // Where a file is read through the page cache, nothing beside what is asked for is to lie there.
        files.iter().for_each(|file| file.expect_scattered_reads());
        let staging = Arc::new(Staging::new(options.staging_bytes)?);
        let (files, refused) = Files::open(files, faults.direct_refused_at_open);
        let files = Arc::new(files);
        let opened = opening::open(&files, &staging, options)?;
        let is_mapped = opened.backend == IoBackend::Mmap;
        let direct: Vec<bool> =
            (0..files.len()).map(|file| !is_mapped && files.has_direct(file)).collect();
        let mut queue = Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            backend: opened.backend,
            transfers: opened.transfers,
            files,
            direct,
            fallback: opened.fallback,
            arena: Arena::new(staging.len() / PAGE),
            staging,
            reads: (0..DEPTH).map(|_| None).collect(),
            n_in_flight: 0,
            ended: VecDeque::new(),
            faults,
            n_transfers: 0,
            n_reread: 0,
            busy_since: None,
            busy: Duration::ZERO,
        };
        if let Some(refused) = refused.filter(|_| !is_mapped) {
            queue.say(refused);
        }
        Ok(queue)
    }

    /// How reads reach the drive.
    #[must_use]
    pub fn backend(&self) -> IoBackend {
        self.backend
    }

    /// Whether all files are read past the page cache. May become false when a file system refuses only then.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.direct.iter().all(|&direct| direct)
    }

    /// What the system refused and what is done instead; `None` when nothing was. May appear later.
    #[must_use]
    pub fn fallback(&self) -> Option<&str> {
        self.fallback.as_deref()
    }

    /// Times that a read failed and was begun again, through the page cache.
    #[must_use]
    pub fn n_reread(&self) -> u64 {
        self.n_reread
    }

    /// Time for which reads were in flight, one or more of them. Each is from [`ReadQueue::start`] until
    /// [`ReadQueue::finish`] or another call takes note of its end.
    #[must_use]
    pub fn busy(&self) -> Duration {
        self.busy + self.busy_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Bytes of memory that the staging occupies.
    #[must_use]
    pub fn occupied(&self) -> u64 {
        AnonBuffer::occupied(self.staging.len() as u64)
    }

    /// Reads that were started and that [`ReadQueue::finish`] has not given.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.n_in_flight + self.ended.len()
    }

    /// Starts a read of `len` bytes, not 0, from `offset` of file number `file`. False when the staging memory has no
    /// room or too much is in flight: nothing happened then. Never waits.
    ///
    /// # Panics
    /// When there is no such file, or `len` is 0.
    #[must_use]
    pub fn start(&mut self, file: usize, offset: u64, len: usize, tag: u64) -> bool {
        assert!(file < self.files.len() && len > 0, "{len} bytes of file {file}");
        let past_any = offset.checked_add(len as u64).is_none_or(|end| end > i64::MAX as u64);
        if past_any {
            let path = self.files.data(file).path().to_owned();
            let result = Err(OsError::PastEnd { path, offset, want: len as u64 });
            self.ended.push_back(Finished::without_bytes(self.id, tag, result));
            return true;
        }
        let Some(slot) = self.reads.iter().position(Option::is_none) else { return false };
        let n_pages = (offset % PAGE as u64 + len as u64).div_ceil(PAGE as u64) as usize;
        let Some(pages) = self.arena.take(n_pages) else { return false };
        let (filled, direct, attempts) = (offset, self.direct[file], Attempts::default());
        let read = Read { tag, file, offset, len, pages, filled, direct, number: 0, attempts };
        self.reads[slot] = Some(read);
        self.n_in_flight += 1;
        self.busy_since.get_or_insert_with(Instant::now);
        self.transfer(slot);
        true
    }

    /// Hands all that was started to the system, in one call.
    pub fn submit(&mut self) {
        self.transfers.submit();
    }

    /// One read that ended, the oldest first. With `wait` what was started is handed to the system, and it blocks until
    /// a read ended; `None` when none has, or none is in flight.
    pub fn finish(&mut self, wait: bool) -> Option<Finished> {
        loop {
            if let Some(finished) = self.ended.pop_front() {
                return Some(finished);
            }
            let may_wait = wait && self.n_in_flight > 0;
            let ended = self.transfers.next(may_wait)?;
            self.settle(ended);
        }
    }

    /// The bytes of a read, exactly those that were asked for; none when it failed.
    ///
    /// # Panics
    /// When it is a read of another queue.
    #[must_use]
    pub fn bytes(&self, finished: &Finished) -> &[u8] {
        assert_eq!(finished.queue, self.id, "a read belongs to its queue");
        // SAFETY: the pages of a finished read are taken until `give_back` takes it away, so no transfer was given them;
        // its own have ended.
        unsafe { self.staging.bytes(finished.start, finished.len) }
    }

    /// Frees the staging memory of a read.
    ///
    /// # Panics
    /// When it is a read of another queue.
    #[expect(clippy::needless_pass_by_value, reason = "its bytes are gone")]
    pub fn give_back(&mut self, finished: Finished) {
        assert_eq!(finished.queue, self.id, "a read belongs to its queue");
        if !finished.pages.is_empty() {
            self.arena.give_back(&finished.pages);
        }
    }

    /// Asks the backend for what a read still lacks.
    fn transfer(&mut self, slot: usize) {
        let number = self.n_transfers;
        self.n_transfers += 1;
        let read = self.reads[slot].as_mut().expect("only reads in flight are continued");
        read.direct = self.direct[read.file] && !read.attempts.has_failed();
        read.number = number;
        let (offset, end) = if read.direct {
            (page_start(read.filled), read.end().next_multiple_of(PAGE as u64))
        } else {
            (read.filled, read.end())
        };
        let mut len = (end - offset).min(TRANSFER_BYTES_MAX as u64) as usize;
        if self.faults.short_read.is_some_and(|window| window.holds(number)) {
            len = if read.direct { (len / 2).next_multiple_of(PAGE) } else { len.div_ceil(2) };
        }
        let (place, file, direct) = (read.pages.start * PAGE, read.file, read.direct);
        let place = place + (offset - page_start(read.offset)) as usize;
        self.transfers.push(Transfer { slot, file, direct, offset, place, len });
    }

    /// Takes note of a transfer: its read ended, or goes on.
    fn settle(&mut self, ended: Ended) {
        let Ended { slot, mut result } = ended;
        let read = self.reads[slot].as_mut().expect("a transfer belongs to a read in flight");
        if read.direct && self.faults.direct_refused_at_transfer {
            result = Err(io::Error::from_raw_os_error(libc::EINVAL));
        } else if self.faults.read_error.is_some_and(|window| window.holds(read.number)) {
            result = Err(io::Error::from_raw_os_error(libc::EIO));
        }
        match result {
            Ok(n_bytes) => self.advance(slot, n_bytes),
            Err(error) => self.mend(slot, error),
        }
    }

    /// Takes note of a transfer that went wrong: its read goes on in another way, or fails.
    fn mend(&mut self, slot: usize, error: io::Error) {
        let read = self.reads[slot].as_mut().expect("a transfer belongs to a read in flight");
        match read.attempts.remedy(&error, read.direct) {
            Remedy::Buffered => {
                let file = read.file;
                if std::mem::replace(&mut self.direct[file], false) {
                    self.say(direct_refusal(self.files.data(file), &error));
                }
            }
            Remedy::Again => {}
            Remedy::Reread(pause) => {
                self.n_reread += 1;
                thread::sleep(pause);
            }
            Remedy::Fail => {
                let (path, offset, want) =
                    (self.files.data(read.file).path().to_owned(), read.offset, read.len as u64);
                return self.end(slot, Err(OsError::Read { path, offset, want, source: error }));
            }
        }
        self.continue_read(slot);
    }

    /// Takes note of `n_bytes` more.
    fn advance(&mut self, slot: usize, n_bytes: usize) {
        let read = self.reads[slot].as_mut().expect("a transfer belongs to a read in flight");
        let from = if read.direct { page_start(read.filled) } else { read.filled };
        let filled = from + n_bytes as u64;
        if filled >= read.end() {
            return self.end(slot, Ok(()));
        }
        if filled <= read.filled {
            let (path, offset, want) =
                (self.files.data(read.file).path().to_owned(), read.offset, read.len as u64);
            return self.end(slot, Err(OsError::PastEnd { path, offset, want }));
        }
        read.filled = filled;
        read.attempts.got_on();
        self.continue_read(slot);
    }

    /// Asks for the rest at once: nobody else will.
    fn continue_read(&mut self, slot: usize) {
        self.transfer(slot);
        self.transfers.submit();
    }

    fn end(&mut self, slot: usize, result: Result<(), OsError>) {
        let read = self.reads[slot].take().expect("a read ends once");
        self.n_in_flight -= 1;
        if self.n_in_flight == 0 {
            self.busy += self.busy_since.take().map_or(Duration::ZERO, |since| since.elapsed());
        }
        if !read.direct {
            self.files.data(read.file).forget_cached(read.offset, read.len as u64);
        }
        let finished = if result.is_ok() {
            let start = read.place(read.offset);
            let Read { tag, pages, len, .. } = read;
            Finished { tag, result, queue: self.id, pages, start, len }
        } else {
            self.arena.give_back(&read.pages);
            Finished::without_bytes(self.id, read.tag, result)
        };
        self.ended.push_back(finished);
    }

    fn say(&mut self, refused: String) {
        self.fallback = Some(joined(self.fallback.take(), Some(refused)));
    }
}

impl Finished {
    fn without_bytes(queue: u64, tag: u64, result: Result<(), OsError>) -> Self {
        Self { tag, result, queue, pages: 0..0, start: 0, len: 0 }
    }
}

fn page_start(offset: u64) -> u64 {
    offset - offset % PAGE as u64
}
