//! Anonymous memory in huge pages. Never a mapped file, and never shared with another process.

use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;

use crate::error::OsError;
use crate::populate::populate_together;

/// Bytes of a huge page; every [`AnonBuffer`] starts on such a border and occupies whole ones.
pub const HUGE_PAGE_BYTES: u64 = 2 << 20;

/// Bytes of the smallest page of any machine that frank runs on.
pub const PAGE_BYTES: u64 = 4 << 10;

/// [`HUGE_PAGE_BYTES`] as a length.
const HUGE_PAGE_LEN: usize = HUGE_PAGE_BYTES as usize;

/// Private zeroed memory, backed by huge pages where the kernel gives them.
///
/// The slices start on a [`HUGE_PAGE_BYTES`] border, so they may be cast to any plain type. Pages take up
/// memory when they are first written, or at once after [`AnonBuffer::populate`].
#[derive(Debug)]
pub struct AnonBuffer {
    start: NonNull<u8>,
    /// Bytes that the owner asked for.
    len: usize,
    /// Bytes of the mapping: `len` rounded up to whole huge pages, 0 when there is no mapping.
    mapped_len: usize,
}

// SAFETY: the mapping belongs to this value alone (`new` maps it private, only `drop` unmaps it), so it may
// move to another thread like a `Box<[u8]>`.
unsafe impl Send for AnonBuffer {}

// SAFETY: `&AnonBuffer` only lends `&[u8]`; writing takes `&mut AnonBuffer`.
unsafe impl Sync for AnonBuffer {}

impl AnonBuffer {
    /// Reserves `bytes` of zeroes, rounded up to [`AnonBuffer::occupied`].
    ///
    /// # Errors
    /// [`OsError::Map`] when the address space or the system's commit limit has no room for them.
    pub fn new(bytes: u64) -> Result<Self, OsError> {
        let too_large = || OsError::Map { bytes, source: io::ErrorKind::OutOfMemory.into() };
        let len = usize::try_from(bytes).map_err(|_| too_large())?;
        let Some(mapped_len) = len.checked_next_multiple_of(HUGE_PAGE_LEN) else {
            return Err(too_large());
        };
        if mapped_len == 0 {
            let aligned = NonZeroUsize::new(HUGE_PAGE_LEN).expect("the constant is not zero");
            return Ok(Self { start: NonNull::without_provenance(aligned), len, mapped_len });
        }
        let start = map_aligned(mapped_len).map_err(|source| OsError::Map { bytes, source })?;
        advise_huge(start, mapped_len);
        Ok(Self { start, len, mapped_len })
    }

    /// Bytes of memory that `new(bytes)` occupies once its pages are touched.
    ///
    /// Saturates at the largest whole number of huge pages.
    pub fn occupied(bytes: u64) -> u64 {
        bytes
            .checked_next_multiple_of(HUGE_PAGE_BYTES)
            .unwrap_or(u64::MAX - u64::MAX % HUGE_PAGE_BYTES)
    }

    /// Gives every page of the buffer its memory now, so that no later write waits for one or fails. Several threads share
    /// the work where it is worth one.
    ///
    /// Keeps what was written before.
    /// # Errors
    /// [`OsError::Populate`] when the system has no memory for them.
    pub fn populate(&mut self) -> Result<(), OsError> {
        // SAFETY: the whole mapping (`new`), whose bytes are zeroes or were written through `as_mut_slice`, borrowed mutably
        // with `self`; without a mapping an empty slice needs only alignment.
        let mapped =
            unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.mapped_len) };
        populate_together(mapped)
    }

    /// The bytes, zero where nothing was written.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `start` is valid for `len <= mapped_len` bytes (`new`), zeroed or written through
        // `as_mut_slice`, and nothing writes to them while `self` is borrowed. An empty slice needs only alignment.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// The bytes, for writing.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`; `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// Where the bytes start, for readers and writers that share them by rules of their own.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Bytes that were asked for; at most what the buffer occupies.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no bytes were asked for.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for AnonBuffer {
    fn drop(&mut self) {
        if self.mapped_len > 0 {
            unmap(self.start, self.mapped_len);
        }
    }
}

/// Maps `len` bytes (whole huge pages, not zero) that start on a huge page border.
///
/// The kernel only promises small-page alignment, so one huge page more is mapped and the ends are given back.
fn map_aligned(len: usize) -> io::Result<NonNull<u8>> {
    let padded_len = len.checked_add(HUGE_PAGE_LEN).ok_or(io::ErrorKind::OutOfMemory)?;
    let start = map(padded_len)?;
    let head_len = start.as_ptr().align_offset(HUGE_PAGE_LEN);
    assert!(
        head_len < HUGE_PAGE_LEN,
        "a byte pointer is at most {HUGE_PAGE_LEN} bytes before a border, got {head_len}"
    );
    // SAFETY: `head_len < HUGE_PAGE_LEN <= padded_len` (asserted above), so the sum stays inside the mapping.
    let aligned = unsafe { start.add(head_len) };
    // SAFETY: `head_len + len <= padded_len`, so the sum stays inside the mapping or one past its end.
    let tail = unsafe { aligned.add(len) };
    unmap(start, head_len);
    unmap(tail, HUGE_PAGE_LEN - head_len);
    Ok(aligned)
}

fn map(len: usize) -> io::Result<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a null hint and no file: the kernel picks an unused range, so no existing memory is replaced.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(address.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// Gives back `len` bytes from `start`, a part of a mapping made by [`map`] that nothing refers to any more.
fn unmap(start: NonNull<u8>, len: usize) {
    if len == 0 {
        return;
    }
    // SAFETY: private to this file: each caller passes a page-aligned range of its own mapping that it drops here.
    let status = unsafe { libc::munmap(start.as_ptr().cast(), len) };
    assert_eq!(status, 0, "munmap of {len} bytes at {start:p}: {}", io::Error::last_os_error());
}

/// Asks for huge pages. A kernel without them says no, and small pages serve as well, only slower.
fn advise_huge(start: NonNull<u8>, len: usize) {
    // SAFETY: the range is a mapping of `new`; the advice changes page sizes, never contents.
    let _refused = unsafe { libc::madvise(start.as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
}
