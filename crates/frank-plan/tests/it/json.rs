//! The JSON of `frank fit`: the documented keys and no others.

use frank_plan::{Drive, Limits, Outcome, Plan, Refusal, plan};

use crate::made_up::{GIB, dense_model, device, expert_model, machine};

fn json(result: Result<Plan, Refusal>) -> String {
    serde_json::to_string_pretty(&Outcome::from(result)).expect("plain data")
}

#[test]
fn a_plan_that_fits_is_printed_whole() {
    let mut machine = machine(16 * GIB, 12 * GIB);
    machine.devices[0].bandwidth = Some(40_000_000_000);
    machine.devices.push(device("cuda:0", "cuda", 24 * GIB, 23 * GIB));
    insta::assert_snapshot!(json(plan(&expert_model(), &machine, &Limits::default())));
}

#[test]
fn a_plan_that_streams_is_printed_with_its_tiers() {
    let mut machine = machine(16 * GIB, GIB);
    machine.devices[0].bandwidth = Some(40_000_000_000);
    machine.drives = vec![Drive { path: "/".to_owned(), bandwidth: Some(3_000_000_000) }];
    machine.declare("cpu:1", 40 << 20).expect("a new name");
    let limits = Limits { memory_budget: Some(GIB / 2 + GIB / 8), ..Limits::default() };
    insta::assert_snapshot!(json(plan(&expert_model(), &machine, &limits)));
}

#[test]
fn a_refused_plan_is_printed_with_what_it_would_have_taken() {
    let limits = Limits { memory_budget: Some(GIB / 4), ..Limits::default() };
    insta::assert_snapshot!(json(plan(&dense_model(), &machine(16 * GIB, 12 * GIB), &limits)));
}
