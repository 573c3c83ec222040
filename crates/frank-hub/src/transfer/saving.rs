//! Makes what came durable, then says so in the range map, about once a second. Never reads or hashes a byte.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use frank_os::DataFile;

use super::board::Board;
use super::error::TransferError;
use super::range_map::RangeMap;

/// How much of a transfer a loss of power may cost.
const INTERVAL: Duration = Duration::from_secs(1);
/// Cached pages are dropped in portions of this size.
const FORGET_BYTES_MIN: u64 = 64 << 20;

/// Saves until the board says that no more bytes will come, and then once more.
pub(super) fn keep_saving(
    board: &Board,
    file: &File,
    data: &DataFile,
    map: &mut RangeMap,
) -> Result<(), TransferError> {
    let mut forgotten = 0;
    loop {
        let is_last = board.wait_to_save(INTERVAL);
        // What is hashed now will be durable after the sync, and is not needed in memory any more.
        let hashed = board.hashed();
        save(board, file, data.path(), map)?;
        if hashed - forgotten >= FORGET_BYTES_MIN {
            data.forget_cached(forgotten, hashed - forgotten);
            forgotten = hashed;
        }
        if is_last {
            return Ok(());
        }
    }
}

/// Writes down what is there; its bytes are durable before the word of them is.
fn save(board: &Board, file: &File, path: &Path, map: &mut RangeMap) -> Result<(), TransferError> {
    let write_map = TransferError::io("write the range map of", path);
    let validators = board.take_unsaved_validators();
    let unsaved = board.take_unsaved();
    if !unsaved.is_empty() {
        file.sync_data().map_err(TransferError::io("sync", path))?;
    }
    if validators.is_empty() && unsaved.is_empty() {
        return Ok(());
    }
    map.add(&validators, &unsaved).map_err(write_map)
}
