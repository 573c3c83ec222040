//! More memory for the settings that were asked for, where the machine has it: budgets, headroom, pools. Never changes
//! another setting.

use super::Search;
use crate::bounds::sharing;
use crate::device_use::DeviceUse;
use crate::limits::Limits;

/// Suggested budgets are rounded up to this, and suggested headrooms down.
pub(super) const BUDGET_STEP: u64 = 1 << 20;

impl Search<'_> {
    /// Budgets raised and headroom lowered as far as the settings asked for need, where the machine has the memory.
    pub(super) fn more_memory(&self) -> Option<Limits> {
        let devices = &self.planner.machine.devices;
        let used: Vec<u64> = self.attempted.uses.iter().map(DeviceUse::total).collect();
        let all = used.iter().fold(0, |sum: u64, &bytes| sum.saturating_add(bytes));
        let mut limits = self.limits.clone();
        if let Some(budget) = &mut limits.memory_budget {
            *budget = raised(*budget, all)?;
        }
        for (index, device) in devices.iter().enumerate() {
            for (_, cap) in limits.devices.iter_mut().filter(|(id, _)| *id == device.id) {
                *cap = raised(*cap, used[index])?;
            }
            if let Some(budget) = self.limits.expert_budget(&device.id) {
                let least = raised(budget, self.attempted.uses[index].experts)?;
                let own = limits.expert_budgets.iter_mut().filter(|(id, _)| *id == device.id);
                own.for_each(|(_, bytes)| *bytes = least);
            }
        }
        limits.headroom = self.lower_headroom(&used)?.or(limits.headroom);
        (limits != *self.limits && self.fits(&limits)).then_some(limits)
    }

    /// The headroom that is left where devices hold `used` bytes, if that is less than it should be. `None` where there
    /// is less memory than that.
    #[expect(clippy::option_option, reason = "no memory and no change are different answers")]
    fn lower_headroom(&self, used: &[u64]) -> Option<Option<u64>> {
        let machine = self.planner.machine;
        let mut lower = None;
        // A declared pool leaves nothing free on purpose.
        let devices = machine.devices.iter().enumerate();
        for (index, device) in devices.filter(|(_, device)| !device.is_declared) {
            let members = sharing(machine, index);
            let used = members.iter().fold(0, |sum: u64, &n| sum.saturating_add(used[n]));
            let spare = device.free.checked_sub(used)?;
            if spare < self.attempted.headrooms[index] {
                let spare = spare - spare % BUDGET_STEP;
                lower = Some(lower.unwrap_or(u64::MAX).min(spare));
            }
        }
        Some(lower)
    }

    /// For each declared pool, and for each budget of experts, the least that is enough alone, where there is one.
    pub(super) fn larger_pools(&self) -> Vec<Limits> {
        let is_pool = |id: &str| {
            self.planner.machine.devices.iter().any(|device| device.id == id && device.is_declared)
        };
        let with_pool = |index: usize, bytes| {
            let mut limits = self.limits.clone();
            limits.devices[index].1 = bytes;
            limits
        };
        let with_budget = |index: usize, bytes| {
            let mut limits = self.limits.clone();
            limits.expert_budgets[index].1 = bytes;
            limits
        };
        let pools = self.limits.devices.iter().enumerate().filter(|(_, (id, _))| is_pool(id));
        let pools = pools.filter_map(|(index, &(_, asked))| {
            self.least_bytes(asked, self.pool_bytes_max(), |bytes| with_pool(index, bytes))
        });
        let budgets = self.limits.expert_budgets.iter().enumerate();
        let budgets = budgets.filter_map(|(index, &(_, asked))| {
            self.least_bytes(asked, u64::MAX, |bytes| with_budget(index, bytes))
        });
        pools.chain(budgets).collect()
    }

    /// The largest pool that can be declared.
    pub(super) fn pool_bytes_max(&self) -> u64 {
        self.planner.machine.primary().map_or(0, |primary| primary.total)
    }

    /// Limits with the fewest bytes from `asked` to `most`, in steps, that fit; more must fit too if fewer do.
    pub(super) fn least_bytes(
        &self,
        asked: u64,
        most: u64,
        with: impl Fn(u64) -> Limits,
    ) -> Option<Limits> {
        let (mut low, mut high) = (asked / BUDGET_STEP + 1, most / BUDGET_STEP);
        if low > high || !self.fits(&with(high * BUDGET_STEP)) {
            return None;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if self.fits(&with(middle * BUDGET_STEP)) { high = middle } else { low = middle + 1 }
        }
        Some(with(low * BUDGET_STEP))
    }
}

/// `bytes`, or as much as `used` takes where that is more. `None` where no round number is.
fn raised(bytes: u64, used: u64) -> Option<u64> {
    if bytes < used { used.checked_next_multiple_of(BUDGET_STEP) } else { Some(bytes) }
}
