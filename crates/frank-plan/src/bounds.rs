//! How many bytes may be held where: the memory that is free, what the operator allows, and what devices share. Never
//! decides what is held.

use crate::limits::Limits;
use crate::machine::{Device, Machine, default_headroom};

/// A number of bytes that some devices may hold together.
#[derive(Debug, Clone)]
pub(crate) struct Bound {
    /// Indexes of the devices.
    pub(crate) members: Vec<usize>,
    /// Bytes.
    pub(crate) bytes: u64,
    /// Where the number comes from.
    pub(crate) set_by: SetBy,
}

/// The number that decides a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetBy {
    /// What the first member has free, less its headroom.
    Free,
    /// `--device` for the only member, which it may have declared.
    DeviceCap,
    /// `--memory-budget`.
    MemoryBudget,
}

impl Bound {
    /// What the members hold; saturates.
    pub(crate) fn used(&self, used: &[u64]) -> u64 {
        self.members.iter().fold(0, |sum, &member| sum.saturating_add(used[member]))
    }

    /// Whether the members hold no more than they may. A saturated sum is no number, so it never fits.
    pub(crate) fn holds(&self, used: &[u64]) -> bool {
        let used = self.used(used);
        used <= self.bytes && used < u64::MAX
    }
}

/// All bounds of a machine under some limits.
#[derive(Debug)]
pub(crate) struct Bounds {
    /// What is free on each device, then what each may hold, then what all may hold.
    pub(crate) list: Vec<Bound>,
    /// Bytes that stay free on each device.
    pub(crate) headrooms: Vec<u64>,
}

impl Bounds {
    pub(crate) fn new(machine: &Machine, limits: &Limits) -> Self {
        let devices = &machine.devices;
        let headrooms: Vec<u64> =
            devices.iter().map(|device| effective_headroom(device, limits)).collect();
        let free = devices
            .iter()
            .zip(&headrooms)
            .enumerate()
            .filter(|(_, (device, _))| !device.is_declared);
        let free = free.map(|(index, (device, headroom))| {
            let bytes = device.free.saturating_sub(*headroom);
            Bound { members: sharing(machine, index), bytes, set_by: SetBy::Free }
        });
        let caps = devices.iter().enumerate().filter_map(|(index, device)| {
            let bytes = limits.pool_bytes(device).or_else(|| limits.device_cap(&device.id))?;
            Some(Bound { members: vec![index], bytes, set_by: SetBy::DeviceCap })
        });
        let all = limits.memory_budget.map(|bytes| Bound {
            members: (0..devices.len()).collect(),
            bytes,
            set_by: SetBy::MemoryBudget,
        });
        Self { list: free.chain(caps).chain(all).collect(), headrooms }
    }

    /// Whether devices that hold `used` bytes each keep to every bound.
    pub(crate) fn hold(&self, used: &[u64]) -> bool {
        self.list.iter().all(|bound| bound.holds(used))
    }

    /// The bound that `used` exceeds by most bytes, the first of several. `None` when all hold.
    pub(crate) fn worst(&self, used: &[u64]) -> Option<&Bound> {
        let broken = self.list.iter().filter(|bound| !bound.holds(used));
        let excess = |bound: &Bound| bound.used(used).saturating_sub(bound.bytes);
        broken.reduce(|worst, bound| if excess(bound) > excess(worst) { bound } else { worst })
    }

    /// The least of the bounds that are about `device` alone, as far as it does not share memory.
    pub(crate) fn most(&self, device: usize) -> u64 {
        let is_own =
            |bound: &&Bound| bound.members[0] == device && bound.set_by != SetBy::MemoryBudget;
        let bounds = self.list.iter().filter(is_own);
        bounds.map(|bound| bound.bytes).min().unwrap_or(0)
    }

    /// What these devices may hold together, each no more than the number beside it; saturates.
    pub(crate) fn most_together(&self, devices: impl Iterator<Item = (usize, u64)>) -> u64 {
        let most = |(device, bytes): (usize, u64)| self.most(device).min(bytes);
        let sum = devices.map(most).fold(0, u64::saturating_add);
        let budget = self.list.iter().find(|bound| bound.set_by == SetBy::MemoryBudget);
        budget.map_or(sum, |budget| budget.bytes.min(sum))
    }

    /// Bytes that `device` may hold beside what all hold already.
    pub(crate) fn left(&self, device: usize, used: &[u64]) -> u64 {
        let bounds = self.list.iter().filter(|bound| bound.members.contains(&device));
        bounds.map(|bound| bound.bytes.saturating_sub(bound.used(used))).min().unwrap_or(0)
    }
}

/// The device at `index` and those whose memory is part of its own.
pub(crate) fn sharing(machine: &Machine, index: usize) -> Vec<usize> {
    let owner = &machine.devices[index];
    let is_part = |device: &Device| device.part_of.as_ref() == Some(&owner.id);
    let parts = machine.devices.iter().enumerate().filter(|(_, device)| is_part(device));
    std::iter::once(index)
        .chain(parts.map(|(part, _)| part).filter(|&part| part != index))
        .collect()
}

/// What stays free on a device: the operator's number, then the machine's, then the default. Who gives a
/// budget has already said what may be used, and the default is not taken off that again. A pool that is part of
/// another device's memory leaves that to it.
fn effective_headroom(device: &Device, limits: &Limits) -> u64 {
    if device.part_of.is_some() {
        return device.headroom.unwrap_or(0);
    }
    let is_budgeted = limits.memory_budget.is_some() || limits.device_cap(&device.id).is_some();
    let default = if is_budgeted { 0 } else { default_headroom(device.total) };
    limits.headroom.or(device.headroom).unwrap_or(default)
}
