//! Memory of this process, how long its program is and what it was told to ignore, from `/proc/self`. Never of another
//! process.

use crate::error::OsError;
use crate::meminfo::kib_field;

const STATUS: &str = "/proc/self/status";
const MAPS: &str = "/proc/self/maps";
const PROGRAM: &str = "/proc/self/exe";

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

/// Bytes of address space that this program's code, constants and variables take. 0 where the system does not say.
pub fn program_bytes() -> u64 {
    let maps = std::fs::read_to_string(MAPS).unwrap_or_default();
    let program = std::fs::read_link(PROGRAM).unwrap_or_default();
    program.to_str().map_or(0, |program| mapped_bytes(&maps, program))
}

/// Bytes that `maps` has of the file at `path`.
fn mapped_bytes(maps: &str, path: &str) -> u64 {
    let lines = maps.lines().filter(|line| {
        line.split_once('/').is_some_and(|(_, at)| Some(at) == path.strip_prefix('/'))
    });
    lines.filter_map(|line| range_bytes(line.split_once(' ')?.0)).sum()
}

/// Bytes of an address range as the kernel prints it.
fn range_bytes(range: &str) -> Option<u64> {
    let (start, end) = range.split_once('-')?;
    u64::from_str_radix(end, 16).ok()?.checked_sub(u64::from_str_radix(start, 16).ok()?)
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
    fn a_program_is_as_long_as_all_its_mappings_together() {
        let maps = "5500-5700 r--p 0000 fd:00 7 /a b/frank\n5700-5a00 r-xp 0200 fd:00 7 /a b/frank\n\
                    6000-9000 rw-p 0000 00:00 0 [heap]\n9000-a000 r--p 0000 fd:00 8 /usr/a b/frank\n";
        assert_eq!(mapped_bytes(maps, "/a b/frank"), 0x500);
        assert_eq!(mapped_bytes(maps, "/other"), 0);
        assert_eq!(mapped_bytes(maps, ""), 0);
        let file = std::fs::metadata(PROGRAM).expect("it runs").len();
        assert!((1 << 16..=file + (4 << 20)).contains(&program_bytes()), "{}", program_bytes());
    }

    #[test]
    fn ignored_signals_are_a_mask_in_hexadecimal() {
        assert_eq!(ignored_signals("Name:\tx\nSigIgn:\t0000000000001001\n"), Some(0x1001));
        assert_eq!(ignored_signals("Name:\tx\nSigIgn:\tmany\n"), None);
        assert_eq!(ignored_signals(""), None);
    }
}
