//! What is used, what may be used, and what stays free.

use frank_plan::{
    HEADROOM_MAX, LayerState, Limits, ModelNeeds, Plan, Refusal, default_headroom, plan,
};

use crate::made_up::{GIB, MIB, dense_model, device, expert_model, machine, settings};

#[test]
fn defaults_are_a_trained_context_of_at_most_4096_four_requests_and_256_rows() {
    let shape = |context_train| {
        let needs = ModelNeeds { context_train, ..dense_model() };
        let plan = plan(&needs, &machine(16 * GIB, 16 * GIB), &Limits::default()).unwrap();
        (plan.ctx_size, plan.parallel, plan.ubatch, plan.kv_blocks())
    };
    assert_eq!(shape(8192), (4096, 4, 256, vec![512]));
    assert_eq!(shape(2000), (2000, 4, 256, vec![4 * 63]));
    assert_eq!(shape(0), (4096, 4, 256, vec![512]));
}

#[test]
fn every_use_is_counted_to_the_byte() {
    let plan = plan(&dense_model(), &machine(16 * GIB, 12 * GIB), &settings(1000, 3, 128)).unwrap();
    let device = &plan.devices[0];
    let uses = &device.uses;
    assert_eq!(plan.kv_bytes_per_token, 30 * 768);
    // 32 blocks of 32 tokens for each of 3 requests, in whole 2 MiB.
    assert_eq!(uses.kv_cache, (3u64 * 1024 * 30 * 768).next_multiple_of(2 * MIB));
    assert_eq!(uses.compute, MIB + 128 * (8 << 10) + 3 * (192 << 10) + 1000 * 16);
    assert_eq!(
        (uses.dense, uses.experts, uses.io_staging, uses.runtime),
        (100 * MIB, 0, 4 * MIB, 20 * MIB)
    );
    assert_eq!(device.used, 124 * MIB + uses.kv_cache + uses.compute);
    assert_eq!(device.headroom, 512 * MIB);
    assert_eq!(device.left, 12 * GIB - device.headroom - device.used);
}

/// Bytes of the KV cache of a model with such layers.
fn kv_cache_bytes(state: &[LayerState], limits: &Limits) -> u64 {
    let needs = ModelNeeds { state: state.to_vec(), ..dense_model() };
    plan(&needs, &machine(1 << 50, 1 << 50), limits).expect("a petabyte").devices[0].uses.kv_cache
}

#[test]
fn the_kv_cache_holds_a_full_context_for_each_request() {
    let state = dense_model().state;
    for (ctx_size, parallel) in [(512, 1), (2048, 1), (8192, 4)] {
        let bytes = u64::from(ctx_size) * u64::from(parallel) * 30 * 768;
        let planned = kv_cache_bytes(&state, &settings(ctx_size, parallel, 256));
        assert_eq!(planned, bytes.next_multiple_of(2 * MIB));
    }
}

#[test]
fn layers_with_a_window_hold_what_a_step_can_reach_of_each_request() {
    let layer = |window| LayerState::Paged { bytes_per_token: 1024, window };
    let state = [layer(None), layer(Some(512)), layer(Some(512))];
    // 25 blocks of 32 tokens hold 512 + 256 - 1 tokens wherever they begin; a short context is less than that.
    for (ctx_size, of_window) in [(8192, 25 * 32), (512, 512)] {
        let bytes = 3 * 1024 * u64::from(ctx_size + 2 * of_window);
        let planned = kv_cache_bytes(&state, &settings(ctx_size, 3, 256));
        assert_eq!(planned, bytes.next_multiple_of(2 * MIB));
    }
}

#[test]
fn a_kv_cache_is_rounded_as_the_memory_behind_it_is() {
    assert_eq!(frank_plan::ARENA_BYTES, frank_os::HUGE_PAGE_BYTES);
    let state = [LayerState::Paged { bytes_per_token: 12_345, window: None }];
    for ctx_size in [1u32, 31, 32, 33, 1000] {
        let bytes = u64::from(ctx_size.next_multiple_of(32)) * 12_345;
        let planned = kv_cache_bytes(&state, &settings(ctx_size, 1, 256));
        assert_eq!(planned, frank_os::AnonBuffer::occupied(bytes));
    }
}

#[test]
fn the_default_headroom_is_a_share_of_small_machines_and_fixed_on_large_ones() {
    assert_eq!(default_headroom(2 * GIB), 2 * GIB / 20);
    assert_eq!(default_headroom(64 * GIB), HEADROOM_MAX);
    assert_eq!(default_headroom(0), 0);
}

fn used(needs: &ModelNeeds) -> u64 {
    plan(needs, &machine(1 << 50, 1 << 50), &Limits::default()).expect("a petabyte").devices[0].used
}

fn fits(total: u64, free: u64, limits: &Limits) -> Result<Plan, Refusal> {
    plan(&dense_model(), &machine(total, free), limits)
}

#[test]
fn the_last_free_byte_above_the_headroom_may_be_used() {
    let needed = used(&dense_model()) + HEADROOM_MAX;
    let last = fits(64 * GIB, needed, &Limits::default()).unwrap();
    assert_eq!(last.devices[0].left, 0);
    assert_eq!(fits(64 * GIB, needed - 1, &Limits::default()).unwrap_err().short_by, 1);
}

#[test]
fn an_explicit_budget_is_a_cap_that_replaces_the_default_headroom() {
    let used = used(&dense_model());
    let budget = |bytes| Limits { memory_budget: Some(bytes), ..Limits::default() };
    let exact = fits(64 * GIB, used, &budget(used)).unwrap();
    assert_eq!((exact.devices[0].headroom, exact.devices[0].left), (0, 0));
    let short = fits(64 * GIB, 64 * GIB, &budget(used - 1)).unwrap_err();
    assert_eq!((short.device.as_str(), short.short_by), ("cpu:0", 1));
    // A budget is no promise that there is as much.
    assert_eq!(fits(64 * GIB, used - 1, &budget(64 * GIB)).unwrap_err().short_by, 1);
}

#[test]
fn an_explicit_headroom_holds_beside_a_budget() {
    let used = used(&dense_model());
    let limits = Limits { memory_budget: Some(used), headroom: Some(GIB), ..Limits::default() };
    assert_eq!(fits(64 * GIB, used + GIB, &limits).unwrap().devices[0].headroom, GIB);
    assert_eq!(fits(64 * GIB, used + GIB - 1, &limits).unwrap_err().short_by, 1);
}

#[test]
fn the_headroom_of_a_machine_file_holds_beside_a_budget_too() {
    let used = used(&dense_model());
    let mut machine = machine(64 * GIB, used + GIB - 1);
    machine.devices[0].headroom = Some(GIB);
    let limits = Limits { memory_budget: Some(used), ..Limits::default() };
    assert_eq!(plan(&dense_model(), &machine, &limits).unwrap_err().short_by, 1);
}

#[test]
fn a_device_cap_counts_for_its_device_and_the_last_one_given_wins() {
    let used = used(&dense_model());
    let caps = |caps: &[u64]| Limits {
        devices: caps.iter().map(|&bytes| ("cpu:0".to_owned(), bytes)).collect(),
        ..Limits::default()
    };
    fits(64 * GIB, 64 * GIB, &caps(&[used])).unwrap();
    assert_eq!(fits(64 * GIB, 64 * GIB, &caps(&[used - 1])).unwrap_err().short_by, 1);
    fits(64 * GIB, 64 * GIB, &caps(&[1, used])).unwrap();
}

#[test]
fn other_devices_are_listed_and_left_alone() {
    let mut machine = machine(16 * GIB, 16 * GIB);
    machine.devices.insert(0, device("cuda:0", "cuda", 24 * GIB, 23 * GIB));
    let plan = plan(&dense_model(), &machine, &Limits::default()).unwrap();
    let used: Vec<_> =
        plan.devices.iter().map(|device| (device.id.as_str(), device.used > 0)).collect();
    assert_eq!(used, [("cuda:0", false), ("cpu:0", true)]);
}

#[test]
fn experts_are_resident_and_counted_over_all_layers() {
    let plan = plan(&expert_model(), &machine(16 * GIB, 16 * GIB), &Limits::default()).unwrap();
    assert_eq!(plan.devices[0].uses.experts, 240 * MIB);
    let experts = plan.experts;
    assert_eq!(
        (experts.count, experts.primary, experts.bytes_each, experts.floor_slots),
        (240, 240, MIB, 60)
    );
    assert_eq!((experts.secondary, experts.stream, experts.cache_slots), (0, 0, 0));
}

#[test]
fn a_context_beyond_the_trained_one_is_a_warning_and_no_refusal() {
    let warnings =
        |ctx_size| fits(64 * GIB, 64 * GIB, &settings(ctx_size, 1, 256)).unwrap().warnings;
    assert_eq!(warnings(8192), Vec::<String>::new());
    assert_eq!(
        warnings(10_000),
        [
            "a context of 10000 tokens extrapolates 1808 tokens beyond the 8192 that the model was trained on"
        ]
    );
    let unknown = ModelNeeds {
        context_train: 0,
        warnings: vec!["from the model".to_owned()],
        ..dense_model()
    };
    let plan = plan(&unknown, &machine(64 * GIB, 64 * GIB), &settings(10_000, 1, 256)).unwrap();
    assert_eq!(plan.warnings, ["from the model"]);
}

#[test]
fn page_tables_are_counted_with_what_they_map_whatever_of_it_fits() {
    let needs = ModelNeeds { page_table_reach: 512, ..expert_model() };
    let all = plan(&needs, &machine(64 * GIB, 64 * GIB), &Limits::default()).unwrap();
    let (used, experts) = (all.devices[0].used, all.devices[0].uses.experts);
    for budget in [used, used - experts / 4, used - experts / 2] {
        let limits = Limits { memory_budget: Some(budget), ..Limits::default() };
        let plan = plan(&needs, &machine(64 * GIB, 64 * GIB), &limits).unwrap();
        let device = &plan.devices[0];
        let mapped = device.used - (device.uses.runtime - 20 * MIB);
        assert_eq!(device.used - mapped, mapped.div_ceil(512), "tables");
        assert!(device.used <= budget, "{} of {budget}", device.used);
        // A slot more would not have fitted.
        assert!(
            budget - device.used < 4 * MIB + plan.experts.bytes_each,
            "{} left",
            budget - device.used
        );
    }
}
