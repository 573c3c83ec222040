//! Reads out of mapped files. Bytes are copied by the kernel, to which a page that is not there is an error; a load of
//! ours from a file that was cut meanwhile would end the process.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use super::backend::{Ended, Files, Staging, Transfer, Transfers};
use crate::memory::{HUGE_PAGE_BYTES, PAGE_BYTES};

/// Mapped files, and what is to be copied out of them.
#[derive(Debug)]
pub(super) struct Maps {
    maps: Vec<Mapping>,
    files: Arc<Files>,
    staging: Arc<Staging>,
    waiting: VecDeque<Transfer>,
    /// How many of those that wait the system has been told of.
    n_told: usize,
}

impl Maps {
    /// Maps whole files.
    ///
    /// # Errors
    /// What the system said when it does not map a file, or does not let the process copy from its own memory.
    pub(super) fn open(files: &Arc<Files>, staging: &Arc<Staging>) -> io::Result<Self> {
        let maps =
            (0..files.len()).map(|file| Mapping::new(files, file)).collect::<Result<_, _>>()?;
        let probe = [0u8];
        if staging.len() > 0 {
            copy(probe.as_ptr(), staging.target(0, probe.len()), probe.len())?;
        }
        let (files, staging) = (Arc::clone(files), Arc::clone(staging));
        Ok(Self { maps, files, staging, waiting: VecDeque::new(), n_told: 0 })
    }

    fn read(&self, transfer: Transfer) -> io::Result<usize> {
        let Transfer { file, offset, place, len, .. } = transfer;
        let map = &self.maps[file];
        let Some((from, len)) = map.range(offset, len) else { return Ok(0) };
        match copy(from, self.staging.target(place, len), len) {
            // Fewer pages than were mapped: the file is shorter than it was.
            Err(error) if error.raw_os_error() == Some(libc::EFAULT) => {
                if self.files.data(file).len_now()? <= offset {
                    return Ok(0);
                }
                Err(io::Error::from_raw_os_error(libc::EIO))
            }
            other => other,
        }
    }
}

impl Transfers for Maps {
    fn push(&mut self, transfer: Transfer) {
        self.waiting.push_back(transfer);
    }

    /// Has the system begin to fetch the pages of what was pushed.
    fn submit(&mut self) {
        for transfer in self.waiting.iter().skip(self.n_told) {
            self.maps[transfer.file].advise(transfer, PAGE_BYTES, libc::MADV_WILLNEED);
        }
        self.n_told = self.waiting.len();
    }

    fn next(&mut self, _wait: bool) -> Option<Ended> {
        self.submit();
        let transfer = self.waiting.pop_front()?;
        self.n_told -= 1;
        let result = self.read(transfer);
        // The system also maps what lies around the pages that were touched, as far as a huge page reaches.
        self.maps[transfer.file].advise(&transfer, HUGE_PAGE_BYTES, libc::MADV_DONTNEED);
        Some(Ended { slot: transfer.slot, result })
    }
}

/// A whole file, mapped for reading.
#[derive(Debug)]
struct Mapping {
    start: *mut libc::c_void,
    /// Bytes that are mapped, 0 for a file without any: there is no mapping then.
    len: usize,
}

// SAFETY: the mapping belongs to this value alone and is only read, by the kernel; `drop` unmaps it.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(files: &Files, file: usize) -> io::Result<Self> {
        let len =
            usize::try_from(files.data(file).len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        if len == 0 {
            return Ok(Self { start: std::ptr::null_mut(), len });
        }
        let (nowhere, descriptor) = (std::ptr::null_mut(), files.descriptor(file, false));
        // SAFETY: a new mapping wherever the system likes; it replaces none.
        let start =
            unsafe { libc::mmap(nowhere, len, libc::PROT_READ, libc::MAP_SHARED, descriptor, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping of the call above. Without this the system reads ahead of each page that is touched.
        let _refused = unsafe { libc::madvise(start, len, libc::MADV_RANDOM) };
        Ok(Self { start, len })
    }

    /// Where the bytes from `offset` are mapped, and how many of `len` there are; `None` past the end.
    fn range(&self, offset: u64, len: usize) -> Option<(*const u8, usize)> {
        let offset = usize::try_from(offset).ok().filter(|&offset| offset < self.len)?;
        Some((self.start.cast::<u8>().wrapping_add(offset), len.min(self.len - offset)))
    }

    /// Says what will happen to the pages of a transfer, whole ones of `page_bytes`; the system may refuse, and is as right
    /// and slower then.
    fn advise(&self, transfer: &Transfer, page_bytes: u64, advice: libc::c_int) {
        let start = transfer.offset - transfer.offset % page_bytes;
        let end = (transfer.offset + transfer.len as u64).next_multiple_of(page_bytes);
        let len = (end - start) as usize;
        if let Some((start, len)) = self.range(start, len) {
            // SAFETY: pages of this mapping, which nothing in this process refers to but by this value; both kinds of
            // advice leave what a shared mapping of a file holds as it is.
            let _refused = unsafe { libc::madvise(start.cast_mut().cast(), len, advice) };
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: the mapping of `new`, which nothing refers to any more.
            let status = unsafe { libc::munmap(self.start, self.len) };
            assert_eq!(status, 0, "munmap: {}", io::Error::last_os_error());
        }
    }
}

/// Has the kernel copy `len` bytes within this process, and says how many it could.
fn copy(from: *const u8, to: *mut u8, len: usize) -> io::Result<usize> {
    let target = libc::iovec { iov_base: to.cast(), iov_len: len };
    let source = libc::iovec { iov_base: from.cast_mut().cast(), iov_len: len };
    let own = std::process::id().cast_signed();
    // SAFETY: private to this file: `to` starts `len` bytes of staging memory that belong to the transfer at hand alone
    // (or, when a queue opens, to nobody yet). The kernel checks each page of the source, and only reads it.
    let n_bytes =
        unsafe { libc::process_vm_readv(own, &raw const target, 1, &raw const source, 1, 0) };
    usize::try_from(n_bytes).map_err(|_| io::Error::last_os_error())
}
