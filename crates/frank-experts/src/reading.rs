//! Reads of experts from their files into their final layout, by some threads with bounded staging. Never decides what
//! is read, and leaves no second copy in the page cache.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use frank_os::{AnonBuffer, DataFile, OsError};

use crate::error::StoreError;
use crate::table::{ExpertPart, LayerExperts};

/// Threads that read at most: more of them wait for memory and no longer for the drive.
const READERS_MAX: usize = 4;

/// Bytes that one of them reads at once; a single longer row takes its own length.
const SLICE_BYTES: u64 = 1 << 20;

/// Bytes of the buffers between files and their final layout, for `n_threads` threads and a longest row of
/// `row_bytes_max` bytes ([`crate::ExpertTable::row_bytes_max`]). Saturates; `usize::MAX` threads give the most.
///
/// They are held while resident experts are loaded, and for good when some are streamed.
#[must_use]
pub fn staging_bytes(row_bytes_max: u64, n_threads: usize) -> u64 {
    let readers = n_threads.clamp(1, READERS_MAX) as u64;
    AnonBuffer::occupied(readers.saturating_mul(slice_bytes(row_bytes_max)))
}

/// Bytes of one thread's buffer.
fn slice_bytes(row_bytes_max: u64) -> u64 {
    SLICE_BYTES.max(row_bytes_max)
}

/// One matrix of one expert that is to be read.
pub(crate) struct PartRead<'a> {
    layer: u32,
    expert: u32,
    part: &'a ExpertPart,
    /// [`frank_kernels::MatrixShape::bytes`] of the part.
    place: &'a mut [u8],
}

/// What has to be read for an expert of `layer` that is to lie in `slot`, `[slot_bytes]`.
pub(crate) fn reads<'a>(
    layer: &'a LayerExperts,
    expert: u32,
    slot: &'a mut [u8],
) -> impl Iterator<Item = PartRead<'a>> {
    let (mut rest, mut start) = (slot, 0);
    layer.parts.iter().enumerate().map(move |(index, part)| {
        let range = layer.part_range(index);
        let (_, tail) = std::mem::take(&mut rest).split_at_mut(range.start - start);
        let (place, tail) = tail.split_at_mut(range.len());
        (rest, start) = (tail, range.end);
        PartRead { layer: layer.layer, expert, part, place }
    })
}

/// The files of a model, and the buffers of the threads that read them.
#[derive(Debug)]
pub(crate) struct Readers {
    files: Vec<Arc<DataFile>>,
    staging: AnonBuffer,
    slice_bytes: usize,
    n_threads: usize,
}

impl Readers {
    /// Takes the memory that [`staging_bytes`] says.
    pub(crate) fn new(
        files: Vec<Arc<DataFile>>,
        row_bytes_max: u64,
        n_threads: usize,
    ) -> Result<Self, OsError> {
        let n_threads = n_threads.clamp(1, READERS_MAX);
        let slice_bytes = slice_bytes(row_bytes_max);
        let mut staging = AnonBuffer::new(slice_bytes.saturating_mul(n_threads as u64))?;
        staging.populate()?;
        let slice_bytes = staging.len() / n_threads;
        Ok(Self { files, staging, slice_bytes, n_threads })
    }

    /// From now on the system reads no further in the files than it is asked.
    pub(crate) fn expect_scattered_reads(&self) {
        self.files.iter().for_each(|file| file.expect_scattered_reads());
    }

    /// Bytes of memory that the buffers occupy.
    pub(crate) fn occupied(&self) -> u64 {
        AnonBuffer::occupied(self.staging.len() as u64)
    }

    /// Does all `reads`. After an error the rest is left out.
    pub(crate) fn read_all<'a>(
        &mut self,
        reads: impl Iterator<Item = PartRead<'a>> + Send,
    ) -> Result<(), StoreError> {
        let reads = Mutex::new(Some(reads));
        let (files, mut buffers) =
            (&self.files, self.staging.as_mut_slice().chunks_exact_mut(self.slice_bytes));
        let own = buffers.next().expect("there is a buffer for each thread");
        thread::scope(|scope| {
            // Where the system gives no more threads, those that are there do all.
            let others: Vec<_> = buffers
                .take(self.n_threads - 1)
                .map_while(|buffer| {
                    let thread = thread::Builder::new().name("frank-read".to_owned());
                    thread.spawn_scoped(scope, || read_some(files, &reads, buffer)).ok()
                })
                .collect();
            let ended = others.into_iter().map(|other| other.join().expect("reads are checked"));
            // The own part first: the threads that were begun above read meanwhile.
            ended.fold(read_some(files, &reads, own), Result::and)
        })
    }
}

/// Takes reads and does them until none is left, or until one fails anywhere.
fn read_some<'a>(
    files: &[Arc<DataFile>],
    reads: &Mutex<Option<impl Iterator<Item = PartRead<'a>>>>,
    buffer: &mut [u8],
) -> Result<(), StoreError> {
    let reads = || reads.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let Some(read) = reads().as_mut().and_then(Iterator::next) else { return Ok(()) };
        let (layer, expert) = (read.layer, read.expert);
        if let Err(source) = read_part(files, read, buffer) {
            *reads() = None;
            return Err(StoreError::Read { layer, expert, source });
        }
    }
}

/// Moves all rows of a matrix to their place, as many at a time as `buffer` holds.
fn read_part(
    files: &[Arc<DataFile>],
    read: PartRead<'_>,
    buffer: &mut [u8],
) -> Result<(), OsError> {
    let PartRead { expert, part, place, .. } = read;
    let ExpertPart { shape, places } = part;
    let from = places[expert as usize];
    let (file, row_bytes) = (&files[from.file], shape.file_row_bytes());
    let rows_at_once = buffer.len() / row_bytes;
    // Another expert may have lain here, whose bytes would be taken for padding.
    place.fill(0);
    for first_row in (0..shape.n_out()).step_by(rows_at_once) {
        let n_rows = rows_at_once.min(shape.n_out() - first_row);
        let rows = &mut buffer[..n_rows * row_bytes];
        file.read_at(from.offset + (first_row * row_bytes) as u64, rows)?;
        shape.pack(first_row, rows, place);
    }
    file.forget_cached(from.offset, (shape.n_out() * row_bytes) as u64);
    Ok(())
}
