//! Memory of this process, from `/proc/self/status`. Never of another process.

use crate::error::OsError;
use crate::meminfo::kib_field;

const STATUS: &str = "/proc/self/status";

/// Memory that this process holds. The kernel counts in batches per CPU: a few pages off is usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessMemory {
    /// Bytes resident now: anonymous, file-backed and shared pages.
    pub rss: u64,
    /// The most bytes that were resident at any time since the start.
    pub rss_peak: u64,
}

/// Reads the memory of this process now.
///
/// # Errors
/// [`OsError::Proc`] when `/proc/self/status` cannot be read; [`OsError::ProcField`] when it lacks a field.
pub fn process_memory() -> Result<ProcessMemory, OsError> {
    let text =
        std::fs::read_to_string(STATUS).map_err(|source| OsError::Proc { path: STATUS, source })?;
    let field = |field| kib_field(&text, field).ok_or(OsError::ProcField { path: STATUS, field });
    Ok(ProcessMemory { rss: field("VmRSS")?, rss_peak: field("VmHWM")? })
}
