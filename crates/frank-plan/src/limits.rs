//! What the operator asks for and allows, and the settings that follow. Never looks at the machine.

use crate::machine::Device;
use crate::needs::ModelNeeds;
use crate::ranking::Ranking;
use crate::size::Size;

/// Tokens of context for each request, where the model was trained on as many: holds a coding prompt, and
/// keeps the KV cache of a small machine small.
pub const CTX_SIZE_DEFAULT: u32 = 4096;

/// Requests that are answered at the same time: one person with a chat and an editor, and two to spare.
pub const PARALLEL_DEFAULT: u32 = 4;

/// Rows of one step: past this many, weights are reused enough that CPU matrix products are no longer bound
/// by memory, and scratch memory only grows.
pub const UBATCH_DEFAULT: u32 = 256;

/// What the operator asked for. `None` leaves the choice to the planner.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// Tokens of context for each request (`--ctx-size`).
    pub ctx_size: Option<u32>,
    /// Requests answered at the same time (`--parallel`).
    pub parallel: Option<u32>,
    /// Rows of one step (`--ubatch-size`).
    pub ubatch: Option<u32>,
    /// Bytes of KV cache beyond what running requests need, for prefixes that later ones may share (`--prefix-cache`).
    pub prefix_cache: Option<u64>,
    /// Whether prefixes are kept on a disk too (`--cache-dir`).
    pub disk_cache: bool,
    /// Bytes that the process may hold on all devices together (`--memory-budget`).
    pub memory_budget: Option<u64>,
    /// Bytes that may be held on one device, by its id (`--device`). A later entry overrides an earlier one.
    pub devices: Vec<(String, u64)>,
    /// Bytes of each device to leave free (`--headroom`).
    pub headroom: Option<u64>,
    /// Bytes of resident experts on one device, by its id (`--expert-budget`). A later entry overrides an earlier one.
    pub expert_budgets: Vec<(String, u64)>,
    /// The slots of streamed experts (`--stream-cache`).
    pub stream_cache: Option<StreamCache>,
    /// Which experts are worth more than others.
    pub ranking: Ranking,
}

/// Where the slots of streamed experts lie, and what they may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamCache {
    /// The device, by its id; `None` for the one that owns the dense weights.
    pub device: Option<String>,
    /// Bytes. Whole slots are taken of them, and no more than there are streamed experts.
    pub bytes: u64,
}

impl StreamCache {
    /// The option that asks for it.
    pub(crate) fn option(&self) -> String {
        let size = Size(self.bytes).exact();
        match &self.device {
            Some(id) => format!("--stream-cache {id}={size}"),
            None => format!("--stream-cache {size}"),
        }
    }
}

impl Limits {
    /// Bytes allowed on the device `id`, where the operator named it.
    pub(crate) fn device_cap(&self, id: &str) -> Option<u64> {
        self.devices.iter().rev().find(|(name, _)| name == id).map(|&(_, bytes)| bytes)
    }

    /// Bytes of a pool that is there because it was asked for; `None` for any other device.
    pub(crate) fn pool_bytes(&self, device: &Device) -> Option<u64> {
        device.is_declared.then(|| self.device_cap(&device.id).unwrap_or(device.free))
    }

    /// Bytes of resident experts allowed on the device `id`, where the operator named it.
    pub(crate) fn expert_budget(&self, id: &str) -> Option<u64> {
        self.expert_budgets.iter().rev().find(|(name, _)| name == id).map(|&(_, bytes)| bytes)
    }
}

/// The settings that decide how much memory a model takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) ctx_size: u32,
    pub(crate) parallel: u32,
    pub(crate) ubatch: u32,
    /// Bytes; 0 where none were asked for.
    pub(crate) prefix_cache: u64,
    pub(crate) disk_cache: bool,
}

impl Settings {
    /// What was asked for, and the defaults for the rest.
    pub(crate) fn chosen(needs: &ModelNeeds, limits: &Limits) -> Self {
        let ctx_default = match needs.context_train {
            0 => CTX_SIZE_DEFAULT,
            trained => trained.min(CTX_SIZE_DEFAULT),
        };
        // A step holds a row of each request, so the one that was not asked for follows the other.
        let parallel_default =
            limits.ubatch.map_or(PARALLEL_DEFAULT, |rows| rows.min(PARALLEL_DEFAULT));
        let parallel = limits.parallel.unwrap_or(parallel_default);
        Self {
            ctx_size: limits.ctx_size.unwrap_or(ctx_default),
            parallel,
            ubatch: limits.ubatch.unwrap_or(UBATCH_DEFAULT.max(parallel)),
            prefix_cache: limits.prefix_cache.unwrap_or(0),
            disk_cache: limits.disk_cache,
        }
    }
}
