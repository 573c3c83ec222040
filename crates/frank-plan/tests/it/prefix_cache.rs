//! Memory for prefixes that later requests may share: what it adds, and when its size is no good.

use frank_plan::{LayerState, Limits, ModelNeeds, Plan, plan};

use crate::made_up::{GIB, MIB, dense_model, machine, settings};

/// A plan on a machine with 16 GiB.
fn planned(needs: &ModelNeeds, prefix_cache: Option<u64>) -> Plan {
    let limits = Limits { prefix_cache, ..settings(4096, 2, 256) };
    plan(needs, &machine(16 * GIB, 16 * GIB), &limits).expect("it fits")
}

#[test]
fn a_prefix_cache_is_a_row_of_its_own_and_more_blocks() {
    let plan = planned(&dense_model(), Some(200 * MIB));
    let uses = plan.devices[0].uses;
    // 4096 tokens of 22.5 KiB are 90 MiB for each of 2 requests; a block takes 720 KiB.
    assert_eq!((uses.kv_cache, uses.prefix_cache), (180 * MIB, 200 * MIB));
    assert_eq!(plan.kv_blocks(), [256 + 200 * 1024 / 720]);
    assert_eq!(plan.warnings, Vec::<String>::new());
}

#[test]
fn without_a_size_or_with_none_nothing_is_added() {
    for prefix_cache in [None, Some(0)] {
        let plan = planned(&dense_model(), prefix_cache);
        assert_eq!((plan.devices[0].uses.prefix_cache, plan.kv_blocks()), (0, vec![256]));
        assert_eq!(plan.warnings, Vec::<String>::new());
    }
}

#[test]
fn layers_with_a_window_get_their_share() {
    let layer = |window| LayerState::Paged { bytes_per_token: 1024, window };
    let needs = ModelNeeds { state: vec![layer(None), layer(Some(512))], ..dense_model() };
    let plan = planned(&needs, Some(10 * MIB));
    let blocks: Vec<(u64, u64)> =
        plan.kv_groups.iter().map(|group| (group.request_blocks, group.n_blocks)).collect();
    // A request needs 128 and 25 blocks of 32 KiB; two of them leave 14 blocks of their 10 MiB, and 10 MiB are 320.
    let shared = |request: u64| 2 * request + 334 * request / 153;
    assert_eq!(blocks, [(128, shared(128) + 1), (25, shared(25))]);
}

#[test]
fn a_size_that_cannot_keep_one_request_is_warned_about_with_both_numbers() {
    assert_eq!(
        planned(&dense_model(), Some(50 * MIB)).warnings,
        ["a prefix cache of 50.00 MiB cannot keep one whole request, which takes 90.00 MiB"]
    );
    assert_eq!(planned(&dense_model(), Some(90 * MIB)).warnings, Vec::<String>::new());
}

#[test]
fn a_size_above_half_of_the_memory_is_warned_about_with_both_numbers() {
    assert_eq!(planned(&dense_model(), Some(8 * GIB)).warnings, Vec::<String>::new());
    assert_eq!(
        planned(&dense_model(), Some(8 * GIB + 1)).warnings,
        ["a prefix cache of 8.00 GiB is more than half of the host's memory, 8.00 GiB"]
    );
}

#[test]
fn a_prefix_cache_that_does_not_fit_is_refused_with_the_size_that_does() {
    let refused = |budget, prefix_cache| {
        let limits = Limits {
            memory_budget: Some(budget),
            prefix_cache: Some(prefix_cache),
            ..settings(4096, 1, 256)
        };
        plan(&dense_model(), &machine(16 * GIB, 12 * GIB), &limits).expect_err("too much").change
    };
    assert_eq!(
        refused(GIB / 2, GIB),
        ["--prefix-cache 294MiB", "--memory-budget 1242MiB"],
        "no context is short enough for a prefix cache of twice the budget"
    );
    let needed = 124 * MIB + 90 * MIB + MIB + 256 * (8 << 10) + (192 << 10) + 4096 * 16;
    assert_eq!(refused(needed, 100 * MIB).first().map(String::as_str), Some("--prefix-cache 0B"));
}

#[test]
fn blocks_on_their_way_to_a_disk_use_the_memory_of_loading_and_more_where_they_are_large() {
    let io_staging = |bytes_per_token| {
        let state = vec![LayerState::Paged { bytes_per_token, window: None }; 30];
        let needs = ModelNeeds { state, ..dense_model() };
        let limits = Limits { disk_cache: true, ..settings(64, 1, 32) };
        let plan = plan(&needs, &machine(16 * GIB, 16 * GIB), &limits).expect("it fits");
        plan.devices[0].uses.io_staging
    };
    assert_eq!(io_staging(768), 4 * MIB);
    assert_eq!(io_staging(8192), 4 * 30 * 32 * 8192);
}
