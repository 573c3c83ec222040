//! The numbers of a plan, without its words: cheap enough to be made for every setting that a search tries.

use crate::bounds::Bounds;
use crate::device_use::DeviceUse;
use crate::kv::{ARENA_BYTES, KvPlan};
use crate::limits::{Limits, Settings};
use crate::machine::{DEVICES_MAX, Machine};
use crate::needs::{ComputeNeeds, ModelNeeds};
use crate::obstacle::Obstacle;
use crate::page_tables::PageTables;
use crate::ranked::Ranked;
use crate::split::{Share, Split, Splitter, occupied};

/// A model and a machine, with what stays the same for all limits of one ranking.
#[derive(Debug)]
pub(crate) struct Planner<'a> {
    pub(crate) needs: &'a ModelNeeds,
    pub(crate) machine: &'a Machine,
    pub(crate) experts: Ranked,
    /// Index of the device of the dense weights.
    pub(crate) primary: Option<usize>,
    /// Indexes of the other devices that experts may lie on.
    secondaries: Vec<usize>,
}

/// Where everything lies in numbers, and what stands in the way.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) settings: Settings,
    pub(crate) kv: KvPlan,
    /// What each device holds.
    pub(crate) uses: Vec<DeviceUse>,
    /// Bytes that stay free on each device.
    pub(crate) headrooms: Vec<u64>,
    pub(crate) split: Split,
    pub(crate) obstacle: Option<Obstacle>,
}

impl<'a> Planner<'a> {
    /// A planner for limits with the ranking of `limits`.
    pub(crate) fn new(needs: &'a ModelNeeds, machine: &'a Machine, limits: &Limits) -> Self {
        let is_cpu = |&index: &usize| machine.devices[index].kind == "cpu";
        let mut cpus = (0..machine.devices.len()).filter(is_cpu);
        let primary = cpus.next();
        let secondaries = cpus.take_while(|&index| index < DEVICES_MAX).collect();
        let experts = Ranked::new(needs, &limits.ranking);
        Self { needs, machine, experts, primary, secondaries }
    }

    /// The primary device, where the machine has one.
    pub(crate) fn primary_id(&self) -> Option<&str> {
        self.primary.map(|index| self.machine.devices[index].id.as_str())
    }

    /// Slots of the smallest cache that streamed experts work with, and bytes of each.
    pub(crate) fn cache_floor(&self) -> (u64, u64) {
        let experts = &self.experts;
        let n_streamed = (experts.len() - experts.n_protected) as u64;
        (experts.floor_slots.min(n_streamed), experts.largest(experts.n_protected))
    }

    /// Bytes of that cache.
    pub(crate) fn cache_floor_bytes(&self) -> u64 {
        let (slots, slot_bytes) = self.cache_floor();
        occupied(slots.saturating_mul(slot_bytes))
    }

    /// Whether a plan for `limits` holds.
    pub(crate) fn fits(&self, limits: &Limits) -> bool {
        self.draft(limits).obstacle.is_none()
    }

    /// Plans without asking whether it fits, and says what stands in the way.
    pub(crate) fn draft(&self, limits: &Limits) -> Draft {
        let settings = Settings::chosen(self.needs, limits);
        let kv = KvPlan::new(&self.needs.state, settings);
        let bounds = Bounds::new(self.machine, limits);
        let mut draft = Draft {
            settings,
            kv,
            uses: vec![DeviceUse::default(); self.machine.devices.len()],
            headrooms: bounds.headrooms.clone(),
            split: Split::default(),
            obstacle: None,
        };
        draft.obstacle = Obstacle::of_request(self, limits, &draft);
        if let Some(primary) = self.primary {
            draft.uses[primary] = fixed(self.needs, settings, &draft.kv);
            let placed = self.place(limits, &bounds, primary, &mut draft);
            draft.obstacle = draft.obstacle.or(placed);
        }
        draft
    }

    /// Adds experts and slots to the uses of `draft`, and says why they may not lie there.
    fn place(
        &self,
        limits: &Limits,
        bounds: &Bounds,
        primary: usize,
        draft: &mut Draft,
    ) -> Option<Obstacle> {
        let mut fixed: Vec<u64> = draft.uses.iter().map(DeviceUse::total).collect();
        let devices = &self.machine.devices;
        let budgets: Vec<Option<u64>> =
            devices.iter().map(|device| limits.expert_budget(&device.id)).collect();
        let aside = self.tables_aside(bounds, primary, fixed[primary], &budgets);
        fixed[primary] = fixed[primary].saturating_add(aside);
        let cache_id = limits.stream_cache.as_ref().and_then(|cache| cache.device.as_ref());
        let named = cache_id.and_then(|id| devices.iter().position(|device| device.id == *id));
        let splitter = Splitter {
            experts: &self.experts,
            bounds,
            fixed: &fixed,
            staging: self.needs.expert_staging_bytes,
            primary,
            secondaries: &self.secondaries,
            cache_device: named.unwrap_or(primary),
            budgets: &budgets,
            cache: limits.stream_cache.as_ref().map(|cache| cache.bytes),
            share: share(limits, budgets[primary].is_some()),
        };
        let split = splitter.split();
        draft.add(&splitter, &split);
        draft.add_tables(self.page_tables(), primary);
        let obstacle = Obstacle::of_bytes(self, &splitter, &split, &draft.uses);
        draft.split = split;
        obstacle
    }

    fn page_tables(&self) -> PageTables {
        PageTables { mapped_bytes: self.needs.page_table_reach }
    }

    /// Bytes of page tables for whatever is going to lie beside `fixed` bytes of the primary device.
    fn tables_aside(
        &self,
        bounds: &Bounds,
        primary: usize,
        fixed: u64,
        budgets: &[Option<u64>],
    ) -> u64 {
        let elsewhere = self.secondaries.iter();
        let elsewhere = elsewhere.map(|&device| (device, budgets[device].unwrap_or(u64::MAX)));
        let room = bounds.most_together(elsewhere.chain([(primary, u64::MAX)]));
        // Each device rounds what it holds up, and so do the slots.
        let rounding = (self.secondaries.len() as u64 + 2) * ARENA_BYTES;
        let experts = self.experts.bytes(0..self.experts.len());
        let parts = [experts, self.needs.expert_staging_bytes, rounding];
        self.page_tables().aside(parts.into_iter().fold(fixed, u64::saturating_add), room)
    }
}

impl Draft {
    /// Adds what the system takes to map all that is held.
    fn add_tables(&mut self, tables: PageTables, primary: usize) {
        let held = self.uses.iter().map(DeviceUse::total).fold(0, u64::saturating_add);
        let runtime = &mut self.uses[primary].runtime;
        *runtime = runtime.saturating_add(tables.of(held));
    }

    fn add(&mut self, splitter: &Splitter<'_>, split: &Split) {
        for (device, ranks) in split.ranges(splitter.primary) {
            let experts = &mut self.uses[device].experts;
            *experts = experts.saturating_add(occupied(splitter.experts.bytes(ranks)));
        }
        if splitter.is_streamed(split) {
            let staging = &mut self.uses[splitter.primary].io_staging;
            *staging = staging.saturating_add(splitter.staging);
            self.uses[splitter.cache_device].stream_cache = split.cache_bytes();
        }
    }
}

/// How the memory beside the dense weights is shared. Slots keep what a model really uses, whatever that is; so without
/// a ranking they are worth more than experts that are resident by their number.
fn share(limits: &Limits, has_budget: bool) -> Share {
    let says_so = has_budget || limits.stream_cache.is_some() || limits.ranking.placement.is_some();
    match &limits.ranking.hotness {
        _ if says_so => Share::ResidentFirst,
        Some(_) => Share::Half,
        None => Share::Protected,
    }
}

/// What a model takes on its primary device beside the experts that can be told apart; saturates.
fn fixed(needs: &ModelNeeds, settings: Settings, kv: &KvPlan) -> DeviceUse {
    let is_whole = needs.expert_layers.is_empty();
    DeviceUse {
        dense: needs.dense_bytes,
        experts: if is_whole { needs.expert_bytes } else { 0 },
        kv_cache: kv.kv_cache,
        prefix_cache: kv.prefix_cache,
        compute: compute_bytes(&needs.compute, settings),
        io_staging: needs.io_staging_bytes.max(kv.disk_staging),
        runtime: needs.runtime_bytes,
        ..DeviceUse::default()
    }
}

fn compute_bytes(compute: &ComputeNeeds, settings: Settings) -> u64 {
    let ComputeNeeds { fixed, per_row, per_output_row, per_request, per_context_token } = *compute;
    let terms = [
        (per_row, settings.ubatch),
        (per_output_row, settings.parallel),
        (per_request, settings.parallel),
        (per_context_token, settings.ctx_size),
    ];
    terms.into_iter().fold(fixed, |sum, (bytes, count)| {
        sum.saturating_add(bytes.saturating_mul(u64::from(count)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_memory_counts_every_term() {
        let compute = ComputeNeeds {
            fixed: 1,
            per_row: 10,
            per_output_row: 1000,
            per_request: 1_000_000,
            per_context_token: 100_000,
        };
        let settings =
            Settings { ctx_size: 5, parallel: 3, ubatch: 2, prefix_cache: 0, disk_cache: false };
        assert_eq!(compute_bytes(&compute, settings), 1 + 20 + 3000 + 3_000_000 + 500_000);
    }
}
