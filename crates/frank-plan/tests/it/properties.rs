//! Promises that hold for every model, machine and wish, absurd ones included.

use frank_plan::{
    ARENA_BYTES, KV_BLOCK_TOKENS, KvGroupPlan, LayerState, Limits, ModelNeeds, Plan,
    kv_request_blocks, plan,
};
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

use crate::made_up::{GIB, dense_model, expert_model, machine};
use crate::strategies::{bytes, check_suggestions, count, limits, machines, needs};

/// Every sum of a plan, which holds for attempts too.
fn sums_hold(plan: &Plan) -> bool {
    plan.devices.iter().all(|device| {
        let parts: u128 =
            device.uses.entries().into_iter().map(|(_, bytes)| u128::from(bytes)).sum();
        let used = u64::try_from(parts).unwrap_or(u64::MAX);
        device.used == used
            && device.left == device.free.saturating_sub(device.headroom).saturating_sub(used)
    })
}

proptest! {
    #[test]
    fn sums_hold_and_a_plan_stays_within_every_cap(needs in needs(), machine in machines(), limits in limits()) {
        match plan(&needs, &machine, &limits) {
            Ok(plan) => {
                prop_assert!(sums_hold(&plan));
                let used: u128 = plan.devices.iter().map(|device| u128::from(device.used)).sum();
                prop_assert!(limits.memory_budget.is_none_or(|budget| used <= u128::from(budget)));
                for device in &plan.devices {
                    prop_assert!(device.used + device.headroom.min(device.free) <= device.free);
                    let mut caps = limits.devices.iter().filter(|(id, _)| *id == device.id);
                    prop_assert!(caps.next_back().is_none_or(|&(_, cap)| device.used <= cap));
                }
            }
            Err(refusal) => prop_assert!(sums_hold(&refusal.attempt)),
        }
    }

    #[test]
    fn every_request_has_its_blocks_and_all_blocks_are_paid_for(
        needs in needs(), limits in limits(),
    ) {
        if let Ok(plan) = plan(&needs, &machine(1 << 60, 1 << 60), &limits) {
            let uses = plan.devices[0].uses;
            let paid = u128::from(uses.kv_cache) + u128::from(uses.prefix_cache);
            let bytes = |n: fn(&KvGroupPlan) -> u64| -> u128 {
                plan.kv_groups.iter().map(|group| u128::from(n(group)) * u128::from(group.block_bytes)).sum()
            };
            prop_assert!(bytes(|group| group.n_blocks) <= paid);
            prop_assert!(bytes(|group| group.request_blocks) * u128::from(plan.parallel) <= u128::from(uses.kv_cache));
            for group in &plan.kv_groups {
                prop_assert!(group.n_blocks >= group.request_blocks * u64::from(plan.parallel));
                prop_assert_eq!(
                    group.request_blocks, kv_request_blocks(group.window, plan.ctx_size, plan.ubatch),
                );
            }
            let layers: u128 = needs.state.iter().map(|LayerState::Paged { bytes_per_token, .. }| {
                u128::from(*bytes_per_token) * u128::from(KV_BLOCK_TOKENS)
            }).sum();
            prop_assert_eq!(bytes(|_| 1), layers);
        }
    }

    #[test]
    fn a_prefix_cache_takes_what_was_asked_for_and_uses_all_of_it(
        needs in needs(), limits in limits(), asked in bytes(2 * GIB),
    ) {
        // Slots of streamed experts would take what is left, and more memory takes more page tables.
        let needs = ModelNeeds { expert_layers: Vec::new(), page_table_reach: 0, ..needs };
        let with = Limits { prefix_cache: Some(asked), ..limits.clone() };
        let without = Limits { prefix_cache: None, ..limits };
        let plan = |limits: &Limits| plan(&needs, &machine(1 << 60, 1 << 60), limits);
        if let (Ok(with), Ok(without)) = (plan(&with), plan(&without)) {
            let (row, more) = (with.devices[0].uses.prefix_cache, with.devices[0].used - without.devices[0].used);
            prop_assert_eq!(row, more);
            prop_assert!(row <= asked && asked - row < ARENA_BYTES);
            let blocks = |plan: &Plan| -> u128 {
                plan.kv_groups.iter().map(|group| u128::from(group.n_blocks) * u128::from(group.block_bytes)).sum()
            };
            let smallest = with.kv_groups.iter().map(|group| group.block_bytes).filter(|&bytes| bytes > 0).min();
            if let Some(smallest) = smallest && row > 0 {
                let unused = u128::from(with.devices[0].uses.kv_cache) + u128::from(row) - blocks(&with);
                prop_assert!(unused < u128::from(smallest), "{} unused", unused);
            }
        }
    }

    #[test]
    fn every_suggested_change_fits(needs in needs(), machine in machines(), limits in limits()) {
        if let Err(refusal) = plan(&needs, &machine, &limits) {
            check_suggestions(&needs, &machine, &limits, &refusal)?;
        }
    }

    #[test]
    fn what_is_short_is_all_that_is_short(budget in 0..4 * GIB, experts in any::<bool>()) {
        let needs = if experts { expert_model() } else { dense_model() };
        let machine = machine(16 * GIB, 12 * GIB);
        let limits = |bytes| Limits { memory_budget: Some(bytes), ..Limits::default() };
        if let Err(refusal) = plan(&needs, &machine, &limits(budget)) {
            prop_assert!(refusal.short_by > 0 && !refusal.change.is_empty());
            prop_assert!(plan(&needs, &machine, &limits(budget + refusal.short_by)).is_ok());
            prop_assert!(plan(&needs, &machine, &limits(budget + refusal.short_by - 1)).is_err());
        }
    }

    #[test]
    fn more_memory_never_turns_a_fit_into_a_refusal(
        needs in needs(), machine in machines(), limits in limits(), more in bytes(GIB),
    ) {
        if plan(&needs, &machine, &limits).is_ok() {
            let mut larger = machine.clone();
            larger.devices[0].free = larger.devices[0].free.saturating_add(more);
            prop_assert!(plan(&needs, &larger, &limits).is_ok());
            let mut allowed = limits.clone();
            allowed.memory_budget = allowed.memory_budget.map(|bytes| bytes.saturating_add(more));
            prop_assert!(plan(&needs, &machine, &allowed).is_ok());
        }
    }

    #[test]
    fn a_larger_setting_never_uses_less(
        needs in needs(), small in (count(65_536), count(64), count(4096)), more in (0..9999u32, 0..64u32, 0..999u32),
        (prefix_cache, more_cache) in (bytes(GIB), bytes(GIB)),
    ) {
        let used = |(ctx_size, parallel, ubatch): (u32, u32, u32), prefix_cache| {
            let prefix_cache = Some(prefix_cache);
            let limits = Limits { prefix_cache, ..crate::made_up::settings(ctx_size, parallel, ubatch) };
            let result = plan(&needs, &machine(u64::MAX, u64::MAX), &limits);
            let plan = result.unwrap_or_else(|refusal| *refusal.attempt);
            plan.devices[0].used
        };
        let large = (
            small.0.saturating_add(more.0),
            small.1.saturating_add(more.1),
            small.2.saturating_add(more.2),
        );
        prop_assert!(used(large, prefix_cache.saturating_add(more_cache)) >= used(small, prefix_cache));
    }

    #[test]
    fn sums_that_no_number_can_hold_are_refused(dense in any::<u64>(), which in 0..4usize) {
        let mut needs = dense_model();
        needs.dense_bytes = dense;
        let field = [
            &mut needs.expert_bytes,
            &mut needs.runtime_bytes,
            &mut needs.io_staging_bytes,
            &mut needs.compute.per_row,
        ];
        *field.into_iter().nth(which).expect("4 fields") = u64::MAX;
        let refusal = plan(&needs, &machine(u64::MAX, u64::MAX), &Limits::default()).expect_err("too large");
        prop_assert_eq!(refusal.attempt.devices[0].used, u64::MAX);
    }
}
