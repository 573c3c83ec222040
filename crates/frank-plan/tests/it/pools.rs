//! Experts on more than one device: pools with memory of their own, and such as are part of another's.

use frank_plan::{Limits, Machine, MachineError, Plan, StreamCache, Tier, plan};

use crate::made_up::{GIB, MIB, beside_experts, device, expert_model, machine, settings};

/// Two devices with memory of their own.
fn two(first: u64, second: u64) -> Machine {
    let mut machine = machine(first, first);
    machine.devices.push(device("cpu:1", "cpu", second, second));
    machine.devices.iter_mut().for_each(|device| device.headroom = Some(0));
    machine
}

fn planned(machine: &Machine, limits: &Limits) -> Plan {
    plan(&expert_model(), machine, limits).expect("it fits")
}

/// Experts on the first device and on others, slots, and what each device holds of them.
fn check(machine: &Machine, limits: &Limits, expected: [u64; 3], held: &[(u64, u64)]) -> Plan {
    let plan = planned(machine, limits);
    let experts = plan.experts;
    assert_eq!([experts.primary, experts.secondary, experts.cache_slots], expected);
    let uses = plan.devices.iter().map(|device| (device.uses.experts, device.uses.stream_cache));
    assert_eq!(uses.collect::<Vec<_>>(), held);
    plan
}

#[test]
fn what_does_not_fit_on_the_first_device_lies_on_the_second_and_nothing_is_streamed() {
    let machine = two(beside_experts(false) + 101 * MIB, 141 * MIB);
    let plan =
        check(&machine, &settings(512, 1, 32), [100, 140, 0], &[(100 * MIB, 0), (140 * MIB, 0)]);
    assert_eq!(plan.expert_tiers.get(0, 0), Some(Tier::Primary));
    assert_eq!(plan.expert_tiers.get(29, 7), Some(Tier::Secondary(1)));
    let n_second = plan.expert_tiers.tiers.iter().filter(|tier| **tier == Tier::Secondary(1));
    assert_eq!(n_second.count(), 140);
}

#[test]
fn where_both_are_too_small_the_second_is_filled_and_the_first_has_the_slots() {
    let machine = two(beside_experts(true) + 100 * MIB, 51 * MIB);
    check(&machine, &settings(512, 1, 32), [0, 50, 100], &[(0, 100 * MIB), (50 * MIB, 0)]);
    let budgets = vec![("cpu:0".to_owned(), 20 * MIB), ("cpu:1".to_owned(), 30 * MIB)];
    let limits = Limits { expert_budgets: budgets, ..settings(512, 1, 32) };
    check(&machine, &limits, [20, 30, 78], &[(20 * MIB, 78 * MIB), (30 * MIB, 0)]);
}

#[test]
fn slots_lie_where_the_operator_says() {
    let machine = two(beside_experts(true) + 40 * MIB, 151 * MIB);
    let cache = StreamCache { device: Some("cpu:1".to_owned()), bytes: 70 * MIB };
    let limits = Limits { stream_cache: Some(cache), ..settings(512, 1, 32) };
    check(&machine, &limits, [40, 78, 70], &[(40 * MIB, 0), (78 * MIB, 70 * MIB)]);
}

#[test]
fn devices_that_frank_does_not_compute_on_hold_nothing() {
    let mut machine = machine(GIB, beside_experts(true) + 60 * MIB);
    machine.devices[0].headroom = Some(0);
    machine.devices.push(device("cuda:0", "cuda", 24 * GIB, 24 * GIB));
    check(&machine, &settings(512, 1, 32), [0, 0, 60], &[(0, 60 * MIB), (0, 0)]);
}

#[test]
fn what_lies_on_all_devices_together_stays_within_the_budget_for_all() {
    let machine = two(4 * GIB, 4 * GIB);
    let budgets = vec![("cpu:0".to_owned(), 20 * MIB), ("cpu:1".to_owned(), 30 * MIB)];
    let limits = |bytes| Limits {
        expert_budgets: budgets.clone(),
        memory_budget: Some(beside_experts(true) + bytes),
        ..settings(512, 1, 32)
    };
    // 4 MiB for the rounding of three buffers are kept back.
    let plan =
        check(&machine, &limits(124 * MIB), [20, 30, 70], &[(20 * MIB, 70 * MIB), (30 * MIB, 0)]);
    let used: u64 = plan.devices.iter().map(|device| device.used).sum();
    assert_eq!(used, beside_experts(true) + 120 * MIB);
    check(&machine, &limits(94 * MIB), [20, 10, 60], &[(20 * MIB, 60 * MIB), (10 * MIB, 0)]);
    check(&machine, &limits(60 * MIB), [0, 0, 60], &[(0, 60 * MIB), (0, 0)]);
}

/// One device of `free` bytes with a declared pool of `pool` bytes.
fn declared(free: u64, pool: u64) -> Machine {
    let mut machine = machine(free, free);
    machine.devices[0].headroom = Some(0);
    machine.declare("cpu:1", pool).expect("the first of its name");
    machine
}

#[test]
fn a_declared_pool_is_memory_of_the_first_device() {
    let machine = declared(beside_experts(true) + 122 * MIB, 40 * MIB);
    assert_eq!(machine.devices[1].part_of.as_deref(), Some("cpu:0"));
    let plan = check(&machine, &settings(512, 1, 32), [0, 40, 80], &[(0, 80 * MIB), (40 * MIB, 0)]);
    let left: Vec<u64> = plan.devices.iter().map(|device| device.left).collect();
    assert_eq!(left, [2 * MIB, 0]);
    assert_eq!(plan.devices[1].headroom, 0);
    // A pool larger than what is left of the device gets what is left beyond the floor.
    let machine = declared(beside_experts(true) + 122 * MIB, 250 * MIB);
    check(&machine, &settings(512, 1, 32), [0, 60, 60], &[(0, 60 * MIB), (60 * MIB, 0)]);
}

#[test]
fn all_experts_are_beside_the_dense_weights_where_there_is_room_whatever_is_declared() {
    let machine = declared(beside_experts(false) + 240 * MIB, 100 * MIB);
    check(&machine, &settings(512, 1, 32), [240, 0, 0], &[(240 * MIB, 0), (0, 0)]);
}

#[test]
fn a_cap_on_the_first_device_leaves_a_declared_pool_its_own() {
    let machine = declared(16 * GIB, 150 * MIB);
    let caps = vec![("cpu:0".to_owned(), beside_experts(false) + 90 * MIB)];
    let limits = Limits { devices: caps, ..settings(512, 1, 32) };
    check(&machine, &limits, [90, 150, 0], &[(90 * MIB, 0), (150 * MIB, 0)]);
}

#[test]
fn only_cpu_pools_of_a_new_name_can_be_declared() {
    let check = |id: &str, expected: &str| {
        let mut machine = declared(GIB, MIB);
        let before = machine.clone();
        assert_eq!(machine.declare(id, MIB).expect_err(id).to_string(), expected);
        assert_eq!(machine, before);
    };
    for id in ["cuda:0", "cpu", "cpu:", "cpu:x", "cpu:01", "cpu:-1", "cpu:4294967296", "CPU:2", ""]
    {
        let expected = format!(
            "`{id}` is not cpu:N, so it cannot be declared as a part of the machine's memory"
        );
        check(id, &expected);
    }
    let too_large = declared(GIB, MIB).declare("cpu:2", 2 * GIB).expect_err("too large");
    assert_eq!(
        too_large.to_string(),
        "a pool `cpu:2` of 2.00 GiB does not lie within cpu:0, which has 1.00 GiB"
    );
    check("cpu:0", "two devices are called `cpu:0`");
    check("cpu:1", "two devices are called `cpu:1`");
    let mut without = declared(GIB, MIB);
    without.devices.iter_mut().for_each(|device| device.kind = "npu".to_owned());
    assert_eq!(without.declare("cpu:2", MIB), Err(MachineError::NoCpu));
}

#[test]
fn there_are_no_more_devices_than_a_tier_can_name() {
    let mut machine = machine(GIB, GIB);
    for number in 1..256 {
        machine.declare(&format!("cpu:{number}"), MIB).expect("one of 256");
    }
    assert_eq!(machine.declare("cpu:256", MIB), Err(MachineError::TooManyDevices { count: 257 }));
    let text = machine.to_toml();
    assert_eq!(Machine::from_toml(&text).map(|machine| machine.to_toml()), Ok(text));
}

#[test]
fn a_machine_file_says_of_what_a_pool_is_part() {
    let check = |part_of: &str, of_first: &str, expected: Result<(), String>| {
        let text = format!(
            "[host]\nram = 9\ncores = 1\n\
             [[device]]\nid = \"cpu:0\"\nkind = \"cpu\"\ntotal = 9\nfree = 9\n{of_first}\n\
             [[device]]\nid = \"cpu:1\"\nkind = \"cpu\"\ntotal = 5\nfree = 5\npart_of = \"{part_of}\"\n"
        );
        let read = Machine::from_toml(&text);
        assert_eq!(read.map(|_| ()).map_err(|error| error.to_string()), expected);
    };
    let no_parent = |id: &str, parent: &str| {
        Err(format!(
            "device `{id}` is part of `{parent}`, which is no device with memory of its own"
        ))
    };
    check("cpu:0", "", Ok(()));
    check("cpu:7", "", no_parent("cpu:1", "cpu:7"));
    check("cpu:1", "", no_parent("cpu:1", "cpu:1"));
    check("cpu:0", "part_of = \"cpu:1\"", no_parent("cpu:0", "cpu:1"));
}
