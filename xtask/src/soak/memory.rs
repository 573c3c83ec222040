//! The memory of the soaked server over time, as Linux tells it. Never touches the server.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::statistics::slope;

const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// Samples from one printed line to the next.
const PRINT_EVERY: usize = 15;
/// What is held back from the slope, as a share of the time and in seconds at least: heap and thread stacks that fill
/// once, and what the first request of a kind makes for those after it.
const WARM_UP_SHARE: f64 = 0.2;
const WARM_UP_SECONDS_MIN: f64 = 20.0;
/// From fewer samples after the warm-up nothing can be told.
const SAMPLES_MIN: usize = 10;

/// Resident memory at moments of a run.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Seconds since the start, and bytes.
    samples: Vec<(f64, f64)>,
}

impl Memory {
    /// Samples a process while traffic goes on and the process is there, and prints a sample now and then.
    pub(super) fn watch(process_id: u32, goes_on: impl Fn() -> bool) -> Self {
        let start = Instant::now();
        let mut memory = Self::default();
        while goes_on() {
            let Ok(bytes) = status_bytes(process_id, "VmRSS") else { break };
            let seconds = start.elapsed().as_secs_f64();
            if memory.samples.len().is_multiple_of(PRINT_EVERY) {
                println!("  {seconds:.0} s: {:.1} MiB", mib(bytes as f64));
            }
            memory.samples.push((seconds, bytes as f64));
            thread::sleep(SAMPLE_EVERY);
        }
        memory
    }

    /// Bytes by which it grew after the warm-up, by the line of least squares; negative where it shrank. `None` when the run
    /// was too short to tell.
    pub(super) fn growth(&self) -> Option<f64> {
        let end = self.samples.last().map_or(0.0, |sample| sample.0);
        let warm_up = WARM_UP_SECONDS_MIN.max(end * WARM_UP_SHARE);
        let warm = self.samples.partition_point(|sample| sample.0 < warm_up);
        let samples = &self.samples[warm..];
        let seconds = end - samples.first()?.0;
        (samples.len() >= SAMPLES_MIN).then(|| slope(samples) * seconds)
    }
}

/// Bytes as MiB.
pub(crate) fn mib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}

/// Peak of a process's resident memory so far, in bytes.
pub(crate) fn peak_bytes(process_id: u32) -> Result<u64> {
    status_bytes(process_id, "VmHWM")
}

/// Page tables of a process, in bytes: the kernel holds them for it.
pub(super) fn page_table_bytes(process_id: u32) -> Result<u64> {
    status_bytes(process_id, "VmPTE")
}

fn status_bytes(process_id: u32, name: &str) -> Result<u64> {
    let path = format!("/proc/{process_id}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    kib(&status, name).map(|kib| kib * 1024).with_context(|| format!("{name} in {path}"))
}

fn kib(status: &str, name: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().strip_suffix(" kB")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_leaves_out_the_warm_up() {
        let check = |bytes: fn(f64) -> f64, expected: f64| {
            let samples = (0..=100).map(f64::from).map(|t| (t, bytes(t))).collect();
            let growth = Memory { samples }.growth().expect("long enough");
            assert!((growth - expected).abs() < 1e-6, "{growth}, not {expected}");
        };
        check(|_| 7.0, 0.0);
        check(|t| 1000.0 + 2.0 * t, 160.0);
        check(|t| t.min(20.0), 0.0);
        check(|t| -t, -80.0);
    }

    #[test]
    fn the_warm_up_of_a_short_run_has_a_length_of_its_own() {
        let samples = (0..=50).map(f64::from).map(|t| (t, t.min(20.0))).collect();
        assert!(Memory { samples }.growth().expect("long enough").abs() < 1e-6);
    }

    #[test]
    fn a_run_that_ends_with_its_warm_up_shows_no_growth_and_does_not_say_that_there_is_none() {
        assert_eq!(Memory::default().growth(), None);
        let samples = (0..25).map(f64::from).map(|t| (t, 1e9 * t)).collect();
        assert_eq!(Memory { samples }.growth(), None);
    }

    #[test]
    fn a_line_of_the_status_is_read_by_its_whole_name() {
        let status = "VmHWMX:\t 1 kB\nVmHWM:\t  310 kB\nVmRSS:\t 2 pages\n";
        assert_eq!(kib(status, "VmHWM"), Some(310));
        assert_eq!(kib(status, "VmRSS"), None);
        assert_eq!(kib(status, "Vm"), None);
    }
}
