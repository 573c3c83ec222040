//! The memory of a host: its own and that of its devices, with what is not to be planned.

use frank_plan::{default_headroom, parse_size};

use crate::fleet_file::Host;
use crate::generation::Generation;
use crate::host_facts::{DeviceFacts, HostFacts};
use crate::plan::memory::{DeviceMemory, HOST_MEMORY, MemoryUse};

/// A device with what is planned into it so far.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    pub(super) id: String,
    pub(super) total: u64,
    pub(super) headroom: u64,
    pub(super) others: u64,
    /// Whether what it holds is the host's memory.
    pub(super) is_shared: bool,
    pub(super) uses: Vec<MemoryUse>,
}

impl Pool {
    /// What may still be planned into it.
    pub(super) fn room(&self) -> u64 {
        let taken = self.uses.iter().fold(self.headroom.saturating_add(self.others), |sum, it| {
            sum.saturating_add(it.bytes)
        });
        self.total.saturating_sub(taken)
    }

    pub(super) fn told(&self) -> DeviceMemory {
        let used = self.uses.iter().fold(0u64, |sum, it| sum.saturating_add(it.bytes));
        let taken = used.saturating_add(self.headroom).saturating_add(self.others);
        DeviceMemory {
            id: self.id.clone(),
            total: self.total,
            headroom: self.headroom,
            others: self.others,
            uses: self.uses.clone(),
            left: self.total.saturating_sub(taken),
            // Headroom that others hold already is no reason to refuse a host that nothing is put on.
            short_by: if used > 0 { taken.saturating_sub(self.total) } else { 0 },
        }
    }
}

/// The host's memory and its devices. What `frank.toml` says of a device goes before what was found.
pub(super) fn pools(host: Option<&Host>, facts: &HostFacts, applied: &Generation) -> Vec<Pool> {
    let headroom = host.and_then(|host| size(host.headroom.as_deref()));
    let mut pools = vec![Pool {
        id: HOST_MEMORY.to_owned(),
        total: facts.ram,
        headroom: headroom.unwrap_or_else(|| default_headroom(facts.ram)),
        others: others(HOST_MEMORY, facts.ram, facts.ram_free, applied),
        is_shared: false,
        uses: Vec::new(),
    }];
    pools.extend(facts.devices.iter().map(|device| of_device(device, applied)));
    for entry in host.map_or(&[][..], |host| &host.devices) {
        let (memory, headroom) = (size(entry.memory.as_deref()), size(entry.headroom.as_deref()));
        if !pools.iter().any(|pool| pool.id == entry.id) {
            let total = memory.unwrap_or(0);
            let (id, headroom) = (entry.id.clone(), default_headroom(total));
            let uses = Vec::new();
            pools.push(Pool { id, total, headroom, others: 0, is_shared: false, uses });
        }
        let pool = pools.iter_mut().find(|pool| pool.id == entry.id).expect("it was just added");
        pool.total = memory.unwrap_or(pool.total);
        pool.headroom = headroom.unwrap_or(pool.headroom);
    }
    pools
}

fn of_device(device: &DeviceFacts, applied: &Generation) -> Pool {
    // Without memory of its own it has what it may borrow, whatever was carved out for it.
    let total = device.shared.map_or(device.total, |shared| shared.max(device.total));
    let others = match device.shared {
        Some(_) => 0,
        None => others(&device.id, total, device.free, applied),
    };
    Pool {
        id: device.id.clone(),
        total,
        headroom: default_headroom(total),
        others,
        is_shared: device.shared.is_some(),
        uses: Vec::new(),
    }
}

/// What is held and was not planned: what is not free, less what the endpoints that run there were planned to hold.
fn others(id: &str, total: u64, free: u64, applied: &Generation) -> u64 {
    let planned = applied.endpoints.values().filter_map(|endpoint| endpoint.memory.get(id));
    planned.fold(total.saturating_sub(free), |held, bytes| held.saturating_sub(*bytes))
}

fn size(text: Option<&str>) -> Option<u64> {
    parse_size(text?).ok()
}
