//! The machine to plan for: this one, or one written down in a file. Never plans.

use std::path::Path;

use anyhow::Context;
use frank_plan::{Device, Host, Machine};

use crate::report::Failure;

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
        id: "cpu:0".to_owned(),
        kind: "cpu".to_owned(),
        total,
        free,
        headroom: None,
        bandwidth: None,
    };
    Ok(Machine { host: Host { ram: total, cores }, devices: vec![device], drives: Vec::new() })
}

/// The machine that the TOML file at `path` describes.
///
/// # Errors
/// When the file cannot be read or does not describe a machine.
pub(crate) fn machine_from(path: &Path) -> anyhow::Result<Machine> {
    let fact = || Failure::usage(format!("cannot use the machine file {}", path.display()));
    let text = std::fs::read_to_string(path).with_context(fact)?;
    Machine::from_toml(&text).with_context(fact)
}
