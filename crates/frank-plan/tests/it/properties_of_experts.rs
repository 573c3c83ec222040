//! Promises about experts that hold for every model that has some, on one device and on several.

use frank_plan::{Goal, Limits, Machine, ModelNeeds, Plan, Tier, optimize, plan};
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};

use crate::made_up::{MIB, machine};
use crate::strategies::{check_suggestions, expert_limits, expert_needs, needs, pools};

/// A model, a machine and limits for both.
fn cases() -> impl Strategy<Value = (ModelNeeds, Machine, Limits)> {
    (expert_needs(), pools()).prop_flat_map(|(needs, machine)| {
        let limits = expert_limits(&needs, &machine);
        limits.prop_map(move |limits| (needs.clone(), machine.clone(), limits))
    })
}

/// Bytes that each device holds of the experts in `plan.expert_tiers`, and of its slots, in whole 2 MiB.
fn bytes_of_tiers(needs: &ModelNeeds, plan: &Plan) -> (Vec<u64>, u64) {
    let mut bytes = vec![0u64; plan.devices.len()];
    for layer in &needs.expert_layers {
        for expert in 0..layer.n_experts {
            match plan.expert_tiers.get(layer.layer, expert).expect("every expert has a tier") {
                Tier::Primary => bytes[0] += layer.slot_bytes,
                Tier::Secondary(device) => bytes[usize::from(device)] += layer.slot_bytes,
                Tier::Stream => {}
            }
        }
    }
    let whole = |bytes: u64| bytes.next_multiple_of(2 * MIB);
    let slots = plan.expert_tiers.cache_slots * plan.expert_tiers.slot_bytes;
    (bytes.into_iter().map(whole).collect(), whole(slots))
}

/// Experts that are in memory after a while: resident ones, and one in each slot.
fn held(plan: &Plan) -> u64 {
    plan.experts.primary + plan.experts.secondary + plan.experts.cache_slots
}

proptest! {
    #[test]
    fn a_plan_never_exceeds_a_budget_and_devices_that_share_memory_stay_within_it(
        (needs, machine, limits) in cases(),
    ) {
        let Ok(plan) = plan(&needs, &machine, &limits) else { return Ok(()) };
        let used: u64 = plan.devices.iter().map(|device| device.used).sum();
        prop_assert!(limits.memory_budget.is_none_or(|budget| used <= budget));
        for (device, of) in plan.devices.iter().zip(&machine.devices) {
            let parts = machine.devices.iter().zip(&plan.devices).filter(|(part, _)| {
                part.part_of.as_ref() == Some(&of.id)
            });
            let shared: u64 = parts.map(|(_, part)| part.used).sum();
            prop_assert!(device.used + shared + device.headroom <= device.free.max(device.headroom));
            let of_device = |list: &[(String, u64)]| list.iter().find(|(id, _)| *id == device.id).map(|entry| entry.1);
            prop_assert!(of_device(&limits.devices).is_none_or(|cap| device.used <= cap));
            prop_assert!(of_device(&limits.expert_budgets).is_none_or(|cap| device.uses.experts <= cap));
            prop_assert!(of.kind == "cpu" || device.used == 0);
        }
        let slots: u64 = plan.devices.iter().map(|device| device.uses.stream_cache).sum();
        prop_assert!(limits.stream_cache.is_none_or(|cache| slots <= cache.bytes));
    }

    #[test]
    fn every_expert_has_a_tier_that_is_paid_for((needs, machine, limits) in cases()) {
        let plan = plan(&needs, &machine, &limits).unwrap_or_else(|refusal| *refusal.attempt);
        let (bytes, slots) = bytes_of_tiers(&needs, &plan);
        let uses = |of: fn(&frank_plan::DeviceUse) -> u64| -> Vec<u64> {
            plan.devices.iter().map(|device| of(&device.uses)).collect()
        };
        prop_assert_eq!(uses(|uses| uses.experts), bytes);
        prop_assert_eq!(uses(|uses| uses.stream_cache).into_iter().sum::<u64>(), slots);
        let count = |is: fn(&Tier) -> bool| plan.expert_tiers.tiers.iter().filter(|tier| is(tier)).count() as u64;
        prop_assert_eq!(count(|tier| *tier == Tier::Primary), plan.experts.primary);
        prop_assert_eq!(count(|tier| matches!(tier, Tier::Secondary(_))), plan.experts.secondary);
        prop_assert_eq!(count(|tier| *tier == Tier::Stream), plan.experts.stream);
        prop_assert!(plan.experts.cache_slots <= plan.experts.stream);
    }

    #[test]
    fn a_plan_that_streams_has_slots_for_one_token((needs, machine, limits) in cases()) {
        if let Ok(plan) = plan(&needs, &machine, &limits) {
            let wanted = |layer: &frank_plan::ExpertLayer| {
                let streamed = (0..layer.n_experts).filter(|&expert| {
                    plan.expert_tiers.get(layer.layer, expert) == Some(Tier::Stream)
                });
                (streamed.count() as u64).min(u64::from(layer.n_used))
            };
            let wanted: u64 = needs.expert_layers.iter().map(wanted).sum();
            prop_assert!(plan.experts.cache_slots >= wanted, "{} of {wanted}", plan.experts.cache_slots);
        }
    }

    #[test]
    fn more_memory_never_holds_fewer_experts(
        (needs, machine, limits) in cases(), more in 1..40 * MIB, which in 0..3usize,
    ) {
        let Ok(before) = plan(&needs, &machine, &limits) else { return Ok(()) };
        let (mut machine, mut limits) = (machine, limits);
        match which {
            0 => machine.devices[0].free += more,
            1 => limits.memory_budget = limits.memory_budget.map(|bytes| bytes + more),
            _ => {
                let caps = limits.devices.iter_mut().filter(|(id, _)| id == "cpu:0");
                caps.for_each(|(_, bytes)| *bytes += more);
            }
        }
        let after = plan(&needs, &machine, &limits).expect("it fit into less");
        prop_assert!(held(&after) >= held(&before), "{} after {}", held(&after), held(&before));
        let resident = |plan: &Plan| plan.experts.primary + plan.experts.secondary;
        prop_assert!(resident(&after) >= resident(&before));
    }

    #[test]
    fn every_suggestion_for_experts_fits((needs, machine, limits) in cases()) {
        if let Err(refusal) = plan(&needs, &machine, &limits) {
            check_suggestions(&needs, &machine, &limits, &refusal)?;
        }
    }

    #[test]
    fn the_minimum_that_a_refusal_names_fits_and_one_byte_less_does_not(
        (needs, _, limits) in cases(), declared in any::<bool>(),
    ) {
        let mut machine = machine(1 << 40, 1 << 40);
        if declared {
            machine.declare("cpu:2", 50 * MIB).expect("a new name");
        }
        let is_there = |id: &String| machine.devices.iter().any(|device| device.id == *id);
        let mut limits = Limits { devices: Vec::new(), memory_budget: Some(1), ..limits };
        limits.expert_budgets.retain(|(id, _)| is_there(id));
        // So that nothing but the budget is too little.
        limits.stream_cache.iter_mut().for_each(|cache| cache.device = None);
        let refusal = plan(&needs, &machine, &limits).expect_err("one byte");
        if !refusal.reason.contains("--memory-budget") {
            return Ok(());
        }
        let used: u64 = refusal.attempt.devices.iter().map(|device| device.used).sum();
        prop_assert_eq!(refusal.short_by + 1, used);
        let with = |bytes| Limits { memory_budget: Some(bytes), ..limits.clone() };
        prop_assert!(plan(&needs, &machine, &with(used)).is_ok());
        // With a second buffer, another split may be rounded to 2 MiB less.
        let less = if declared { 2 * MIB } else { 0 };
        let refusal = plan(&needs, &machine, &with(used - less - 1)).err();
        prop_assert!(refusal.is_some_and(|refusal| refusal.short_by > 0));
    }

    #[test]
    fn what_is_optimized_is_never_worse_than_what_was_asked_for((needs, machine, limits) in cases()) {
        let asked = plan(&needs, &machine, &limits);
        let best = optimize(&needs, &machine, &limits, Goal::Experts);
        // A cache that is below its floor is made as large as that.
        prop_assert!(best.is_ok() || asked.is_err());
        if let (Ok(asked), Ok(best)) = (asked, best) {
            let resident = |plan: &Plan| plan.experts.primary + plan.experts.secondary;
            prop_assert!(resident(&best) >= resident(&asked));
        }
    }

    #[test]
    fn absurd_headers_are_planned_or_refused_and_never_more(
        needs in needs(), (_, machine, limits) in cases(),
    ) {
        let limits = Limits { ranking: frank_plan::Ranking::default(), ..limits };
        let plan = plan(&needs, &machine, &limits).unwrap_or_else(|refusal| *refusal.attempt);
        prop_assert!(plan.expert_tiers.tiers.len() as u64 <= frank_plan::EXPERTS_MAX);
    }
}
