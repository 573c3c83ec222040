//! Memory of this process and what it was told to ignore, from `/proc/self/status`. Never of another process.

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

/// Whether SIGHUP is ignored: whoever started the process wants it to go on when its terminal goes away, as `nohup` does.
/// False where the system does not say.
pub fn ignores_hangup() -> bool {
    let text = std::fs::read_to_string(STATUS).unwrap_or_default();
    ignored_signals(&text).is_some_and(|ignored| ignored & 1 << (libc::SIGHUP - 1) != 0)
}

/// A bit for each ignored signal, the first for signal 1.
fn ignored_signals(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_a_mask_in_hexadecimal() {
        assert_eq!(ignored_signals("Name:\tx\nSigIgn:\t0000000000001001\n"), Some(0x1001));
        assert_eq!(ignored_signals("Name:\tx\nSigIgn:\tmany\n"), None);
        assert_eq!(ignored_signals(""), None);
    }
}
