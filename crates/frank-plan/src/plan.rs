//! The memory plan: what lies where, to the byte. Never allocates, and never changes a setting to make it fit.

use serde::Serialize;

use crate::bounds::sharing;
use crate::device_use::DeviceUse;
use crate::draft::{Draft, Planner};
use crate::kv::KvGroupPlan;
use crate::limits::Limits;
use crate::machine::{Device, Machine};
use crate::needs::{LayerState, ModelNeeds};
use crate::predict::Prediction;
use crate::refusal::Refusal;
use crate::split::Split;
use crate::tiers::{ExpertTiers, Tier};
use crate::warnings::warnings;

/// What lies where, and the settings that it was planned for.
///
/// Serializes to the facts of `frank fit --json`; the settings are not among them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// The model.
    pub model: ModelSummary,
    /// Every device of the machine, in its order.
    pub devices: Vec<DevicePlan>,
    /// The routed experts.
    pub experts: ExpertPlan,
    /// Expected speed.
    pub predict: Prediction,
    /// What the operator should know, each a sentence.
    pub warnings: Vec<String>,
    /// Tokens of context for each request.
    #[serde(skip)]
    pub ctx_size: u32,
    /// Requests answered at the same time.
    #[serde(skip)]
    pub parallel: u32,
    /// Rows of one step.
    #[serde(skip)]
    pub ubatch: u32,
    /// The KV cache: the group of layers without a window first, then rising windows.
    #[serde(skip)]
    pub kv_groups: Vec<KvGroupPlan>,
    /// Bytes of keys and values of one token, all layers together.
    #[serde(skip)]
    pub kv_bytes_per_token: u64,
    /// Where each routed expert lies.
    #[serde(skip)]
    pub expert_tiers: ExpertTiers,
}

impl Plan {
    /// Blocks of each group of [`Plan::kv_groups`], in its order.
    #[must_use]
    pub fn kv_blocks(&self) -> Vec<u32> {
        let count = |group: &KvGroupPlan| {
            u32::try_from(group.n_blocks).expect("a plan with more blocks than that is refused")
        };
        self.kv_groups.iter().map(count).collect()
    }
}

/// The model that a plan is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelSummary {
    /// Architecture as the file spells it.
    pub arch: String,
    /// Bytes of all parts of the file together.
    pub file_bytes: u64,
    /// Layers.
    pub layers: u32,
    /// Routed experts of one layer.
    pub experts: u32,
    /// Routed experts that one token uses in one layer.
    pub experts_used: u32,
}

/// One device of a plan. All numbers are bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DevicePlan {
    /// Its name.
    pub id: String,
    /// What it has.
    pub total: u64,
    /// What nobody held before.
    pub free: u64,
    /// What stays free on purpose. 0 when the operator gave a budget and no headroom: the budget is then the
    /// whole answer.
    pub headroom: u64,
    /// What frank will hold, by purpose.
    #[serde(rename = "use")]
    pub uses: DeviceUse,
    /// What frank will hold: the sum of `uses`.
    pub used: u64,
    /// `free` less `headroom`, `used` and what pools that are part of it use, and for such a pool no more than that;
    /// 0 when there is less than nothing.
    pub left: u64,
}

/// Where the routed experts are. Counts are of experts, not bytes, and over all layers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ExpertPlan {
    /// All of them.
    pub count: u64,
    /// Bytes of one.
    pub bytes_each: u64,
    /// Resident on the device that owns the dense weights.
    pub primary: u64,
    /// Resident on another device.
    pub secondary: u64,
    /// Read from a drive when needed.
    pub stream: u64,
    /// Slots that streamed experts share.
    pub cache_slots: u64,
    /// Slots that one token needs.
    pub floor_slots: u64,
}

impl ExpertPlan {
    fn new(planner: &Planner<'_>, split: &Split) -> Self {
        let (needs, experts) = (planner.needs, &planner.experts);
        let is_whole = needs.expert_layers.is_empty();
        let whole_floor = u64::from(needs.layers).saturating_mul(u64::from(needs.experts_used));
        let Some(bytes_each) = needs.expert_bytes.checked_div(experts.count) else {
            return Self::default();
        };
        let n_secondary = split.resident() - split.primary;
        Self {
            count: experts.count,
            bytes_each,
            primary: if is_whole { experts.count } else { split.primary as u64 },
            secondary: n_secondary as u64,
            stream: (experts.len() - split.resident()) as u64,
            cache_slots: split.slots,
            floor_slots: if is_whole { whole_floor } else { experts.floor_slots },
        }
    }
}

/// Plans a model on a machine: all weights but experts, and a full context for each parallel request, on the first `cpu`
/// device, and every expert there too if it fits.
///
/// Otherwise experts go to the other `cpu` devices, or are streamed through slots of a cache that are sized last: at
/// least as many as one token needs. Without a ranking and without a word on how much is resident, all that is left
/// beside the dense weights is slots, for a cache keeps what is really used. With a hotness file half of what is left
/// beyond that least is resident, hottest first; with a placement file as many experts are as it says and fit.
///
/// # Errors
/// [`Refusal`] when it does not fit what the machine has free or the operator allows, names a device that the
/// machine lacks, or asks for 0 of something.
pub fn plan(needs: &ModelNeeds, machine: &Machine, limits: &Limits) -> Result<Plan, Refusal> {
    let planner = Planner::new(needs, machine, limits);
    let mut draft = planner.draft(limits);
    match draft.obstacle.take() {
        None => Ok(Plan::new(&planner, limits, draft)),
        Some(obstacle) => Err(Refusal::new(&planner, limits, draft, &obstacle)),
    }
}

impl Plan {
    /// The draft in full, whether it holds or not.
    pub(crate) fn new(planner: &Planner<'_>, limits: &Limits, draft: Draft) -> Self {
        let needs = planner.needs;
        let settings = draft.settings;
        let expert_tiers = expert_tiers(planner, &draft);
        let mut plan = Self {
            model: summary(needs),
            devices: device_plans(planner.machine, limits, &draft),
            experts: ExpertPlan::new(planner, &draft.split),
            predict: Prediction::default(),
            warnings: warnings(planner, limits, &draft, &expert_tiers),
            ctx_size: settings.ctx_size,
            parallel: settings.parallel,
            ubatch: settings.ubatch,
            kv_bytes_per_token: kv_bytes_per_token(&needs.state),
            kv_groups: draft.kv.groups,
            expert_tiers,
        };
        plan.predict_on(needs, planner.machine, limits.ranking.hotness.as_ref());
        plan
    }
}

fn summary(needs: &ModelNeeds) -> ModelSummary {
    ModelSummary {
        arch: needs.arch.clone(),
        file_bytes: needs.file_bytes,
        layers: needs.layers,
        experts: needs.experts,
        experts_used: needs.experts_used,
    }
}

fn device_plans(machine: &Machine, limits: &Limits, draft: &Draft) -> Vec<DevicePlan> {
    let used: Vec<u64> = draft.uses.iter().map(DeviceUse::total).collect();
    // What a pool is declared to be, all of it is free.
    let sizes = |device: &Device| match limits.pool_bytes(device) {
        Some(bytes) => (bytes, bytes),
        None => (device.total, device.free),
    };
    let left = |index: usize| {
        let used =
            sharing(machine, index).iter().fold(0, |sum: u64, &n| sum.saturating_add(used[n]));
        let (_, free) = sizes(&machine.devices[index]);
        free.saturating_sub(draft.headrooms[index]).saturating_sub(used)
    };
    let plan = |(index, device): (usize, &Device)| {
        let owner = |id: &String| machine.devices.iter().position(|device| device.id == *id);
        let owner = device.part_of.as_ref().and_then(owner);
        let (total, free) = sizes(device);
        DevicePlan {
            id: device.id.clone(),
            total,
            free,
            headroom: draft.headrooms[index],
            uses: draft.uses[index],
            used: used[index],
            left: owner.map_or(u64::MAX, left).min(left(index)),
        }
    };
    machine.devices.iter().enumerate().map(plan).collect()
}

/// Where each expert of a draft lies.
fn expert_tiers(planner: &Planner<'_>, draft: &Draft) -> ExpertTiers {
    let split = &draft.split;
    let primary = planner.primary.unwrap_or(0);
    let mut tiers = planner.experts.tiers(|rank| {
        match split.ranges(primary).find(|(_, ranks)| ranks.contains(&rank)) {
            Some((device, _)) if device == primary => Tier::Primary,
            // Only devices whose index a tier can say are given experts.
            Some((device, _)) => Tier::Secondary(u8::try_from(device).unwrap_or(u8::MAX)),
            None => Tier::Stream,
        }
    });
    (tiers.cache_slots, tiers.slot_bytes) = (split.slots, split.slot_bytes);
    tiers
}

fn kv_bytes_per_token(state: &[LayerState]) -> u64 {
    let bytes = state.iter().map(|LayerState::Paged { bytes_per_token, .. }| *bytes_per_token);
    bytes.fold(0, u64::saturating_add)
}
