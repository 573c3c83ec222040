//! Experts on one device: how many are resident, how many slots the others share, and which they are.

use frank_plan::{
    ExpertLayer, Hotness, Limits, ModelNeeds, Placement, Plan, Protected, Ranking, StreamCache,
    Tier, plan,
};

use crate::made_up::{GIB, MIB, beside_experts, expert_model, machine, settings};

/// A budget of so many bytes beyond what a model takes that streams.
fn beyond(bytes: u64) -> Limits {
    Limits { memory_budget: Some(beside_experts(true) + bytes), ..settings(512, 1, 32) }
}

fn planned(limits: &Limits) -> Plan {
    plan(&expert_model(), &machine(16 * GIB, 16 * GIB), limits).expect("it fits")
}

/// Experts that are resident, slots, and bytes of both.
fn held(plan: &Plan) -> [u64; 4] {
    let uses = plan.devices[0].uses;
    [plan.experts.primary, plan.experts.cache_slots, uses.experts, uses.stream_cache]
}

fn check(limits: &Limits, expected: [u64; 4]) -> Plan {
    let plan = planned(limits);
    assert_eq!(held(&plan), expected, "{limits:?}");
    let experts = plan.experts;
    assert_eq!(experts.primary + experts.secondary + experts.stream, 240);
    let streamed = plan.expert_tiers.tiers.iter().filter(|tier| **tier == Tier::Stream).count();
    assert_eq!(streamed as u64, experts.stream);
    assert_eq!(plan.expert_tiers.cache_slots, experts.cache_slots);
    plan
}

#[test]
fn all_experts_are_resident_where_they_fit_and_one_byte_less_streams_them() {
    let exact = beside_experts(false) + 240 * MIB;
    let budget = |bytes| Limits { memory_budget: Some(bytes), ..settings(512, 1, 32) };
    let all = check(&budget(exact), [240, 0, 240 * MIB, 0]);
    assert_eq!((all.devices[0].uses.io_staging, all.devices[0].used), (4 * MIB, exact));
    assert!(all.expert_tiers.tiers.iter().all(|tier| *tier == Tier::Primary));
    // Streaming takes buffers of 2 MiB, and slots are in whole 2 MiB.
    let slots = check(&budget(exact - 1), [0, 236, 0, 236 * MIB]);
    assert_eq!(slots.devices[0].uses.io_staging, 6 * MIB);
    assert_eq!(slots.expert_tiers.slot_bytes, MIB);
}

#[test]
fn without_a_ranking_all_that_is_left_is_slots_from_the_floor_on() {
    check(&beyond(60 * MIB), [0, 60, 0, 60 * MIB]);
    check(&beyond(62 * MIB - 1), [0, 60, 0, 60 * MIB]);
    check(&beyond(100 * MIB), [0, 100, 0, 100 * MIB]);
    let short = plan(&expert_model(), &machine(16 * GIB, 16 * GIB), &beyond(60 * MIB - 1));
    assert_eq!(short.expect_err("below the floor").short_by, 1);
}

#[test]
fn an_expert_budget_says_how_many_are_resident_and_slots_get_the_rest() {
    let limits =
        |budget| Limits { expert_budgets: vec![("cpu:0".to_owned(), budget)], ..beyond(122 * MIB) };
    check(&limits(0), [0, 120, 0, 120 * MIB]);
    check(&limits(40 * MIB), [40, 80, 40 * MIB, 80 * MIB]);
    // 2 MiB for the rounding of two buffers are kept back.
    check(&limits(41 * MIB), [40, 80, 40 * MIB, 80 * MIB]);
    check(&limits(GIB), [60, 60, 60 * MIB, 60 * MIB]);
}

#[test]
fn the_last_expert_budget_of_a_device_counts() {
    let budgets = vec![("cpu:0".to_owned(), GIB), ("cpu:0".to_owned(), 20 * MIB)];
    let limits = Limits { expert_budgets: budgets, ..beyond(122 * MIB) };
    check(&limits, [20, 100, 20 * MIB, 100 * MIB]);
}

#[test]
fn a_budget_for_some_of_them_keeps_the_rest_on_the_drive_however_much_memory_there_is() {
    let limits =
        Limits { expert_budgets: vec![("cpu:0".to_owned(), 100 * MIB)], ..settings(512, 1, 32) };
    check(&limits, [100, 140, 100 * MIB, 140 * MIB]);
}

#[test]
fn a_stream_cache_has_its_size_and_resident_experts_get_the_rest() {
    let cache = |bytes| Some(StreamCache { device: None, bytes });
    let limits = |bytes| Limits { stream_cache: cache(bytes), ..beyond(122 * MIB) };
    check(&limits(60 * MIB), [60, 60, 60 * MIB, 60 * MIB]);
    check(&limits(70 * MIB + 5), [50, 70, 50 * MIB, 70 * MIB]);
    let both = Limits { expert_budgets: vec![("cpu:0".to_owned(), 10 * MIB)], ..limits(64 * MIB) };
    check(&both, [10, 64, 10 * MIB, 64 * MIB]);
    let named = StreamCache { device: Some("cpu:0".to_owned()), bytes: 64 * MIB };
    check(&Limits { stream_cache: Some(named), ..both }, [10, 64, 10 * MIB, 64 * MIB]);
}

#[test]
fn beside_memory_for_all_experts_a_stream_cache_is_not_taken() {
    let cache = Some(StreamCache { device: None, bytes: 64 * MIB });
    check(&Limits { stream_cache: cache, ..settings(512, 1, 32) }, [240, 0, 240 * MIB, 0]);
}

#[test]
fn slots_are_as_large_as_the_largest_streamed_expert() {
    let mut needs = expert_model();
    needs.expert_layers[7].slot_bytes = 3 * MIB / 2;
    needs.expert_bytes += 4 * MIB;
    let limits = beyond(90 * MIB);
    let plan = plan(&needs, &machine(16 * GIB, 16 * GIB), &limits).expect("60 slots of 1.5 MiB");
    assert_eq!((plan.expert_tiers.slot_bytes, plan.experts.cache_slots), (3 * MIB / 2, 60));
    assert_eq!(plan.devices[0].uses.stream_cache, 90 * MIB);
}

#[test]
fn where_the_larger_experts_are_resident_smaller_slots_fill_the_cache() {
    // Layer 0 has experts of 4 MiB, and all of them are beside the dense weights; the others are of 1 MiB.
    let mut needs = expert_model();
    needs.expert_layers[0].slot_bytes = 4 * MIB;
    needs.expert_bytes += 24 * MIB;
    let budgets = vec![("cpu:0".to_owned(), 32 * MIB)];
    let hot: String = (0..8).map(|expert| format!("0,{expert},9\n")).collect();
    let ranking =
        Ranking { hotness: Some(Hotness::parse(&hot, &needs).unwrap()), ..Ranking::default() };
    // One token's experts take slots of 4 MiB as long as anything may be streamed; 2 MiB are for rounding.
    let limits = |cache: Option<u64>| Limits {
        ranking: ranking.clone(),
        expert_budgets: budgets.clone(),
        stream_cache: cache.map(|bytes| StreamCache { device: None, bytes }),
        ..beyond((240 + 32 + 2) * MIB)
    };
    let check = |limits: &Limits, slots, bytes| {
        let plan = plan(&needs, &machine(16 * GIB, 16 * GIB), limits).expect("it fits");
        assert_eq!((plan.experts.primary, plan.experts.cache_slots), (8, slots));
        assert_eq!((plan.expert_tiers.slot_bytes, plan.devices[0].uses.stream_cache), (MIB, bytes));
    };
    check(&limits(None), 232, 232 * MIB);
    check(&limits(Some(242 * MIB)), 232, 232 * MIB);
}

fn hotness(text: &str) -> Ranking {
    let hotness = Hotness::parse(text, &expert_model()).expect("well-formed");
    Ranking { hotness: Some(hotness), ..Ranking::default() }
}

#[test]
fn with_a_hotness_file_half_of_the_room_beyond_the_floor_is_resident_and_hottest_first() {
    let ranking = hotness("layer,expert,count\n29,7,1000\n0,3,999\n5,5,2\n");
    let limits = Limits { ranking, ..beyond(102 * MIB) };
    let plan = check(&limits, [20, 80, 20 * MIB, 80 * MIB]);
    let tiers = &plan.expert_tiers;
    for (layer, expert) in [(29, 7), (0, 3), (5, 5), (0, 0), (16, 0)] {
        assert_eq!(tiers.get(layer, expert), Some(Tier::Primary), "{layer},{expert}");
    }
    // Of those that nobody counted, the first of each layer, until there is no more room.
    for (layer, expert) in [(17, 0), (0, 1), (29, 6)] {
        assert_eq!(tiers.get(layer, expert), Some(Tier::Stream), "{layer},{expert}");
    }
}

#[test]
fn a_budget_is_filled_with_the_hottest() {
    let limits = Limits {
        ranking: hotness("12,6,5\n3,1,7\n"),
        expert_budgets: vec![("cpu:0".to_owned(), 2 * MIB)],
        ..beyond(102 * MIB)
    };
    let plan = check(&limits, [2, 98, 2 * MIB, 98 * MIB]);
    assert_eq!(plan.expert_tiers.get(12, 6), Some(Tier::Primary));
    assert_eq!(plan.expert_tiers.get(3, 1), Some(Tier::Primary));
}

#[test]
fn protected_experts_are_resident_before_all_others_and_part_of_the_minimum() {
    let protected = Protected::parse(r#"{"4": [0, 7], "29": [7]}"#, &expert_model()).unwrap();
    let ranking = Ranking { protected: Some(protected), ..Ranking::default() };
    let limits = |bytes| Limits { ranking: ranking.clone(), ..beyond(bytes) };
    // 3 experts take 4 MiB.
    let plan = check(&limits(64 * MIB), [3, 60, 4 * MIB, 60 * MIB]);
    for id in [(4, 0), (4, 7), (29, 7)] {
        assert_eq!(plan.expert_tiers.get(id.0, id.1), Some(Tier::Primary), "{id:?}");
    }
    check(&limits(102 * MIB), [3, 97, 4 * MIB, 98 * MIB]);
    let short = frank_plan::plan(&expert_model(), &machine(GIB, GIB), &limits(64 * MIB - 1));
    assert_eq!(short.expect_err("3 experts and the floor").short_by, 1);
}

/// A placement file that gives `owners` to the first experts and `rest` to the others.
fn placement(owners: &[&str], rest: &str) -> Placement {
    let mut words = vec![rest; 240];
    words[..owners.len()].copy_from_slice(owners);
    let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
    let text = format!(r#"{{"owners": [{}]}}"#, quoted.join(","));
    Placement::parse(&text, &expert_model()).expect("well-formed")
}

#[test]
fn a_placement_file_is_kept_where_it_fits() {
    let placement = placement(&["primary", "stream", "primary", "primary"], "stream");
    let ranking = Ranking { placement: Some(placement), ..Ranking::default() };
    let plan = check(&Limits { ranking, ..beyond(102 * MIB) }, [3, 97, 4 * MIB, 98 * MIB]);
    let first: Vec<Tier> = plan.expert_tiers.tiers[..4].to_vec();
    assert_eq!(first, [Tier::Primary, Tier::Stream, Tier::Primary, Tier::Primary]);
    assert_eq!(plan.warnings, Vec::<String>::new());
}

#[test]
fn what_a_placement_file_says_is_streamed_is_streamed_however_much_memory_there_is() {
    let placement = placement(&["stream"; 5], "primary");
    let ranking = Ranking { placement: Some(placement), ..Ranking::default() };
    // A slot for each of them is enough.
    let limits = Limits { ranking, ..settings(512, 1, 32) };
    let plan = check(&limits, [235, 5, 236 * MIB, 6 * MIB]);
    assert_eq!(plan.expert_tiers.tiers[..5], [Tier::Stream; 5]);
}

#[test]
fn what_a_placement_file_asks_for_and_does_not_fit_drops_a_tier_and_is_said() {
    let placement = placement(&["secondary"; 10], "primary");
    let hot = Hotness::parse("29,7,9\n", &expert_model()).unwrap();
    let ranking = Ranking { placement: Some(placement), hotness: Some(hot), protected: None };
    let plan = check(&Limits { ranking, ..beyond(82 * MIB) }, [20, 60, 20 * MIB, 60 * MIB]);
    // 230 should be resident, and 10 on another device that is not there.
    let warning =
        "220 experts lie in a lower tier than the placement file says, for lack of memory";
    assert_eq!(plan.warnings, [warning]);
    assert_eq!(plan.expert_tiers.get(29, 7), Some(Tier::Primary));
    assert_eq!(plan.expert_tiers.get(0, 0), Some(Tier::Stream));
}

#[test]
fn layers_without_experts_have_places_that_mean_nothing() {
    let mut needs = expert_model();
    needs.expert_layers.remove(0);
    needs.expert_bytes = 232 * MIB;
    let limits = beyond(58 * MIB);
    let plan = plan(&needs, &machine(16 * GIB, 16 * GIB), &limits).expect("58 slots are its floor");
    assert_eq!((plan.experts.count, plan.experts.stream, plan.experts.floor_slots), (232, 232, 58));
    assert_eq!(plan.expert_tiers.tiers.len(), 240);
    assert_eq!(plan.expert_tiers.tiers[..8], [Tier::Primary; 8]);
    assert_eq!(plan.expert_tiers.tiers[8], Tier::Stream);
}

#[test]
fn experts_that_the_header_does_not_tell_apart_are_resident_as_a_whole() {
    let needs = ModelNeeds { expert_layers: Vec::new(), ..expert_model() };
    let limits = |bytes| Limits { memory_budget: Some(bytes), ..settings(512, 1, 32) };
    let exact = beside_experts(false) + 240 * MIB;
    let machine = machine(16 * GIB, 16 * GIB);
    let resident = plan(&needs, &machine, &limits(exact)).expect("it fits");
    assert_eq!(held(&resident), [240, 0, 240 * MIB, 0]);
    assert_eq!(plan(&needs, &machine, &limits(exact - 1)).expect_err("whole").short_by, 1);
}

#[test]
fn more_experts_than_can_be_placed_are_refused_by_their_number() {
    let layer = |layer| ExpertLayer { layer, n_experts: u32::MAX, n_used: 1, slot_bytes: 1 };
    let needs = ModelNeeds {
        experts: u32::MAX,
        expert_layers: vec![layer(0), layer(1)],
        expert_bytes: 2 * u64::from(u32::MAX),
        ..expert_model()
    };
    let refusal = plan(&needs, &machine(16 * GIB, 16 * GIB), &Limits::default()).unwrap_err();
    let expected =
        "the model has places for 128849018850 experts, and at most 1048576 can be placed";
    assert_eq!((refusal.reason.as_str(), refusal.short_by), (expected, 0));
    assert_eq!(refusal.attempt.expert_tiers.tiers.len(), 0);
    // Few experts in a layer of an absurd model still have a place each.
    let sparse = ModelNeeds { layers: u32::MAX, ..expert_model() };
    let refusal = plan(&sparse, &machine(16 * GIB, 16 * GIB), &Limits::default()).unwrap_err();
    assert!(refusal.reason.contains("can be placed"), "{}", refusal.reason);
}
