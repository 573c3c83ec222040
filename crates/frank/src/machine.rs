//! The machine to plan for: this one, measured or not, or one written down in a file. Never plans.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use frank_bench::{Spread, arithmetic_rate, memory_rates};
use frank_gguf::type_id;
use frank_kernels::{Pool, WeightType};
use frank_os::read_small_file;
use frank_plan::{Device, Host, Machine};

use crate::options::ModelOptions;
use crate::report::Failure;

/// The device that this machine is, as far as frank knows it.
pub(crate) const THIS_DEVICE: &str = "cpu:0";

/// Such a file names a few hundred devices at most.
const MACHINE_FILE_BYTES_MAX: u64 = 1 << 20;

/// This machine, as much of it as this process may use: the smaller of what there is and what its cgroup allows.
///
/// # Errors
/// When `/proc` does not say how much memory there is.
pub(crate) fn this_machine() -> anyhow::Result<Machine> {
    let host = frank_os::host_memory().context("cannot tell how much memory this machine has")?;
    let (mut total, mut free) = (host.total, host.available);
    if let Some(cgroup) = frank_os::cgroup_memory() {
        total = total.min(cgroup.limit);
        free = free.min(cgroup.left());
    }
    let cores = u32::try_from(frank_os::cpu_count()).unwrap_or(u32::MAX);
    // What this process holds already is part of what is planned for it, so it is not taken off twice.
    let held = frank_os::process_memory().map_or(0, |memory| memory.rss);
    free = free.saturating_add(held).min(total);
    let device = Device {
        id: THIS_DEVICE.to_owned(),
        kind: "cpu".to_owned(),
        total,
        free,
        headroom: None,
        bandwidth: None,
        arithmetic: None,
        part_of: None,
        is_declared: false,
    };
    Ok(Machine { host: Host { ram: total, cores }, devices: vec![device], drives: Vec::new() })
}

/// The machine that the TOML file at `path` describes.
///
/// # Errors
/// When the file cannot be read or does not describe a machine.
pub(crate) fn machine_from(path: &Path) -> anyhow::Result<Machine> {
    let fact = || Failure::usage(format!("cannot use the machine file {}", path.display()));
    let bytes = read_small_file(path, MACHINE_FILE_BYTES_MAX).with_context(fact)?;
    let text = String::from_utf8(bytes).context("it is not UTF-8 text").with_context(fact)?;
    Machine::from_toml(&text).with_context(fact)
}

/// How thoroughly a machine is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Bytes of memory that are read, if so many may be held.
    buffer_bytes: u64,
    /// How long each rate is measured.
    time: Duration,
}

impl Effort {
    /// For a prediction beside other work: a quarter of a second in all.
    pub(crate) const SHORT: Self =
        Self { buffer_bytes: 256 << 20, time: Duration::from_millis(50) };

    /// For numbers that are written down: a second or two, and more memory than any last cache of one socket.
    pub(crate) const LONG: Self = Self { buffer_bytes: 2 << 30, time: Duration::from_millis(700) };
}

/// What measuring takes beside the memory that is read: threads, their stacks, and weights to multiply with.
const MEASURING_BYTES: u64 = 8 << 20;

/// The least memory whose reading says anything about memory.
const BUFFER_BYTES_MIN: u64 = 64 << 20;

/// Of the free memory, one part in this many may be held for a moment to be read.
const BUFFER_SHARE: u64 = 4;

/// What all threads together do in a second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rates {
    /// Bytes of memory read; `None` where there is too little memory to measure.
    pub(crate) bandwidth: Option<Spread>,
    /// Multiplications with an addition, of the rows of a prompt with quantized weights.
    pub(crate) arithmetic: Option<Spread>,
    /// Bytes that were read in turns.
    pub(crate) buffer_bytes: u64,
}

/// Measures this machine with as many threads as will compute, within what may be held: `free` bytes, and `allowed` where
/// the operator says so.
pub(crate) fn measure(threads: usize, free: u64, allowed: Option<u64>, effort: Effort) -> Rates {
    // Who computes with more threads than there are is told so when they are started.
    let pool = Pool::start(threads).ok();
    let (Some(buffer_bytes), Some(mut pool)) = (buffer_bytes(free, allowed, effort), pool) else {
        return Rates { bandwidth: None, arithmetic: None, buffer_bytes: 0 };
    };
    let weight_type = WeightType::of(type_id::Q8_0).expect("the type is in every build");
    let arithmetic = arithmetic_rate(&mut pool, weight_type, effort.time).ok();
    Rates {
        bandwidth: bandwidth(&mut pool, buffer_bytes, effort),
        arithmetic: arithmetic.and_then(|rates| Spread::of(&rates)),
        buffer_bytes,
    }
}

/// Bytes of memory that are read over and over; `None` when there are so few that they say nothing about memory.
fn buffer_bytes(free: u64, allowed: Option<u64>, effort: Effort) -> Option<u64> {
    let allowed = allowed.map_or(u64::MAX, |bytes| bytes.saturating_sub(MEASURING_BYTES));
    let bytes = effort.buffer_bytes.min(free / BUFFER_SHARE).min(allowed);
    (bytes >= BUFFER_BYTES_MIN).then_some(bytes)
}

fn bandwidth(pool: &mut Pool, buffer_bytes: u64, effort: Effort) -> Option<Spread> {
    // Memory that the system does not give after all cannot be measured, and that is no failure of what is planned.
    let rates = memory_rates(pool, buffer_bytes, effort.time).ok();
    rates.and_then(|rates| Spread::of(&rates))
}

/// Bytes of memory that so many threads read in a second, measured within `allowed` bytes; `None` where those are too few.
pub(crate) fn memory_bandwidth(threads: usize, free: u64, allowed: u64) -> Option<u64> {
    let buffer_bytes = buffer_bytes(free, Some(allowed), Effort::SHORT)?;
    let mut pool = Pool::start(threads).ok()?;
    bandwidth(&mut pool, buffer_bytes, Effort::SHORT).map(per_second)
}

/// This machine as [`this_machine`] gives it, with what its threads do in a second.
pub(crate) fn measured(mut machine: Machine, options: &ModelOptions) -> Machine {
    let Some(device) = machine.devices.first_mut() else { return machine };
    let rates = measure(threads(options), device.free, options.left_to_take(), Effort::SHORT);
    device.bandwidth = rates.bandwidth.map(per_second);
    device.arithmetic = rates.arithmetic.map(per_second);
    machine
}

/// Threads that compute.
pub(crate) fn threads(options: &ModelOptions) -> usize {
    options.threads.map_or_else(frank_os::cpu_count, |n| n as usize)
}

/// The median as a whole number.
pub(crate) fn per_second(rate: Spread) -> u64 {
    // A cast saturates, and no rate is near 2^64.
    rate.median as u64
}
