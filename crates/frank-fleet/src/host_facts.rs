//! What a host has: what `frank probe` tells of it, here or over ssh. Bytes are bytes; GB and GiB never meet.

use serde::{Deserialize, Serialize};

/// A host as it was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostFacts {
    /// Its own name.
    pub hostname: String,
    /// `uname -s` and `uname -m`, as `Linux x86_64`.
    pub platform: String,
    /// Bytes of RAM.
    pub ram: u64,
    /// Bytes that nobody holds, as `MemAvailable` says and the control group allows.
    pub ram_free: u64,
    /// Bytes that the control group of the asking process allows, where it says.
    pub cgroup_limit: Option<u64>,
    /// CPUs that may be used.
    pub cores: u32,
    /// Devices with memory of their own or a share of the host's.
    #[serde(default)]
    pub devices: Vec<DeviceFacts>,
    /// Version of systemd, where it runs, as `257`.
    pub systemd: Option<u32>,
    /// Version of podman, as `5.4.2`.
    pub podman: Option<String>,
    /// Number of the user that asks; 0 is root.
    #[serde(default)]
    pub user_id: Option<u32>,
    /// Whether units of the user that asks go on after its last session.
    pub linger: Option<bool>,
    /// What could not be found out, one sentence each.
    #[serde(default)]
    pub unknown: Vec<String>,
}

/// A device of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceFacts {
    /// Its name, as `cuda:0`.
    pub id: String,
    /// `cuda`, `rocm`, `vulkan`.
    pub kind: String,
    /// What its maker calls it.
    pub name: String,
    /// Its instruction set, as `gfx1201` or `sm_86`.
    pub arch: Option<String>,
    /// Bytes of its memory.
    pub total: u64,
    /// Bytes of it that nobody holds.
    pub free: u64,
    /// Bytes of the host's memory that it may use as its own (GTT), for a device without memory of its own.
    pub shared: Option<u64>,
    /// How it is linked to the host.
    pub link: Option<LinkFacts>,
    /// Version of its driver.
    pub driver: Option<String>,
}

/// A PCIe link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkFacts {
    /// Lanes.
    pub width: u32,
    /// Transfers a second, in units of 0.1 GT/s: 160 is 16 GT/s.
    pub speed_tenth_gts: u32,
    /// Whether atomic operations pass; `None` where nobody says.
    pub atomics: Option<bool>,
}
