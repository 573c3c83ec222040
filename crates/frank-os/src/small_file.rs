//! Small files that are read whole: regular ones, and pipes such as a shell makes of `<(command)`. Never waits for
//! somebody to open the other end of a pipe.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use crate::data_file::wait_for_reads;

/// Why a small file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SmallFileError {
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A pipe whose other end nobody has open.
    #[error("it is a pipe that nobody writes to")]
    NoWriter,
    /// More bytes than are taken; a device may have no end at all.
    #[error("it is longer than the {bytes_max} bytes that are taken")]
    TooLarge {
        /// The most that are taken.
        bytes_max: u64,
    },
}

/// All bytes of the file at `path`, of which there may be `bytes_max`. A pipe is read until its writers close it, which is
/// as long as they take; one without a writer is refused at once.
///
/// # Errors
/// [`SmallFileError`]
pub fn read_small_file(path: &Path, bytes_max: u64) -> Result<Vec<u8>, SmallFileError> {
    // Opening a pipe would wait for a writer otherwise.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let is_pipe = file.metadata()?.file_type().is_fifo();
    // Whoever writes to a pipe may take their time.
    wait_for_reads(&file);
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(SmallFileError::TooLarge { bytes_max });
    }
    if is_pipe && bytes.is_empty() {
        return Err(SmallFileError::NoWriter);
    }
    Ok(bytes)
}
