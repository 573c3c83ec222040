//! The memory plan: what lies where, to the byte. Never allocates, and never changes a setting to make it fit.

use serde::Serialize;

use crate::kv::{KvGroupPlan, KvPlan};
use crate::limits::{Limits, Settings};
use crate::machine::{Device, Machine, default_headroom};
use crate::needs::{ComputeNeeds, LayerState, ModelNeeds};
use crate::obstacle::Obstacle;
use crate::predict::Prediction;
use crate::refusal::Refusal;
use crate::size::Size;

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
    /// `free` less `headroom` and `used`; 0 when there is less than nothing.
    pub left: u64,
}

/// What is held on a device, in bytes by purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct DeviceUse {
    /// Weights but the routed experts.
    pub dense: u64,
    /// Resident routed experts.
    pub experts: u64,
    /// Slots for experts read from a drive.
    pub stream_cache: u64,
    /// Keys and values.
    pub kv_cache: u64,
    /// State of layers that have no pages.
    pub state: u64,
    /// Keys and values kept for later requests.
    pub prefix_cache: u64,
    /// Scratch memory of a step.
    pub compute: u64,
    /// Buffers that weights pass through on their way from the file, and then prefixes on their way to and from a disk.
    pub io_staging: u64,
    /// The draft model.
    pub draft: u64,
    /// The image projector.
    pub projector: u64,
    /// Tokenizer, code and heap.
    pub runtime: u64,
}

impl DeviceUse {
    /// Each purpose with its bytes, in the order of the JSON.
    pub fn entries(&self) -> [(&'static str, u64); 11] {
        [
            ("dense", self.dense),
            ("experts", self.experts),
            ("stream_cache", self.stream_cache),
            ("kv_cache", self.kv_cache),
            ("state", self.state),
            ("prefix_cache", self.prefix_cache),
            ("compute", self.compute),
            ("io_staging", self.io_staging),
            ("draft", self.draft),
            ("projector", self.projector),
            ("runtime", self.runtime),
        ]
    }

    /// All purposes together; saturates.
    pub fn total(&self) -> u64 {
        self.entries().into_iter().fold(0, |sum, (_, bytes)| sum.saturating_add(bytes))
    }

    /// What a model takes on the one device that holds all of it; saturates.
    fn resident(needs: &ModelNeeds, settings: Settings, kv: &KvPlan) -> Self {
        Self {
            dense: needs.dense_bytes,
            experts: needs.expert_bytes,
            kv_cache: kv.kv_cache,
            prefix_cache: kv.prefix_cache,
            compute: compute_bytes(&needs.compute, settings),
            io_staging: needs.io_staging_bytes.max(kv.disk_staging),
            runtime: needs.runtime_bytes,
            ..Self::default()
        }
    }
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
    /// All experts resident on the primary device.
    fn resident(needs: &ModelNeeds) -> Self {
        let count = u64::from(needs.layers) * u64::from(needs.experts);
        if needs.expert_bytes == 0 || count == 0 {
            return Self::default();
        }
        Self {
            count,
            bytes_each: needs.expert_bytes / count,
            primary: count,
            floor_slots: u64::from(needs.layers) * u64::from(needs.experts_used),
            ..Self::default()
        }
    }
}

/// Plans a model on a machine: every weight resident on the first `cpu` device, and a full context for each
/// parallel request.
///
/// # Errors
/// [`Refusal`] when it does not fit what the machine has free or the operator allows, names a device that the
/// machine lacks, or asks for 0 of something.
pub fn plan(needs: &ModelNeeds, machine: &Machine, limits: &Limits) -> Result<Plan, Refusal> {
    let Attempt { plan, obstacle } = attempt(needs, machine, limits);
    match obstacle {
        None => Ok(plan),
        Some(obstacle) => Err(Refusal::new(needs, machine, limits, plan, &obstacle)),
    }
}

/// A plan that holds only when nothing stands in its way.
pub(crate) struct Attempt {
    pub(crate) plan: Plan,
    pub(crate) obstacle: Option<Obstacle>,
}

/// Plans without asking whether it fits, and says what stands in the way.
pub(crate) fn attempt(needs: &ModelNeeds, machine: &Machine, limits: &Limits) -> Attempt {
    let settings = Settings::chosen(needs, limits);
    let kv = KvPlan::new(&needs.state, settings);
    let primary = machine.primary();
    let devices = machine.devices.iter().map(|device| {
        let is_primary = primary.is_some_and(|primary| std::ptr::eq(primary, device));
        let uses = if is_primary {
            DeviceUse::resident(needs, settings, &kv)
        } else {
            DeviceUse::default()
        };
        device_plan(device, uses, limits)
    });
    let plan = Plan {
        model: summary(needs),
        devices: devices.collect(),
        experts: ExpertPlan::resident(needs),
        predict: Prediction::resident(needs, settings.ctx_size, primary),
        warnings: warnings(needs, settings, (kv.request_bytes(), machine.host.ram)),
        ctx_size: settings.ctx_size,
        parallel: settings.parallel,
        ubatch: settings.ubatch,
        kv_bytes_per_token: kv_bytes_per_token(&needs.state),
        kv_groups: kv.groups,
    };
    let obstacle = Obstacle::find(machine, limits, &plan);
    Attempt { plan, obstacle }
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

fn device_plan(device: &Device, uses: DeviceUse, limits: &Limits) -> DevicePlan {
    let (headroom, used) = (effective_headroom(device, limits), uses.total());
    DevicePlan {
        id: device.id.clone(),
        total: device.total,
        free: device.free,
        headroom,
        uses,
        used,
        left: device.free.saturating_sub(headroom).saturating_sub(used),
    }
}

/// What stays free on a device: the operator's number, then the machine's, then the default. Who gives a
/// budget has already said what may be used, and the default is not taken off that again.
fn effective_headroom(device: &Device, limits: &Limits) -> u64 {
    let is_budgeted = limits.memory_budget.is_some() || limits.device_cap(&device.id).is_some();
    let default = if is_budgeted { 0 } else { default_headroom(device.total) };
    limits.headroom.or(device.headroom).unwrap_or(default)
}

fn warnings(
    needs: &ModelNeeds,
    settings: Settings,
    (request_bytes, ram): (u64, u64),
) -> Vec<String> {
    let mut warnings = needs.warnings.clone();
    let (trained, ctx_size) = (needs.context_train, settings.ctx_size);
    if trained > 0 && ctx_size > trained {
        let beyond = ctx_size - trained;
        warnings.push(format!(
            "a context of {ctx_size} tokens extrapolates {beyond} tokens beyond the {trained} that the model was trained on"
        ));
    }
    warnings.extend(prefix_cache_warning(settings.prefix_cache, request_bytes, ram));
    warnings
}

/// What is wrong with the size of a prefix cache: too small for one request of `request_bytes`, or more than half of
/// the host's memory.
fn prefix_cache_warning(bytes: u64, request_bytes: u64, ram: u64) -> Option<String> {
    let half = ram / 2;
    if bytes > 0 && bytes < request_bytes {
        let (bytes, request) = (Size(bytes), Size(request_bytes));
        Some(format!(
            "a prefix cache of {bytes} cannot keep one whole request, which takes {request}"
        ))
    } else if bytes > half {
        let (bytes, half) = (Size(bytes), Size(half));
        Some(format!("a prefix cache of {bytes} is more than half of the host's memory, {half}"))
    } else {
        None
    }
}

fn kv_bytes_per_token(state: &[LayerState]) -> u64 {
    let bytes = state.iter().map(|LayerState::Paged { bytes_per_token, .. }| *bytes_per_token);
    bytes.fold(0, u64::saturating_add)
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
