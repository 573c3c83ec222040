//! What this machine has, as a plan of a fleet wants to know it. Asks the system, and starts no program.

use anyhow::Context;
use frank_fleet::HostFacts;

/// What this machine has. Devices and versions of programs are not asked for, and said to be unknown.
///
/// # Errors
/// When the system does not say how much memory there is.
pub(crate) fn this_host() -> anyhow::Result<HostFacts> {
    let memory = frank_os::host_memory().context("cannot tell how much memory this machine has")?;
    let cgroup = frank_os::cgroup_memory();
    let left = cgroup.as_ref().map_or(u64::MAX, frank_os::CgroupMemory::left);
    Ok(HostFacts {
        hostname: frank_os::host_name().unwrap_or_default(),
        platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        ram: memory.total,
        ram_free: memory.available.min(left),
        cgroup_limit: cgroup.map(|cgroup| cgroup.limit),
        cores: u32::try_from(frank_os::cpu_count()).unwrap_or(u32::MAX),
        unknown: vec!["devices, and versions of systemd and podman, were not asked for".to_owned()],
        ..HostFacts::default()
    })
}
