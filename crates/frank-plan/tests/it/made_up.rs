//! A model and a machine for tests to start from.

use frank_plan::{ComputeNeeds, Device, Host, LayerState, Limits, Machine, ModelNeeds, PromptWork};

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
        state: vec![LayerState::Paged { bytes_per_token: 768, window: None }; 30],
        compute: ComputeNeeds {
            fixed: MIB,
            per_row: 8 << 10,
            per_output_row: 192 << 10,
            per_request: 0,
            per_context_token: 16,
        },
        runtime_bytes: 20 * MIB,
        io_staging_bytes: 4 * MIB,
        decode_bytes_per_token: 90 * MIB,
        prompt: PromptWork { multiply_adds: 106_000_000, attention_multiply_adds: 34_560 },
        warnings: Vec::new(),
    }
}

/// The same with 8 experts in each layer, 2 of which a token uses.
pub(crate) fn expert_model() -> ModelNeeds {
    ModelNeeds {
        arch: "qwen3moe".to_owned(),
        experts: 8,
        experts_used: 2,
        expert_bytes: 240 * MIB,
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
    }
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
