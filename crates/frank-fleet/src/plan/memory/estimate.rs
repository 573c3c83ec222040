//! What another runtime will hold, from the header: weights and keys and values of full contexts, layer by layer, and what
//! buffers take. An estimate, and called one.

use std::collections::BTreeMap;

use frank_plan::{LayerState, ModelNeeds, Size};

use crate::fault::Fault;
use crate::fleet_file::Endpoint;
use crate::plan::memory::HOST_MEMORY;
use crate::plan::memory::pools::Pool;
use crate::plan::memory::spread::{Spread, number, text};

/// Bytes that a runtime takes on each device beside weights, keys and values. Buffers for 512 tokens at once and the code of
/// the runtime were measured at about this much (V1 and V3 of the operators' record).
const BUFFER_BYTES: u64 = 1 << 30;

/// Tokens of context where neither the endpoint nor the header says how many.
const CONTEXT_DEFAULT: u32 = 4096;

/// The share of a card that vLLM takes, whatever the model needs, unless it is told another.
const VLLM_SHARE: f64 = 0.9;

/// What an endpoint will hold, by device.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Estimate {
    pub(super) held: BTreeMap<String, u64>,
    /// What has to be there, whatever else is taken for caches.
    needed: BTreeMap<String, u64>,
    is_on_one: bool,
}

impl Estimate {
    /// `extra` are the bytes of a draft model and a projector, which the first device holds.
    pub(super) fn new(needs: &ModelNeeds, endpoint: &Endpoint, extra: u64, pools: &[Pool]) -> Self {
        let spread = Spread::of(endpoint, pools);
        let mut needed = layers(needs, endpoint, &spread);
        for (index, (id, share)) in spread.shares.iter().enumerate() {
            let bytes = if index == 0 { extra } else { 0 };
            let buffers = if *share > 0.0 { BUFFER_BYTES } else { 0 };
            *needed.entry(id.clone()).or_default() += bytes + buffers;
        }
        let held = match endpoint.runtime.as_str() {
            "vllm" => taken_by_vllm(endpoint, &needed, pools),
            _ => needed.clone(),
        };
        Self { held, needed, is_on_one: spread.is_on_one }
    }

    /// Why it cannot be, where the host as a whole would not show it.
    pub(super) fn problem(
        &self,
        name: &str,
        endpoint: &Endpoint,
        pools: &[Pool],
        budget: Option<u64>,
    ) -> Option<Fault> {
        let place = format!("endpoints.{name}");
        let needed: u64 = self.needed.values().sum();
        if let Some(budget) = budget.filter(|budget| needed > *budget) {
            let message = format!("it needs about {}, and may hold {}", Size(needed), Size(budget));
            return Some(Fault::error("over_budget", format!("{place}.memory-budget"), message));
        }
        let (id, bytes) = self.needed.iter().find(|(id, bytes)| {
            pools.iter().find(|pool| pool.id == **id).is_some_and(|pool| **bytes > pool.room())
        })?;
        let room = pools.iter().find(|pool| pool.id == *id).map_or(0, Pool::room);
        let message = format!(
            "{id} is short by {}: it needs about {} there, and {} may be planned",
            Size(bytes - room),
            Size(*bytes),
            Size(room)
        );
        let fault = Fault::error("does_not_fit", place, message);
        Some(fault.hint(self.way_out(endpoint, needed, pools)))
    }

    fn way_out(&self, endpoint: &Endpoint, needed: u64, pools: &[Pool]) -> String {
        let others = pools.iter().filter(|pool| pool.id != HOST_MEMORY);
        let all: u64 = others.map(Pool::room).sum();
        let is_split_enough = self.needed.len() == 1 && needed <= all;
        match endpoint.runtime.as_str() {
            "vllm" if is_split_enough => {
                "split it: `tensor-parallel-size` over more devices".to_owned()
            }
            "llama.cpp" if is_split_enough || self.is_on_one => {
                "split it: more `devices`, and `split-mode = \"layer\"`".to_owned()
            }
            _ => "less `context` or fewer `slots`, a smaller quant, or another host".to_owned(),
        }
    }
}

/// Weights, keys and values by device. Layer `i` of `n` goes to the first device whose cumulative share exceeds
/// `i / (n + 1)`, as in llama.cpp, which counts the output as one more.
fn layers(needs: &ModelNeeds, endpoint: &Endpoint, spread: &Spread) -> BTreeMap<String, u64> {
    let n_layers = u64::from(needs.layers.max(1));
    let on_host = experts_on_host(needs, endpoint);
    let weights = needs.file_bytes.max(needs.dense_bytes + needs.expert_bytes) - on_host;
    let on_devices = layers_on_devices(endpoint, n_layers);
    let mut held = BTreeMap::new();
    for slot in 0..=n_layers {
        let index = usize::try_from(slot).unwrap_or(usize::MAX);
        let state = needs.state.get(index).map_or(0, |state| kv_bytes(state, endpoint, needs));
        // The remainder of the division belongs to the output.
        let each = weights / (n_layers + 1);
        let rest = if slot == n_layers { weights % (n_layers + 1) } else { 0 };
        let is_on_host = slot < (n_layers + 1).saturating_sub(on_devices);
        let device = if is_on_host { HOST_MEMORY } else { device_of(slot, n_layers + 1, spread) };
        *held.entry(device.to_owned()).or_default() += each + rest + state;
    }
    if on_host > 0 {
        *held.entry(HOST_MEMORY.to_owned()).or_default() += on_host;
    }
    held
}

fn device_of(slot: u64, n_slots: u64, spread: &Spread) -> &str {
    let at = slot as f64 / n_slots as f64;
    let mut sum = 0.0;
    for (id, share) in &spread.shares {
        sum += share;
        if sum > at {
            return id;
        }
    }
    // Shares that were rounded may add up to a little less than 1.
    spread.shares.last().map_or(HOST_MEMORY, |(id, _)| id)
}

/// Layers, the output among them, that the devices are given.
fn layers_on_devices(endpoint: &Endpoint, n_layers: u64) -> u64 {
    let names = ["n-gpu-layers", "gpu-layers", "ngl"];
    let asked = names.iter().find_map(|name| number(endpoint, name));
    asked.unwrap_or(n_layers + 1).min(n_layers + 1)
}

/// Bytes of experts that stay in the host's memory.
fn experts_on_host(needs: &ModelNeeds, endpoint: &Endpoint) -> u64 {
    let all = endpoint.options.get("cpu-moe").and_then(serde_json::Value::as_bool) == Some(true);
    let layers = u64::from(needs.layers.max(1));
    match number(endpoint, "n-cpu-moe") {
        _ if all => needs.expert_bytes,
        Some(n) => needs.expert_bytes / layers * n.min(layers),
        None => 0,
    }
}

/// Keys and values of a layer for full contexts of all slots.
fn kv_bytes(state: &LayerState, endpoint: &Endpoint, needs: &ModelNeeds) -> u64 {
    let LayerState::Paged { bytes_per_token, window } = state;
    let trained = if needs.context_train == 0 { CONTEXT_DEFAULT } else { needs.context_train };
    let context = endpoint.context.unwrap_or(trained);
    let tokens = u64::from(window.map_or(context, |window| window.min(context)));
    let slots = u64::from(endpoint.slots.unwrap_or(1));
    let (keys, values) = (kv_bits(endpoint, "cache-type-k"), kv_bits(endpoint, "cache-type-v"));
    let f16 = bytes_per_token.saturating_mul(tokens).saturating_mul(slots);
    // The header's bytes are of 16 bits for keys and for values.
    (u128::from(f16) * u128::from(keys + values) / 64).try_into().unwrap_or(u64::MAX)
}

/// Half bits of one component of keys or values.
fn kv_bits(endpoint: &Endpoint, option: &str) -> u32 {
    match text(endpoint, option).or_else(|| text(endpoint, "kv-cache-dtype")) {
        Some("f32") => 64,
        Some("q8_0") => 17,
        Some("fp8" | "fp8_e4m3" | "fp8_e5m2" | "int8") => 16,
        Some("q5_0") => 11,
        Some("q5_1") => 12,
        Some("q4_0" | "iq4_nl") => 9,
        Some("q4_1") => 10,
        _ => 32,
    }
}

/// vLLM takes a share of each of its cards and makes a cache of what the model leaves of it.
fn taken_by_vllm(
    endpoint: &Endpoint,
    needed: &BTreeMap<String, u64>,
    pools: &[Pool],
) -> BTreeMap<String, u64> {
    let share = endpoint.options.get("gpu-memory-utilization").and_then(|value| match value {
        serde_json::Value::String(text) => text.parse().ok(),
        value => value.as_f64(),
    });
    let share = share.unwrap_or(VLLM_SHARE);
    let take = |(id, needed): (&String, &u64)| {
        let pool = pools.iter().find(|pool| pool.id == *id && *id != HOST_MEMORY);
        // A cast saturates, and no card has 2^53 bytes.
        let taken = pool.map_or(0, |pool| (pool.total as f64 * share) as u64);
        (id.clone(), taken.max(*needed))
    };
    needed.iter().map(take).collect()
}
