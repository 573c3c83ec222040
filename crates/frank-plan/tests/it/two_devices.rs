//! A model of 15,360 experts on a machine with two devices that together hold a fifth of them.

use frank_plan::{
    Bound, ComputeNeeds, Drive, ExpertLayer, Host, LayerState, Limits, Machine, ModelNeeds, Plan,
    PromptWork, parse_size, plan,
};

use crate::made_up::{GIB, MIB, device};

/// 11.96 MiB, in whole cache lines.
const SLOT_BYTES: u64 = 12_540_992;

/// 40 layers of 384 experts, 6 of which a token uses, beside 8 GiB.
fn model() -> ModelNeeds {
    let layer = |layer| ExpertLayer { layer, n_experts: 384, n_used: 6, slot_bytes: SLOT_BYTES };
    ModelNeeds {
        arch: "made-up".to_owned(),
        file_bytes: 400 * GIB,
        layers: 40,
        experts: 384,
        experts_used: 6,
        context_train: 131_072,
        dense_bytes: 8 * GIB,
        expert_bytes: 40 * 384 * SLOT_BYTES,
        expert_layers: (0..40).map(layer).collect(),
        expert_staging_bytes: 4 * MIB,
        state: vec![LayerState::Paged { bytes_per_token: 1152, window: None }; 40],
        compute: ComputeNeeds { fixed: 8 * MIB, per_row: MIB, ..ComputeNeeds::default() },
        runtime_bytes: 60 * MIB,
        page_table_reach: 0,
        io_staging_bytes: 4 * MIB,
        decode_bytes_per_token: 8 * GIB + 240 * SLOT_BYTES,
        prompt: PromptWork { multiply_adds: 12_000_000_000, attention_multiply_adds: 1 << 20 },
        warnings: Vec::new(),
    }
}

fn machine() -> Machine {
    let bytes = parse_size("31.86GiB").expect("a size");
    let devices = ["cpu:0", "cpu:1"].map(|id| {
        let mut device = device(id, "cpu", bytes, bytes);
        device.bandwidth = Some(100_000_000_000);
        device.arithmetic = Some(1_000_000_000_000);
        device
    });
    let drive = Drive { path: "/".to_owned(), bandwidth: Some(3_000_000_000) };
    let host = Host { ram: 64 * GIB, cores: 32 };
    Machine { host, devices: devices.to_vec(), drives: vec![drive] }
}

fn planned(budget: &str) -> Plan {
    let bytes = parse_size(budget).expect("a size");
    let budgets = ["cpu:0", "cpu:1"].map(|id| (id.to_owned(), bytes));
    let limits = Limits { expert_budgets: budgets.to_vec(), ..Limits::default() };
    plan(&model(), &machine(), &limits).expect("it fits")
}

#[test]
fn budgets_of_18000_mb_hold_about_1500_experts_on_each_device() {
    // MB are 10^6 bytes here; programs that print MB and mean 2^20 hold 1,505.
    for (budget, each, occupied) in
        [("18000MB", 1435, 17_997_758_464), ("18000MiB", 1505, 18_874_368_000)]
    {
        let plan = planned(budget);
        let experts = plan.experts;
        assert_eq!((experts.count, experts.primary, experts.secondary), (15_360, each, each));
        for device in &plan.devices {
            assert_eq!(device.uses.experts, occupied, "{budget} on {}", device.id);
            assert!(device.used + device.headroom <= device.free);
        }
        assert_eq!(experts.stream, 15_360 - 2 * each);
    }
}

#[test]
fn what_the_budgets_leave_of_the_first_device_is_slots() {
    let plan = planned("18000MB");
    let uses = plan.devices[0].uses;
    assert_eq!((plan.experts.floor_slots, plan.experts.bytes_each), (240, SLOT_BYTES));
    assert_eq!(
        uses.stream_cache,
        (plan.experts.cache_slots * SLOT_BYTES).next_multiple_of(2 * MIB)
    );
    assert!(plan.devices[0].left < SLOT_BYTES + 4 * MIB, "{} left", plan.devices[0].left);
    assert_eq!(plan.devices[1].uses.stream_cache, 0);
    assert_eq!((plan.experts.cache_slots, uses.dense), (476, 8 * GIB));
}

#[test]
fn reading_what_a_token_misses_bounds_decoding() {
    let plan = planned("18000MB");
    let experts = plan.experts;
    // Of 240 experts a token misses, if it chooses evenly, as many as are neither resident nor in a slot.
    let streamed = experts.stream as f64 / experts.count as f64;
    let missed = streamed * (1.0 - experts.cache_slots as f64 / experts.stream as f64);
    let seconds = 240.0 * SLOT_BYTES as f64 * missed / 3e9;
    let token = 1.0 / plan.predict.decode_tok_s.expect("all rates are known");
    assert_eq!(plan.predict.bound, Some(Bound::Nvme));
    // Beside it 8 GiB and 240 experts are read from memory, and 40 layers take their time; a part of that is not hidden.
    let rest = (8 * GIB + 240 * SLOT_BYTES) as f64 / 1e11 + 40.0 * 20e-6;
    let kv = 2048.0 * 40.0 * 1152.0 / 1e11;
    let unhidden = 0.4 * (rest + kv);
    assert!((token - seconds - unhidden).abs() < 1e-6, "{token} of {seconds} and {unhidden}");
}
