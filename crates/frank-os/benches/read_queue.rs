//! Scattered reads of a file by every way there is: bytes a second, and processor time for each.
//!
//! `FRANK_BENCH_FILE=model.gguf cargo bench -p frank-os --bench read_queue` on a quiet machine; a result names the
//! machine and the drive. The file should be larger than the page cache.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use frank_os::{DataFile, Faults, IoBackend, OsError, QueueOptions, ReadQueue};

/// A matrix of an expert of a model with 128 of them.
const LEN: usize = 864 << 10;
const DEPTH: usize = 16;
const N_READS: u64 = 2500;

fn main() -> Result<(), OsError> {
    let Some(path) = std::env::var_os("FRANK_BENCH_FILE").map(PathBuf::from) else {
        say("FRANK_BENCH_FILE names no file: nothing is measured");
        return Ok(());
    };
    let file = Arc::new(DataFile::open(&path)?);
    let buffered = Faults { direct_refused_at_open: true, ..Faults::default() };
    let plain = Faults { registering_refused: true, ..Faults::default() };
    for (backend, faults) in [
        (IoBackend::Uring, Faults::default()),
        (IoBackend::Uring, plain),
        (IoBackend::Pread, Faults::default()),
        (IoBackend::Uring, buffered),
        (IoBackend::Pread, buffered),
        (IoBackend::Mmap, Faults::default()),
    ] {
        measure(&file, backend, faults)?;
    }
    Ok(())
}

fn measure(file: &Arc<DataFile>, backend: IoBackend, faults: Faults) -> Result<(), OsError> {
    let staging_bytes = DEPTH * (LEN + 8192);
    let options = QueueOptions { backend: Some(backend), staging_bytes, faults };
    let mut queue = ReadQueue::open(&[Arc::clone(file)], &options)?;
    let (began, cpu) = (Instant::now(), cpu_time());
    let (mut started, mut ended) = (0, 0);
    while ended < N_READS {
        while started < N_READS
            && queue.in_flight() < DEPTH
            && queue.start(0, place(started, file.len()), LEN, started)
        {
            started += 1;
        }
        let Some(finished) = queue.finish(true) else { break };
        std::hint::black_box(queue.bytes(&finished));
        queue.give_back(finished);
        ended += 1;
    }
    let (seconds, cpu) = (began.elapsed().as_secs_f64(), (cpu_time() - cpu).as_secs_f64());
    let bytes = (N_READS * LEN as u64) as f64;
    say(&format!(
        "{backend:8} direct: {:5} {:6.2} GB/s, {:5.1} us of processor a read; {}",
        queue.is_direct(),
        bytes / seconds / 1e9,
        cpu / N_READS as f64 * 1e6,
        queue.fallback().unwrap_or("nothing refused"),
    ));
    Ok(())
}

/// Where read number `read` starts: anywhere, the same on every run.
fn place(read: u64, bytes: u64) -> u64 {
    let scattered = (read + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    scattered % bytes.saturating_sub(LEN as u64).max(1)
}

/// Processor time of all threads of this process, user and system; in steps of 10 ms.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = text.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2);
    Duration::from_millis(10 * ticks.filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>())
}

#[expect(clippy::print_stdout, reason = "a bench answers on its standard output")]
fn say(line: &str) {
    println!("{line}");
}
