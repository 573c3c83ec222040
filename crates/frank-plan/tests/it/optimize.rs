//! The most of one thing that fits beside the rest.

use frank_plan::{Goal, Limits, ModelNeeds, Plan, StreamCache, optimize, plan};

use crate::made_up::{GIB, MIB, beside_experts, dense_model, expert_model, machine, settings};

fn best(needs: &ModelNeeds, limits: &Limits, goal: Goal) -> Plan {
    let machine = machine(16 * GIB, 16 * GIB);
    let best = optimize(needs, &machine, limits, goal).expect("something fits");
    assert_eq!(optimize(needs, &machine, limits, goal), Ok(best.clone()), "it is the same again");
    best
}

fn fits(needs: &ModelNeeds, limits: &Limits) -> bool {
    plan(needs, &machine(16 * GIB, 16 * GIB), limits).is_ok()
}

#[test]
fn the_largest_context_is_the_last_block_that_fits() {
    for budget in [150 * MIB, 163 * MIB + 5, 200 * MIB] {
        let limits = Limits { memory_budget: Some(budget), parallel: Some(2), ..Limits::default() };
        let found = best(&dense_model(), &limits, Goal::Context).ctx_size;
        let with = |ctx_size| Limits { ctx_size: Some(ctx_size), ..limits.clone() };
        assert!(fits(&dense_model(), &with(found)) && !fits(&dense_model(), &with(found + 32)));
        assert_eq!(found % 32, 0, "a whole number of blocks");
    }
}

#[test]
fn a_context_is_never_larger_than_the_model_was_trained_on() {
    for trained in [8192, 1000] {
        let needs = ModelNeeds { context_train: trained, ..dense_model() };
        assert_eq!(best(&needs, &Limits::default(), Goal::Context).ctx_size, trained);
    }
}

#[test]
fn where_the_model_does_not_say_memory_alone_bounds_the_context() {
    let needs = ModelNeeds { context_train: 0, ..dense_model() };
    let limits = Limits { memory_budget: Some(GIB), parallel: Some(1), ..Limits::default() };
    let found = best(&needs, &limits, Goal::Context).ctx_size;
    let with = |ctx_size| Limits { ctx_size: Some(ctx_size), ..limits.clone() };
    assert!(fits(&needs, &with(found)) && !fits(&needs, &with(found + 32)));
}

#[test]
fn the_most_requests_are_the_last_that_fits() {
    let limits =
        Limits { memory_budget: Some(400 * MIB), ctx_size: Some(512), ..Limits::default() };
    let found = best(&dense_model(), &limits, Goal::Requests).parallel;
    let with = |parallel| Limits { parallel: Some(parallel), ..limits.clone() };
    assert!(fits(&dense_model(), &with(found)) && !fits(&dense_model(), &with(found + 1)));
}

#[test]
fn what_was_asked_for_of_the_goal_is_the_least_that_will_do() {
    let limits = |ctx_size| Limits {
        memory_budget: Some(200 * MIB),
        parallel: Some(2),
        ctx_size: Some(ctx_size),
        ..Limits::default()
    };
    let most = best(&dense_model(), &limits(1), Goal::Context).ctx_size;
    assert_eq!(best(&dense_model(), &limits(most), Goal::Context).ctx_size, most);
    let machine = machine(16 * GIB, 16 * GIB);
    let refusal = optimize(&dense_model(), &machine, &limits(most + 32), Goal::Context);
    assert_eq!(refusal, plan(&dense_model(), &machine, &limits(most + 32)));
    assert!(refusal.is_err());
}

#[test]
fn the_most_resident_experts_leave_as_few_slots_as_work() {
    let limits =
        Limits { memory_budget: Some(beside_experts(true) + 122 * MIB), ..settings(512, 1, 32) };
    let plan = best(&expert_model(), &limits, Goal::Experts);
    assert_eq!((plan.experts.primary, plan.experts.cache_slots), (60, 60));
    let asked = Limits {
        stream_cache: Some(StreamCache { device: None, bytes: 80 * MIB }),
        ..limits.clone()
    };
    let plan = best(&expert_model(), &asked, Goal::Experts);
    assert_eq!((plan.experts.primary, plan.experts.cache_slots), (40, 80));
    let all = best(&expert_model(), &settings(512, 1, 32), Goal::Experts);
    assert_eq!((all.experts.primary, all.experts.cache_slots), (240, 0));
}

#[test]
fn what_is_found_is_planned_again_from_the_options_that_say_it() {
    let limits =
        Limits { memory_budget: Some(beside_experts(true) + 122 * MIB), ..settings(512, 1, 32) };
    let found = best(&expert_model(), &limits, Goal::Experts);
    let uses = found.devices[0].uses;
    let said = Limits {
        stream_cache: Some(StreamCache { device: None, bytes: uses.stream_cache }),
        expert_budgets: vec![("cpu:0".to_owned(), uses.experts)],
        ..limits
    };
    assert_eq!(plan(&expert_model(), &machine(16 * GIB, 16 * GIB), &said), Ok(found));
}
