//! Reads of dense weights past the page cache, several in flight while others are moved to their final layout. Never decides
//! where a tensor lies.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use frank_gguf::quant::quant_type;
use frank_gguf::{ModelHeader, TensorInfo};
use frank_hub::{ModelFile, OpenError};
use frank_kernels::GROUP_ROWS;
use frank_os::{
    DataFile, Faults, HUGE_PAGE_BYTES, IoBackend, OsError, PAGE_BYTES, QueueOptions, ReadQueue,
    populate,
};

use super::stack::{StackRows, place_of, transpose};
use super::{Slot, SlotKind};
use crate::error::LoadError;

/// Bytes of a file that are in memory at once while loading; a single longer row takes its own length.
pub(crate) const STAGING_BYTES: usize = LOADERS_MAX * LOADER_BYTES;

/// Threads that load at most. Each has reads in flight while it moves bytes to their places, which is the faster of both.
const LOADERS_MAX: usize = 2;

/// What one of them has in flight: one huge page.
const LOADER_BYTES: usize = HUGE_PAGE_BYTES as usize;

/// Bytes of a read, about: some of them fill the drive's queue.
pub(super) const SLICE_BYTES: usize = 256 << 10;

/// Bytes of the final layout that are given memory at a time, about: what is in flight is read meanwhile.
const POPULATE_BYTES: usize = HUGE_PAGE_BYTES as usize;

/// Bytes that the system may have read beside a header, ahead of whoever looked at it.
const READ_AHEAD_BYTES: u64 = 16 << 20;

/// Reads the tensors of `slots` to their places in `memory`, which are given their pages just before: clearing them takes
/// longer than reading, and all loaders share it.
pub(super) fn load(
    file: &ModelFile,
    slots: &[Slot],
    memory: &mut [u8],
    n_threads: usize,
    io: Option<IoBackend>,
) -> Result<(), LoadError> {
    let files = file.data_files();
    // Headers were read through the page cache, where nobody needs them any more.
    for (data, part) in files.iter().zip(&file.header.parts) {
        data.forget_cached(0, part.data_start.saturating_add(READ_AHEAD_BYTES));
    }
    let tensors = Mutex::new(tensors(slots, memory));
    let staging_bytes = LOADER_BYTES.max(longest_row(slots) + 2 * PAGE_BYTES as usize);
    let options = QueueOptions { backend: io, staging_bytes, faults: Faults::default() };
    let load = || {
        let loader = Loader { header: &file.header, waiting: &tensors, loaded: Vec::new() };
        let ended = loader.run(&files, &options);
        if ended.is_err() {
            // The others stop as well.
            tensors.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        ended
    };
    thread::scope(|scope| {
        // What the system does not give of threads, this one does alone.
        let start = |_| thread::Builder::new().spawn_scoped(scope, load).ok();
        let others: Vec<_> = (1..n_threads.min(LOADERS_MAX)).map_while(start).collect();
        let own = load();
        let ended = others.into_iter().map(|other| other.join().expect("reading is checked"));
        ended.fold(own, Result::and)
    })
}

/// A tensor and the memory that it is loaded to.
struct Target<'a> {
    slot: &'a Slot,
    place: &'a mut [u8],
    /// The first bytes of the place, which have their pages.
    n_populated: usize,
}

/// The tensors of `slots`; the largest last, since the last is taken first.
fn tensors<'a>(slots: &'a [Slot], mut memory: &'a mut [u8]) -> Vec<Target<'a>> {
    let mut tensors = Vec::with_capacity(slots.len());
    let mut start = 0;
    for slot in slots {
        let (_, rest) = memory.split_at_mut(slot.offset - start);
        let (place, rest) = rest.split_at_mut(slot.bytes());
        start = slot.offset + place.len();
        tensors.push(Target { slot, place, n_populated: 0 });
        memory = rest;
    }
    tensors.sort_by_key(|tensor| tensor.place.len());
    tensors
}

impl Target<'_> {
    /// Gives the place its pages up to where `slice` goes, and some further.
    fn populate(&mut self, slice: Slice) -> Result<(), OsError> {
        let FileRows { matrices, n_rows, .. } = FileRows::of(self.slot);
        let done = match self.slot.kind {
            SlotKind::Matrix | SlotKind::Stack(_) | SlotKind::Vector => {
                slice.matrix * n_rows + slice.first_row + slice.n_rows
            }
            // Each row of the file is spread over all of its matrix.
            SlotKind::TransposedStack(_) => (slice.matrix + 1) * n_rows,
        };
        // Layouts fill the place in proportion; what they put at an end is at most a group of rows.
        let share = self.place.len() as u128 * done as u128 / (matrices.n * n_rows) as u128;
        if share as usize <= self.n_populated {
            return Ok(());
        }
        let end = self.place.len().min(share as usize + POPULATE_BYTES);
        populate(&mut self.place[self.n_populated..end])?;
        self.n_populated = end;
        Ok(())
    }
}

fn longest_row(slots: &[Slot]) -> usize {
    slots.iter().map(|slot| FileRows::of(slot).row_bytes).max().unwrap_or(0)
}

/// The rows of a tensor that are read: those of one or more matrices.
#[derive(Debug, Clone, Copy)]
struct FileRows {
    matrices: StackRows,
    /// Rows of each.
    n_rows: usize,
    row_bytes: usize,
}

impl FileRows {
    fn of(slot: &Slot) -> Self {
        let shape = &slot.shape;
        let one = StackRows { n: 1, period: 0, first: 0 };
        let layout = &quant_type(slot.tensor.type_id).expect("checked when it was placed").layout;
        let bytes = |n_values| {
            n_values / layout.values_per_block as usize * layout.bytes_per_block as usize
        };
        let (matrices, n_rows, row_bytes) = match slot.kind {
            SlotKind::Matrix => (one, shape.n_out(), shape.file_row_bytes()),
            SlotKind::Stack(rows) => (rows, shape.n_out(), shape.file_row_bytes()),
            SlotKind::TransposedStack(rows) => (rows, shape.n_in(), bytes(shape.n_out())),
            // Of vectors each value is a row.
            SlotKind::Vector => (one, shape.n_out() * shape.n_in(), bytes(1)),
        };
        Self { matrices, n_rows, row_bytes }
    }

    fn rows_at_once(&self) -> usize {
        let groups = SLICE_BYTES / (self.row_bytes * GROUP_ROWS);
        if groups > 0 { groups * GROUP_ROWS } else { (SLICE_BYTES / self.row_bytes).max(1) }
    }

    /// All slices of the tensor at `target`.
    fn slices(self, target: usize) -> impl Iterator<Item = Slice> {
        let Self { matrices, n_rows, .. } = self;
        let at_once = self.rows_at_once();
        (0..matrices.n).flat_map(move |matrix| {
            (0..n_rows).step_by(at_once).map(move |first_row| Slice {
                target,
                matrix,
                first_row,
                n_rows: at_once.min(n_rows - first_row),
            })
        })
    }
}

/// Rows that are read together.
#[derive(Debug, Clone, Copy)]
struct Slice {
    /// The tensor's place among those of the loader.
    target: usize,
    matrix: usize,
    first_row: usize,
    n_rows: usize,
}

/// Loads one tensor after the other, with reads of the next ones in flight.
struct Loader<'a, 'b> {
    header: &'b ModelHeader,
    waiting: &'b Mutex<Vec<Target<'a>>>,
    /// Those that this loader took, loaded or being so.
    loaded: Vec<Target<'a>>,
}

impl Loader<'_, '_> {
    fn run(mut self, files: &[Arc<DataFile>], options: &QueueOptions) -> Result<(), LoadError> {
        let mut queue = ReadQueue::open(files, options)?;
        // Slices in flight, by tag.
        let (mut started, mut tag) = (BTreeMap::new(), 0);
        let mut slices: Box<dyn Iterator<Item = Slice>> = Box::new(std::iter::empty());
        let mut next = None;
        loop {
            while let Some(slice) = next.take().or_else(|| self.next_slice(&mut slices)) {
                if !self.start(&mut queue, slice, tag) {
                    next = Some(slice);
                    break;
                }
                started.insert(tag, slice);
                tag += 1;
            }
            queue.submit();
            let Some(mut finished) = queue.finish(true) else {
                assert!(next.is_none() && started.is_empty(), "an empty queue takes a slice");
                return Ok(());
            };
            std::mem::replace(&mut finished.result, Ok(())).map_err(OpenError::from)?;
            let slice = started.remove(&finished.tag).expect("what ends was started");
            self.loaded[slice.target].populate(slice)?;
            self.store(slice, queue.bytes(&finished));
            queue.give_back(finished);
        }
    }

    /// The next slice of the tensor under way, or the first of another one.
    fn next_slice(&mut self, slices: &mut Box<dyn Iterator<Item = Slice>>) -> Option<Slice> {
        loop {
            if let Some(slice) = slices.next() {
                return Some(slice);
            }
            let target = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
            *slices = Box::new(FileRows::of(target.slot).slices(self.loaded.len()));
            self.loaded.push(target);
        }
    }

    /// Starts to read a slice; false while there is no room for it.
    fn start(&self, queue: &mut ReadQueue, slice: Slice, tag: u64) -> bool {
        let slot = self.loaded[slice.target].slot;
        let rows = FileRows::of(slot);
        let TensorInfo { part, offset, .. } = slot.tensor;
        let first = rows.matrices.start(slice.matrix) + slice.first_row;
        let offset = self.header.parts[part].data_start + offset + (first * rows.row_bytes) as u64;
        queue.start(part, offset, slice.n_rows * rows.row_bytes, tag)
    }

    /// Moves what was read to its place.
    fn store(&mut self, slice: Slice, bytes: &[u8]) {
        let Slice { matrix, first_row, n_rows, .. } = slice;
        let Target { slot: Slot { tensor, kind, shape, .. }, place, .. } =
            &mut self.loaded[slice.target];
        let quant = quant_type(tensor.type_id).expect("checked when it was placed");
        match kind {
            SlotKind::Matrix => shape.pack(first_row, bytes, place),
            SlotKind::Stack(_) => shape.pack(first_row, bytes, &mut place[place_of(shape, matrix)]),
            SlotKind::TransposedStack(_) => {
                transpose(quant, bytes, shape, first_row, &mut place[place_of(shape, matrix)]);
            }
            SlotKind::Vector => {
                let values: &mut [f32] = bytemuck::cast_slice_mut(place);
                (quant.dequantize)(bytes, &mut values[first_row..][..n_rows]);
            }
        }
    }
}
