//! Memory of the whole machine, from `/proc/meminfo`. Never of this process or its cgroup.

use crate::error::OsError;

const MEMINFO: &str = "/proc/meminfo";

/// Memory of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostMemory {
    /// Bytes of RAM that the kernel manages.
    pub total: u64,
    /// Bytes that new allocations can get without swapping; counts page cache that can be dropped.
    pub available: u64,
}

/// Reads the memory of this machine now.
///
/// # Errors
/// [`OsError::Proc`] when `/proc/meminfo` cannot be read; [`OsError::ProcField`] when it lacks a field.
pub fn host_memory() -> Result<HostMemory, OsError> {
    let text = std::fs::read_to_string(MEMINFO)
        .map_err(|source| OsError::Proc { path: MEMINFO, source })?;
    let field = |field| kib_field(&text, field).ok_or(OsError::ProcField { path: MEMINFO, field });
    Ok(HostMemory { total: field("MemTotal")?, available: field("MemAvailable")? })
}

/// The bytes of `field` in a text of `Name:   123 kB` lines.
pub(crate) fn kib_field(text: &str, field: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, field: &str, expected: Option<u64>) {
        assert_eq!(kib_field(text, field), expected, "{field} in {text:?}");
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        check("MemTotal:       24689832 kB\n", "MemTotal", Some(24_689_832 * 1024));
        check("SwapCached: 1 kB\nCached:  2 kB\n", "Cached", Some(2048));
        check("VmRSS:\t    512 kB\n", "VmRSS", Some(512 * 1024));
    }

    #[test]
    fn other_forms_are_not_guessed_at() {
        check("MemTotal: 24 MB\n", "MemTotal", None);
        check("MemTotal: -1 kB\n", "MemTotal", None);
        check("MemTotal: 18446744073709551615 kB\n", "MemTotal", None);
        check("MemFree: 1 kB\n", "MemTotal", None);
        check("", "MemTotal", None);
    }
}
