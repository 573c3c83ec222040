//! How large the buffer between files and memory is. Never takes it.

use frank_os::{AnonBuffer, PAGE_BYTES};

use crate::error::StoreError;
use crate::table::ExpertTable;

/// Least and most bytes of staging.
const STAGING_BYTES_MIN: u64 = 2 << 20;
const STAGING_BYTES_MAX: u64 = 128 << 20;

/// Bytes of the buffer between files and the final layout, when the largest expert has `expert_file_bytes_max` bytes in its
/// file and a token uses `n_used`: room for the experts of two tokens, within bounds; whole huge pages. Saturates.
///
/// It is held while resident experts are loaded, and for good when some are streamed.
#[must_use]
pub fn staging_bytes(expert_file_bytes_max: u64, n_used: u64) -> u64 {
    let two_tokens = expert_file_bytes_max.saturating_mul(n_used).saturating_mul(2);
    AnonBuffer::occupied(two_tokens.clamp(STAGING_BYTES_MIN, STAGING_BYTES_MAX))
}

/// Refuses a table with a row that does not pass through `staging_bytes`.
pub(crate) fn check_rows(table: &ExpertTable, staging_bytes: u64) -> Result<(), StoreError> {
    for layer in &table.layers {
        for (part, matrix) in layer.parts.iter().enumerate() {
            let row_bytes = matrix.shape.file_row_bytes() as u64;
            // A read covers whole pages.
            if row_bytes.saturating_add(2 * PAGE_BYTES) > staging_bytes {
                let layer = layer.layer;
                return Err(StoreError::LongRow { layer, part, row_bytes, staging_bytes });
            }
        }
    }
    Ok(())
}
