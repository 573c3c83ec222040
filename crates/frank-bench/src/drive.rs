//! How fast a drive gives blocks of the size of an expert, read at random places. Never reads a file that is there.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use frank_os::{AnonBuffer, DIRECT_ALIGNMENT, OsError, ScratchFile, free_disk, is_in_memory};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Bytes of a read: one matrix of an expert of a mixture with 2048 inputs and 768 hidden values in Q4_K.
pub const DRIVE_BLOCK_BYTES: u64 = 864 << 10;

/// Reads that are under way at once.
pub const DRIVE_DEPTH: usize = 16;

/// The file must not fit into the drive's own cache, and writing it must not take long.
const FILE_BYTES: u64 = 512 << 20;

/// Free bytes of the drive that are left alone.
const SPARED_BYTES: u64 = 512 << 20;

/// Bytes of a write.
const WRITE_BYTES: u64 = 4 << 20;

/// Room for one block for each reader, each on its own border of pages.
const SLOT_BYTES: usize = 1 << 20;

/// How fast a drive was read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DriveRate {
    /// Bytes per second.
    pub bandwidth: f64,
    /// Whether the reads went past the page cache. Where not, the system was asked to drop each block after it was read,
    /// and the rate is a lower bound of the drive's.
    pub is_direct: bool,
}

/// Why a drive was not measured.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// Files there lie in memory.
    #[error("files there are kept in memory, not on a drive")]
    InMemory,
    /// No room for the file.
    #[error("{free} bytes are free, {wanted} are wanted for a file to read")]
    NoRoom {
        /// Free bytes.
        free: u64,
        /// Bytes of the file, and what is left alone.
        wanted: u64,
    },
    /// The system refused.
    #[error(transparent)]
    Os(#[from] OsError),
}

/// Reads blocks of [`DRIVE_BLOCK_BYTES`] at random places of a file in `folder` for `time`, [`DRIVE_DEPTH`] at once.
///
/// The file is made for this and has no name, so that nothing is left of it, however the process ends.
///
/// # Errors
/// [`DriveError`]; nothing is left behind then either.
pub fn drive_rate(folder: &Path, time: Duration) -> Result<DriveRate, DriveError> {
    if is_in_memory(folder)? {
        return Err(DriveError::InMemory);
    }
    let (free, wanted) = (free_disk(folder)?, FILE_BYTES + SPARED_BYTES);
    if free < wanted {
        return Err(DriveError::NoRoom { free, wanted });
    }
    let file = ScratchFile::create_in(folder)?;
    let is_direct = file.bypass_cache();
    write(&file)?;
    file.forget_cached(0, FILE_BYTES);
    let bandwidth = read_at_random(&file, is_direct, time)?;
    Ok(DriveRate { bandwidth, is_direct })
}

/// Fills the file with bytes that no drive can make smaller or share.
fn write(file: &ScratchFile) -> Result<(), OsError> {
    let mut buffer = AnonBuffer::new(WRITE_BYTES)?;
    ChaCha8Rng::seed_from_u64(0).fill(buffer.as_mut_slice());
    for offset in (0..FILE_BYTES).step_by(WRITE_BYTES as usize) {
        // Each page begins with its own place, so that no two are equal.
        let pages = buffer.as_mut_slice().chunks_exact_mut(DIRECT_ALIGNMENT);
        for (page_offset, page) in (offset..).step_by(DIRECT_ALIGNMENT).zip(pages) {
            page[..8].copy_from_slice(&page_offset.to_le_bytes());
        }
        file.write_at(offset, buffer.as_slice())?;
    }
    file.sync()
}

/// Bytes per second.
fn read_at_random(file: &ScratchFile, is_direct: bool, time: Duration) -> Result<f64, OsError> {
    let mut buffer = AnonBuffer::new((DRIVE_DEPTH * SLOT_BYTES) as u64)?;
    buffer.populate()?;
    let (read_bytes, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let start = Instant::now();
    let reader = |index: usize, slot: &mut [u8]| {
        let mut rng = ChaCha8Rng::seed_from_u64(index as u64);
        while start.elapsed() < time && !is_over.load(Ordering::Relaxed) {
            let offset = random_offset(&mut rng);
            let block = &mut slot[..DRIVE_BLOCK_BYTES as usize];
            if let Err(error) = file.read_at(offset, block) {
                is_over.store(true, Ordering::Relaxed);
                return Err(error);
            }
            if !is_direct {
                file.forget_cached(offset, DRIVE_BLOCK_BYTES);
            }
            read_bytes.fetch_add(DRIVE_BLOCK_BYTES, Ordering::Relaxed);
        }
        Ok(())
    };
    let slots = buffer.as_mut_slice().chunks_exact_mut(SLOT_BYTES);
    std::thread::scope(|scope| {
        let readers: Vec<_> =
            slots.enumerate().map(|(i, slot)| scope.spawn(move || reader(i, slot))).collect();
        let ended = readers.into_iter().map(|reader| reader.join().expect("a reader returns"));
        ended.collect::<Result<(), _>>()
    })?;
    Ok(read_bytes.into_inner() as f64 / start.elapsed().as_secs_f64())
}

/// A place where a whole block can be read past the page cache.
fn random_offset(rng: &mut ChaCha8Rng) -> u64 {
    let alignment = DIRECT_ALIGNMENT as u64;
    rng.random_range(0..=(FILE_BYTES - DRIVE_BLOCK_BYTES) / alignment) * alignment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_read_is_a_whole_aligned_block_inside_the_file() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..10_000 {
            let offset = random_offset(&mut rng);
            assert!(offset.is_multiple_of(DIRECT_ALIGNMENT as u64), "{offset}");
            assert!(offset + DRIVE_BLOCK_BYTES <= FILE_BYTES, "{offset}");
        }
        assert!(DRIVE_BLOCK_BYTES.is_multiple_of(DIRECT_ALIGNMENT as u64));
    }
}
