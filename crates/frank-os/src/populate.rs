//! Gives memory its pages before it is written to: what the system lacks is known then, and clearing pages, which takes
//! longer than reading a file into them, can be shared among threads. Never changes a byte.

use std::io;
use std::slice::ChunksMut;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::cpu::cpu_count;
use crate::error::OsError;
use crate::memory::PAGE_BYTES;

/// Bytes that a thread takes at a time. Less than two of them are not worth a second thread.
const SHARE_BYTES: usize = 64 << 20;

/// Threads at most: a few of them clear as fast as the memory takes it.
const THREADS_MAX: usize = 4;

/// Gives all pages of `bytes` their memory now, by this thread alone, so that no later write waits for one or fails.
///
/// # Errors
/// [`OsError::Populate`] when the system has no memory for them.
pub fn populate(bytes: &mut [u8]) -> Result<(), OsError> {
    match populate_write(bytes) {
        Ok(()) => Ok(()),
        // Kernels before 5.14 do not know the request.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            touch_pages(bytes);
            Ok(())
        }
        Err(source) => Err(OsError::Populate { bytes: bytes.len() as u64, source }),
    }
}

/// [`populate`], by as many threads as there are CPUs and the work is worth.
pub(crate) fn populate_together(bytes: &mut [u8]) -> Result<(), OsError> {
    let n_threads = cpu_count().min(THREADS_MAX).min(bytes.len() / SHARE_BYTES);
    let shares = Mutex::new(bytes.chunks_mut(SHARE_BYTES));
    let work = || {
        let ended = populate_shares(&shares);
        if ended.is_err() {
            // The others stop as well.
            *lock(&shares) = [].chunks_mut(SHARE_BYTES);
        }
        ended
    };
    thread::scope(|scope| {
        // What the system does not give of threads, this one does alone.
        let start = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
        let others: Vec<_> = (1..n_threads).map_while(start).collect();
        let own = work();
        let ended = others.into_iter().map(|other| other.join().expect("nothing in it panics"));
        ended.fold(own, Result::and)
    })
}

fn populate_shares(shares: &Mutex<ChunksMut<'_, u8>>) -> Result<(), OsError> {
    loop {
        let share = lock(shares).next();
        match share {
            Some(share) => populate(share)?,
            None => return Ok(()),
        }
    }
}

fn lock<'a, 'b>(shares: &'a Mutex<ChunksMut<'b, u8>>) -> MutexGuard<'a, ChunksMut<'b, u8>> {
    shares.lock().unwrap_or_else(PoisonError::into_inner)
}

fn populate_write(bytes: &mut [u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    // Whole pages, those at the ends included, which are mapped as the bytes in them are.
    let before = bytes.as_ptr().addr() % PAGE_BYTES as usize;
    let start = bytes.as_mut_ptr().wrapping_sub(before);
    let len = (before + bytes.len()).next_multiple_of(PAGE_BYTES as usize);
    loop {
        // SAFETY: pages that hold bytes of a slice, so they are mapped; the request gives them memory as a write would, and
        // changes no byte of theirs.
        let status = unsafe { libc::madvise(start.cast(), len, libc::MADV_POPULATE_WRITE) };
        if status == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Writes one byte of each page with the value that it has.
fn touch_pages(bytes: &mut [u8]) {
    for byte in bytes.iter_mut().step_by(PAGE_BYTES as usize) {
        *byte = std::hint::black_box(*byte);
    }
    if let Some(last) = bytes.last_mut() {
        *last = std::hint::black_box(*last);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::memory::{AnonBuffer, HUGE_PAGE_BYTES};
    use crate::process::process_memory;

    #[test]
    fn pages_keep_their_bytes() {
        let mut bytes = [7u8; 3 * PAGE_BYTES as usize + 1];
        touch_pages(&mut bytes);
        populate(&mut bytes[100..9000]).unwrap();
        populate(&mut []).unwrap();
        assert!(bytes.iter().all(|&byte| byte == 7));
    }

    /// That `fill` takes the memory of a buffer of 64 MiB.
    fn check_taken(fill: impl FnOnce(&mut [u8])) {
        let mut buffer = AnonBuffer::new(32 * HUGE_PAGE_BYTES).unwrap();
        let before = process_memory().unwrap().rss;
        fill(buffer.as_mut_slice());
        let after = process_memory().unwrap().rss;
        assert!(after >= before + 31 * HUGE_PAGE_BYTES, "{before} -> {after}");
    }

    #[test]
    fn touching_pages_takes_their_memory() {
        check_taken(touch_pages);
    }

    #[test]
    fn slices_of_a_buffer_take_their_memory() {
        check_taken(|bytes| {
            bytes.chunks_mut(5_000_001).for_each(|slice| populate(slice).unwrap());
        });
    }

    #[test]
    fn memory_that_cannot_be_had_is_an_error_whichever_thread_meets_it() {
        let mut buffer = AnonBuffer::new(4 * SHARE_BYTES as u64).unwrap();
        // Pages of a file that has none cannot be had.
        let (empty, len) = (tempfile::tempfile().unwrap(), HUGE_PAGE_BYTES as usize);
        for share in 0..4 {
            let place = buffer.start().wrapping_add(share * SHARE_BYTES);
            let (protection, flags) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_FIXED);
            // SAFETY: replaces a part of the mapping of `buffer`, which nothing refers to and which `buffer` unmaps.
            let mapped =
                unsafe { libc::mmap(place.cast(), len, protection, flags, empty.as_raw_fd(), 0) };
            assert_eq!(mapped, place.cast());
            let refused = populate_together(buffer.as_mut_slice());
            assert!(matches!(refused, Err(OsError::Populate { .. })), "{refused:?}");
            // SAFETY: as above, with memory again.
            let mapped = unsafe {
                libc::mmap(place.cast(), len, protection, flags | libc::MAP_ANONYMOUS, -1, 0)
            };
            assert_eq!(mapped, place.cast());
        }
        populate_together(buffer.as_mut_slice()).unwrap();
    }
}
