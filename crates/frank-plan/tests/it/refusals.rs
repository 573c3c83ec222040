//! Refusals: which device, how much is missing, and what to change.

use frank_plan::{LayerState, Limits, Machine, ModelNeeds, Refusal, plan};

use crate::made_up::{GIB, MIB, dense_model, device, machine, settings};

fn refuse(machine: &Machine, limits: &Limits) -> Refusal {
    plan(&dense_model(), machine, limits).expect_err("too little")
}

#[test]
fn a_small_budget_is_refused_with_the_numbers() {
    let limits = Limits { memory_budget: Some(GIB / 4), ..Limits::default() };
    let refusal = refuse(&machine(16 * GIB, 12 * GIB), &limits);
    let used = 124 * MIB + 360 * MIB + MIB + 256 * (8 << 10) + 4 * (192 << 10) + 4096 * 16;
    assert_eq!((refusal.device.as_str(), refusal.short_by), ("cpu:0", used - GIB / 4));
    let expected = "487.81 MiB needed (dense 100.00 MiB, kv_cache 360.00 MiB, compute 3.81 MiB, \
        io_staging 4.00 MiB, runtime 20.00 MiB), \
        256.00 MiB allowed by --memory-budget, 231.81 MiB short";
    assert_eq!(refusal.reason, expected);
    assert_eq!(refusal.change, ["--ctx-size 1280", "--parallel 1", "--memory-budget 488MiB"]);
    assert_eq!(refusal.attempt.devices[0].used, used);
}

#[test]
fn too_little_free_memory_is_refused_with_what_is_free_and_kept() {
    let refusal = refuse(&machine(4 * GIB, 600 * MIB), &Limits::default());
    let expected = "does not fit on cpu:0: \
        487.81 MiB needed (dense 100.00 MiB, kv_cache 360.00 MiB, compute 3.81 MiB, \
        io_staging 4.00 MiB, runtime 20.00 MiB), \
        395.20 MiB allowed (600.00 MiB free, less 204.80 MiB headroom), 92.61 MiB short";
    assert_eq!(refusal.to_string(), expected);
    assert_eq!(refusal.change, ["--ctx-size 2816", "--parallel 2", "--headroom 112MiB"]);
}

#[test]
fn a_small_device_cap_is_refused_by_its_own_name() {
    let limits = Limits { devices: vec![("cpu:0".to_owned(), 400 * MIB)], ..Limits::default() };
    let refusal = refuse(&machine(16 * GIB, 12 * GIB), &limits);
    assert!(
        refusal.reason.contains("400.00 MiB allowed by --device cpu:0, 87.81 MiB short"),
        "{}",
        refusal.reason
    );
    assert_eq!(refusal.change.last().map(String::as_str), Some("--device cpu:0=488MiB"));
}

#[test]
fn where_no_single_change_is_enough_several_are_suggested_together() {
    let limits = Limits { memory_budget: Some(135 * MIB), ..settings(4096, 64, 2048) };
    let refusal = refuse(&machine(16 * GIB, 12 * GIB), &limits);
    assert_eq!(
        refusal.change,
        ["--ctx-size 256 --parallel 1 --ubatch-size 32", "--memory-budget 5914MiB"]
    );
}

#[test]
fn where_nothing_is_enough_the_smallest_need_is_said() {
    let limits = Limits { memory_budget: Some(64 * MIB), ..Limits::default() };
    let refusal = refuse(&machine(16 * GIB, 100 * MIB), &limits);
    assert_eq!(refusal.change, Vec::<String>::new());
    let smallest =
        "; one request of 256 tokens alone needs 131.44 MiB; nothing on this machine makes it fit";
    assert!(refusal.reason.ends_with(smallest), "{}", refusal.reason);
}

#[test]
fn a_budget_that_the_machine_lacks_is_not_suggested() {
    let limits = Limits { memory_budget: Some(GIB / 4), ..Limits::default() };
    let refusal = refuse(&machine(16 * GIB, 300 * MIB), &limits);
    assert!(
        !refusal.change.iter().any(|change| change.contains("--memory-budget")),
        "{:?}",
        refusal.change
    );
}

#[test]
fn an_unknown_device_is_refused_with_those_there_are() {
    let mut machine = machine(16 * GIB, 12 * GIB);
    machine.devices.push(device("cuda:0", "cuda", GIB, GIB));
    let limits = Limits { devices: vec![("cpu:7".to_owned(), GIB)], ..Limits::default() };
    let refusal = refuse(&machine, &limits);
    assert_eq!((refusal.device.as_str(), refusal.short_by), ("cpu:7", 0));
    let expected = "the machine has no such device; it has cpu:0, cuda:0";
    assert_eq!(refusal.reason, expected);
}

#[test]
fn a_machine_without_a_cpu_device_is_refused() {
    let mut machine = machine(16 * GIB, 12 * GIB);
    machine.devices[0].kind = "npu".to_owned();
    assert_eq!(
        refuse(&machine, &Limits::default()).reason,
        "the machine has no device of kind cpu"
    );
}

#[test]
fn none_of_something_is_refused_by_its_option() {
    let machine = machine(16 * GIB, 12 * GIB);
    for (option, limits) in [
        ("--ctx-size", settings(0, 1, 1)),
        ("--parallel", settings(1, 0, 1)),
        ("--ubatch-size", settings(1, 1, 0)),
    ] {
        let reason = refuse(&machine, &limits).reason;
        assert!(reason.starts_with(&format!("{option} 0 is none")), "{reason}");
    }
}

#[test]
fn more_kv_blocks_than_can_be_numbered_are_refused_even_if_they_weigh_nothing() {
    let weightless = vec![LayerState::Paged { bytes_per_token: 0, window: None }];
    let stateless = ModelNeeds { state: weightless, compute: Default::default(), ..dense_model() };
    let refusal =
        plan(&stateless, &machine(16 * GIB, 12 * GIB), &settings(u32::MAX, u32::MAX, u32::MAX))
            .unwrap_err();
    assert!(refusal.reason.contains("can be numbered"), "{}", refusal.reason);
}

#[test]
fn more_requests_than_rows_of_a_step_are_refused_with_both_ways_out() {
    let refusal = refuse(&machine(64 * GIB, 60 * GIB), &settings(256, 32, 16));
    assert_eq!(refusal.reason, "a step of 16 rows cannot hold a row of each of 32 requests");
    assert_eq!(refusal.change, ["--parallel 16", "--ubatch-size 32"]);
}

#[test]
fn of_rows_and_requests_the_one_that_was_not_asked_for_follows() {
    let machine = machine(64 * GIB, 60 * GIB);
    let shape = |limits| {
        let plan = plan(&dense_model(), &machine, &limits).expect("enough");
        (plan.parallel, plan.ubatch)
    };
    let base = Limits { ctx_size: Some(256), ..Limits::default() };
    assert_eq!(shape(Limits { parallel: Some(300), ..base.clone() }), (300, 300));
    assert_eq!(shape(Limits { ubatch: Some(2), ..base.clone() }), (2, 2));
    assert_eq!(shape(Limits { ubatch: Some(8), ..base }), (4, 8));
}
