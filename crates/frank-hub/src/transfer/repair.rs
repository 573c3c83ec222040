//! Finds the ranges of a wrong file that are not as they came. Never brings them again.

use std::collections::BTreeSet;
use std::ops::Range;

use frank_os::{DataFile, OsError};

use super::board::Board;

/// How many bytes are read at a time.
const READ_BYTES: usize = 256 << 10;

/// Reads full ranges again, and returns those whose bytes differ from what was written. `is_stopped` ends it early.
pub(super) fn damaged(
    board: &Board,
    data: &DataFile,
    ranges: Range<usize>,
    is_stopped: &dyn Fn() -> bool,
) -> Result<BTreeSet<usize>, OsError> {
    let mut buffer = vec![0; READ_BYTES];
    let mut damaged = BTreeSet::new();
    for range in ranges {
        if is_stopped() {
            break;
        }
        if crc_of(board, data, range, &mut buffer)? != board.filled(range).crc {
            damaged.insert(range);
        }
    }
    Ok(damaged)
}

fn crc_of(board: &Board, data: &DataFile, range: usize, buffer: &mut [u8]) -> Result<u32, OsError> {
    let span = board.layout().range(range);
    let mut crc = crc32fast::Hasher::new();
    let mut done = 0;
    while done < span.bytes {
        let left = usize::try_from(span.bytes - done).unwrap_or(usize::MAX);
        let n = left.min(buffer.len());
        data.read_at(span.offset + done, &mut buffer[..n])?;
        crc.update(&buffer[..n]);
        done += n as u64;
    }
    Ok(crc.finalize())
}
