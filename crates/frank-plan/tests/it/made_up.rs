//! A model and a machine for tests to start from.

use frank_plan::{
    ComputeNeeds, Device, ExpertLayer, Host, LayerState, Limits, Machine, ModelNeeds, PromptWork,
};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;

/// A dense model of 30 layers whose KV cache takes 22.5 KiB for each token, like SmolLM2-135M in f16.
pub(crate) fn dense_model() -> ModelNeeds {
    ModelNeeds {
        arch: "llama".to_owned(),
        file_bytes: 98 * MIB,
        layers: 30,
        experts: 0,
        experts_used: 0,
        context_train: 8192,
        dense_bytes: 100 * MIB,
        expert_bytes: 0,
        expert_layers: Vec::new(),
        expert_staging_bytes: 0,
        state: vec![LayerState::Paged { bytes_per_token: 768, window: None }; 30],
        compute: ComputeNeeds {
            fixed: MIB,
            per_row: 8 << 10,
            per_output_row: 192 << 10,
            per_request: 0,
            per_context_token: 16,
        },
        runtime_bytes: 20 * MIB,
        page_table_reach: 0,
        io_staging_bytes: 4 * MIB,
        decode_bytes_per_token: 90 * MIB,
        prompt: PromptWork { multiply_adds: 106_000_000, attention_multiply_adds: 34_560 },
        warnings: Vec::new(),
    }
}

/// The same with 8 experts of 1 MiB in each layer, 2 of which a token uses.
pub(crate) fn expert_model() -> ModelNeeds {
    let layer = |layer| ExpertLayer { layer, n_experts: 8, n_used: 2, slot_bytes: MIB };
    ModelNeeds {
        arch: "qwen3moe".to_owned(),
        experts: 8,
        experts_used: 2,
        expert_bytes: 240 * MIB,
        expert_layers: (0..30).map(layer).collect(),
        expert_staging_bytes: 2 * MIB,
        ..dense_model()
    }
}

/// A machine with one CPU device, `free` bytes of `total`, and no measured bandwidth.
pub(crate) fn machine(total: u64, free: u64) -> Machine {
    Machine {
        host: Host { ram: total, cores: 8 },
        devices: vec![device("cpu:0", "cpu", total, free)],
        drives: Vec::new(),
    }
}

pub(crate) fn device(id: &str, kind: &str, total: u64, free: u64) -> Device {
    Device {
        id: id.to_owned(),
        kind: kind.to_owned(),
        total,
        free,
        headroom: None,
        bandwidth: None,
        arithmetic: None,
        part_of: None,
        is_declared: false,
    }
}

/// What [`expert_model`] takes beside its experts with [`settings`] of 512, 1, 32, and with [`ModelNeeds`]'s buffers of
/// streamed reads or without.
pub(crate) fn beside_experts(is_streamed: bool) -> u64 {
    let kv_cache = (512u64 * 30 * 768).next_multiple_of(2 * MIB);
    let compute = MIB + 32 * (8 << 10) + (192 << 10) + 512 * 16;
    let staging = if is_streamed { 6 * MIB } else { 4 * MIB };
    100 * MIB + 20 * MIB + kv_cache + compute + staging
}

/// Limits that ask for these settings and allow everything.
pub(crate) fn settings(ctx_size: u32, parallel: u32, ubatch: u32) -> Limits {
    Limits {
        ctx_size: Some(ctx_size),
        parallel: Some(parallel),
        ubatch: Some(ubatch),
        ..Limits::default()
    }
}
