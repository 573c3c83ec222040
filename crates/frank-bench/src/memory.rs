//! How fast memory is read by all threads together. Never keeps the buffer.

use std::time::{Duration, Instant};

use frank_kernels::{Pool, read_bandwidth};
use frank_os::{AnonBuffer, OsError};

/// Passes at least, whatever they take: a median needs three.
const PASSES_MIN: usize = 3;

/// Bytes per second of each pass over `buffer_bytes` of memory in huge pages, read with every thread of `pool` for about
/// `time` and three passes at least. The first pass, in which caches and clocks warm up, is not counted.
///
/// The result says something about memory when the buffer is several times as large as the last cache.
///
/// # Errors
/// [`OsError`] when the system does not give the buffer.
pub fn memory_rates(
    pool: &mut Pool,
    buffer_bytes: u64,
    time: Duration,
) -> Result<Vec<f64>, OsError> {
    let mut buffer = AnonBuffer::new(buffer_bytes)?;
    // Pages that were never written are all one page of zeros, which would be read from a cache.
    buffer.populate()?;
    let mut pass = || {
        let start = Instant::now();
        std::hint::black_box(read_bandwidth(pool, buffer.as_slice()));
        buffer_bytes as f64 / start.elapsed().as_secs_f64()
    };
    pass();
    let start = Instant::now();
    let mut rates = Vec::new();
    while rates.len() < PASSES_MIN || start.elapsed() < time {
        rates.push(pass());
    }
    Ok(rates)
}
