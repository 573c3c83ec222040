//! Refused plans of models with experts: the reason, the shortfall, and what would fit.

use frank_plan::{Limits, Machine, Protected, Ranking, Refusal, StreamCache, plan};

use crate::made_up::{GIB, MIB, beside_experts, device, expert_model, machine, settings};

fn refuse(machine: &Machine, limits: &Limits) -> Refusal {
    plan(&expert_model(), machine, limits).expect_err("too little")
}

fn budget(bytes: u64) -> Limits {
    Limits { memory_budget: Some(bytes), ..settings(512, 1, 32) }
}

#[test]
fn a_budget_below_the_cache_floor_is_refused_with_the_slots_that_it_takes() {
    let refusal = refuse(&machine(16 * GIB, 16 * GIB), &budget(beside_experts(true) + 50 * MIB));
    assert_eq!((refusal.device.as_str(), refusal.short_by), ("cpu:0", 10 * MIB));
    let expected = "199.45 MiB needed (dense 100.00 MiB, stream_cache 60.00 MiB, kv_cache 12.00 MiB, \
        compute 1.45 MiB, io_staging 6.00 MiB, runtime 20.00 MiB), \
        189.45 MiB allowed by --memory-budget, 10.00 MiB short; \
        60 slots of 1.00 MiB are the least, the experts of one token; \
        one request of 256 tokens alone needs 193.44 MiB";
    assert_eq!(refusal.reason, expected);
    assert_eq!(refusal.change, ["--memory-budget 200MiB"]);
    assert_eq!(refusal.attempt.experts.cache_slots, 60);
}

#[test]
fn a_budget_below_the_dense_part_is_refused_by_it() {
    let refusal = refuse(&machine(16 * GIB, 16 * GIB), &budget(90 * MIB));
    let reason = refusal.reason;
    assert!(
        reason.contains("109.45 MiB short; dense weights alone are more than that"),
        "{reason}"
    );
}

#[test]
fn a_step_that_is_too_large_beside_the_floor_is_refused_with_smaller_steps() {
    let limits =
        Limits { memory_budget: Some(beside_experts(true) + 60 * MIB), ..settings(512, 1, 2048) };
    let refusal = refuse(&machine(16 * GIB, 16 * GIB), &limits);
    assert_eq!(refusal.short_by, 2016 * (8 << 10));
    assert_eq!(refusal.change, ["--ubatch-size 32", "--memory-budget 216MiB"]);
}

#[test]
fn a_stream_cache_below_its_floor_is_refused_with_the_least_that_works() {
    let cache = |bytes| Some(StreamCache { device: None, bytes });
    let limits = |bytes| Limits {
        stream_cache: cache(bytes),
        expert_budgets: vec![("cpu:0".to_owned(), 20 * MIB)],
        ..settings(512, 1, 32)
    };
    let refusal = refuse(&machine(16 * GIB, 16 * GIB), &limits(60 * MIB - 1));
    let expected = "a stream cache of 60.00 MiB is below its floor of 60.00 MiB: \
        60 slots of 1.00 MiB, the experts of one token";
    assert_eq!((refusal.reason.as_str(), refusal.short_by), (expected, 1));
    // Or fewer are streamed than one token may want.
    assert_eq!(refusal.change, ["--stream-cache 60MiB", "--expert-budget cpu:0=182MiB"]);
    plan(&expert_model(), &machine(16 * GIB, 16 * GIB), &limits(60 * MIB)).expect("the floor");
}

#[test]
fn a_stream_cache_that_does_not_fit_is_refused_with_the_size_that_does() {
    let cache = Some(StreamCache { device: None, bytes: 120 * MIB });
    let limits = Limits { stream_cache: cache, ..budget(beside_experts(true) + 101 * MIB) };
    let refusal = refuse(&machine(16 * GIB, 16 * GIB), &limits);
    assert_eq!(refusal.short_by, 19 * MIB);
    assert_eq!(refusal.change, ["--stream-cache 100MiB", "--memory-budget 260MiB"]);
}

#[test]
fn more_protected_experts_than_the_budget_for_experts_are_refused_with_what_they_take() {
    let protected = Protected::parse(r#"{"0": [0, 1, 2, 3, 4]}"#, &expert_model()).unwrap();
    let limits = Limits {
        expert_budgets: vec![("cpu:0".to_owned(), 5 * MIB)],
        ranking: Ranking { protected: Some(protected), ..Ranking::default() },
        ..settings(512, 1, 32)
    };
    let refusal = refuse(&machine(16 * GIB, 16 * GIB), &limits);
    let expected = "the protected experts take 6.00 MiB, 5.00 MiB allowed by --expert-budget cpu:0";
    assert_eq!((refusal.reason.as_str(), refusal.short_by), (expected, MIB));
    assert_eq!(refusal.change, ["--expert-budget cpu:0=6MiB"]);
}

#[test]
fn options_about_devices_that_hold_no_experts_are_refused_by_device() {
    let mut machine = machine(16 * GIB, 16 * GIB);
    machine.devices.push(device("cuda:0", "cuda", GIB, GIB));
    let check = |limits: &Limits, device: &str, expected: &str| {
        let refusal = refuse(&machine, limits);
        assert_eq!((refusal.device.as_str(), refusal.reason.as_str()), (device, expected));
    };
    let budgets =
        |id: &str| Limits { expert_budgets: vec![(id.to_owned(), GIB)], ..Limits::default() };
    let cache = |id: &str| Limits {
        stream_cache: Some(StreamCache { device: Some(id.to_owned()), bytes: GIB }),
        ..Limits::default()
    };
    let unknown = "the machine has no such device; it has cpu:0, cuda:0";
    let other = "experts cannot lie there: frank computes on cpu, and this is cuda";
    check(&budgets("cpu:1"), "cpu:1", unknown);
    check(&cache("cpu:1"), "cpu:1", unknown);
    check(&budgets("cuda:0"), "cuda:0", other);
    check(&cache("cuda:0"), "cuda:0", other);
}

#[test]
fn a_shortage_of_shared_memory_names_who_shares_it() {
    let mut machine = machine(GIB, beside_experts(true) + 30 * MIB);
    machine.devices[0].headroom = Some(0);
    machine.declare("cpu:1", 20 * MIB).expect("a new name");
    let refusal = refuse(&machine, &settings(512, 1, 32));
    assert_eq!((refusal.device.as_str(), refusal.short_by), ("cpu:0", 30 * MIB));
    let expected = "less 0 B headroom, shared with cpu:1), 30.00 MiB short";
    assert!(refusal.reason.contains(expected), "{}", refusal.reason);
}

/// 16 GiB, and a pool `cpu:1` of `bytes` of them as `limits` then declare it.
fn with_pool(bytes: u64, limits: Limits) -> (Machine, Limits) {
    let mut machine = machine(16 * GIB, 16 * GIB);
    machine.declare("cpu:1", bytes).expect("a new name");
    let mut limits = limits;
    limits.devices.push(("cpu:1".to_owned(), bytes));
    (machine, limits)
}

/// Budgets with which every expert is streamed.
fn no_experts() -> Vec<(String, u64)> {
    vec![("cpu:0".to_owned(), 0), ("cpu:1".to_owned(), 0)]
}

#[test]
fn a_pool_too_small_for_its_slots_is_refused_with_the_size_that_holds_them() {
    let cache = StreamCache { device: Some("cpu:1".to_owned()), bytes: 80 * MIB };
    let budgets = vec![("cpu:0".to_owned(), 20 * MIB)];
    let limits =
        Limits { stream_cache: Some(cache), expert_budgets: budgets, ..settings(512, 1, 32) };
    let (machine, limits) = with_pool(70 * MIB, limits);
    let refusal = refuse(&machine, &limits);
    assert_eq!((refusal.device.as_str(), refusal.short_by), ("cpu:1", 10 * MIB));
    assert!(refusal.reason.contains("70.00 MiB allowed by --device cpu:1"), "{}", refusal.reason);
    assert_eq!(
        refusal.change,
        ["--stream-cache cpu:1=70MiB", "--device cpu:1=80MiB", "--expert-budget cpu:0=170MiB",]
    );
}

#[test]
fn where_a_larger_pool_would_hold_all_experts_it_is_suggested() {
    let caps = vec![("cpu:0".to_owned(), beside_experts(false) + 10 * MIB)];
    let limits = Limits { devices: caps, ..settings(512, 1, 32) };
    let (machine, limits) = with_pool(100 * MIB, limits);
    let refusal = refuse(&machine, &limits);
    // Only experts can lie in the pool, and 10 of them fit beside the dense weights.
    assert!(refusal.change.contains(&"--device cpu:1=230MiB".to_owned()), "{:?}", refusal.change);
}

#[test]
fn where_two_things_are_wrong_two_changes_that_fit_together_are_one_suggestion() {
    // The cache is below its floor, and the budget is too small for the floor.
    let cache = StreamCache { device: None, bytes: 40 * MIB };
    let limits = Limits {
        stream_cache: Some(cache),
        expert_budgets: no_experts()[..1].to_vec(),
        ..budget(beside_experts(true) + 42 * MIB)
    };
    let refusal = refuse(&machine(16 * GIB, 16 * GIB), &limits);
    assert_eq!(refusal.change, ["--memory-budget 200MiB --stream-cache 60MiB"]);
    // A pool is too small for the slots that were asked for there, and one that holds them is more than the budget.
    let cache = StreamCache { device: Some("cpu:1".to_owned()), bytes: 60 * MIB };
    let limits = Limits {
        stream_cache: Some(cache),
        expert_budgets: no_experts(),
        ..budget(beside_experts(true) + 50 * MIB)
    };
    let (machine, limits) = with_pool(50 * MIB, limits);
    let refusal = refuse(&machine, &limits);
    assert_eq!(refusal.change, ["--memory-budget 200MiB --device cpu:1=60MiB"]);
}

#[test]
fn slots_for_which_their_device_has_no_room_are_suggested_on_another() {
    let mut machine = machine(GIB, beside_experts(true) + 70 * MIB);
    machine.devices[0].headroom = Some(0);
    machine.devices.push(device("cpu:1", "cpu", 30 * MIB, 30 * MIB));
    let cache = StreamCache { device: Some("cpu:1".to_owned()), bytes: 60 * MIB };
    let limits =
        Limits { stream_cache: Some(cache), expert_budgets: no_experts(), ..settings(512, 1, 32) };
    let refusal = refuse(&machine, &limits);
    assert_eq!(refusal.change, ["--stream-cache cpu:0=60MiB"]);
}

#[test]
fn protected_experts_that_no_budget_holds_are_what_it_only_fits_without() {
    let all: Vec<String> = (0..30).map(|layer| format!("\"{layer}\": [0,1,2,3,4,5,6,7]")).collect();
    let protected = Protected::parse(&format!("{{{}}}", all.join(", ")), &expert_model()).unwrap();
    let limits = Limits {
        ranking: Ranking { protected: Some(protected), ..Ranking::default() },
        ..settings(512, 1, 32)
    };
    let refusal = refuse(&machine(16 * GIB, beside_experts(true) + 70 * MIB), &limits);
    assert_eq!(refusal.change, Vec::<String>::new());
    assert!(
        refusal.reason.ends_with("; it can only fit without --protected-experts"),
        "{}",
        refusal.reason
    );
}
