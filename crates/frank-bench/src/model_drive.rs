//! How fast experts come from the drive that their model lies on: some of them are read at random, as a step reads those
//! that it misses. Never interprets a byte.

use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use frank_os::{DataFile, OsError, QueueOptions, ReadQueue};
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;

/// A range of bytes of one of some files that is read at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileBlock {
    /// Which of the files.
    pub file: usize,
    /// Its first byte.
    pub offset: u64,
    /// Its bytes, not 0.
    pub bytes: usize,
}

/// Why the drive of a model was not measured.
#[derive(Debug, thiserror::Error)]
pub enum ModelDriveError {
    /// Parts of the file are on no drive.
    #[error("{file} is sparse: {stored} of its {bytes} bytes lie on a drive")]
    Sparse {
        /// The path of the file.
        file: String,
        /// Bytes that it takes there.
        stored: u64,
        /// Its length.
        bytes: u64,
    },
    /// There is nothing to read, or a read is longer than the memory that there is for it.
    #[error("there is no room to read an expert")]
    NoRoom,
    /// The system refused.
    #[error(transparent)]
    Os(#[from] OsError),
}

/// Bytes per second of reading `blocks` of `files`, in an order drawn with `seed`, for `time` or until all were read. As
/// many are under way at once as have no more than `bytes_at_once`, and as the staging of `options` holds. How it is read
/// is up to `options`; what a file system reads through the page cache is asked to be dropped there before.
///
/// # Errors
/// [`ModelDriveError`]; also for files that are not on a drive as a whole, whose holes would be read at any speed. `blocks`
/// is not called then.
pub fn model_drive_rate(
    files: &[Arc<DataFile>],
    blocks: impl FnOnce() -> Vec<FileBlock>,
    bytes_at_once: u64,
    options: &QueueOptions,
    (time, seed): (Duration, u64),
) -> Result<f64, ModelDriveError> {
    files.iter().try_for_each(|file| check_stored(file))?;
    let mut blocks = blocks();
    blocks.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let mut queue = ReadQueue::open(files, options)?;
    let (mut blocks, mut n_started, mut n_read) = (blocks.into_iter().peekable(), 0, 0);
    let start = Instant::now();
    loop {
        while let Some(&FileBlock { file, offset, bytes }) = blocks.peek() {
            let n_bytes = bytes as u64;
            let is_full = n_started > n_read && n_started - n_read + n_bytes > bytes_at_once;
            if is_full || start.elapsed() >= time {
                break;
            }
            if !queue.is_direct() {
                files[file].forget_cached(offset, n_bytes);
            }
            if !queue.start(file, offset, bytes, n_bytes) {
                break;
            }
            n_started += n_bytes;
            blocks.next();
        }
        let Some(mut finished) = queue.finish(true) else { break };
        std::mem::replace(&mut finished.result, Ok(()))?;
        n_read += finished.tag;
        queue.give_back(finished);
    }
    if n_read == 0 {
        return Err(ModelDriveError::NoRoom);
    }
    Ok(n_read as f64 / start.elapsed().as_secs_f64())
}

/// Refuses a file that has holes.
fn check_stored(file: &DataFile) -> Result<(), ModelDriveError> {
    /// The unit in which the system says it, whatever the file system's own is.
    const UNIT_BYTES: u64 = 512;
    // A file whose name is gone is taken to be whole.
    let Ok(facts) = std::fs::metadata(file.path()) else { return Ok(()) };
    let (stored, bytes) = (facts.blocks() * UNIT_BYTES, file.len());
    if stored >= bytes {
        return Ok(());
    }
    Err(ModelDriveError::Sparse { file: file.path().display().to_string(), stored, bytes })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::Path;

    use frank_os::Faults;

    use super::*;

    const BLOCK_BYTES: usize = 100_000;

    /// The rate of reading 20 blocks of the file at `path` with so much staging.
    fn rate(path: &Path, staging_bytes: usize) -> Result<f64, ModelDriveError> {
        let files = [Arc::new(DataFile::open(path).expect("a file"))];
        let block = |n: u64| FileBlock { file: 0, offset: 7 + 100_000 * n, bytes: BLOCK_BYTES };
        let blocks = || (0..20).map(block).collect();
        let options = QueueOptions { backend: None, staging_bytes, faults: Faults::default() };
        model_drive_rate(&files, blocks, 800_000, &options, (Duration::from_secs(60), 1))
    }

    #[test]
    fn a_file_is_measured_until_all_of_its_blocks_were_read() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("model");
        std::fs::write(&path, vec![1; 20 * BLOCK_BYTES + 7]).expect("written");
        assert!(rate(&path, 4 << 20).expect("a rate") > 0.0);
        std::fs::write(&path, vec![1; 19 * BLOCK_BYTES]).expect("written");
        let error = rate(&path, 4 << 20).expect_err("it is cut off");
        assert!(matches!(error, ModelDriveError::Os(OsError::PastEnd { .. })), "{error}");
    }

    #[test]
    fn a_hole_is_no_drive() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("model");
        let file = File::create(&path).expect("a file");
        file.set_len(10 << 30).expect("a hole");
        let error = rate(&path, 4 << 20).expect_err("a hole");
        assert!(matches!(error, ModelDriveError::Sparse { stored: 0, .. }), "{error}");
    }
}
