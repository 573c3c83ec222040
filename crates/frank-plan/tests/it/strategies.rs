//! Models, machines and limits to try promises on: some that exist, and some that cannot.

use frank_plan::{
    ComputeNeeds, Device, ExpertLayer, Hotness, LayerState, Limits, Machine, ModelNeeds, Placement,
    Protected, Ranking, Refusal, StreamCache, parse_size, plan,
};
use proptest::prelude::{Just, Strategy, TestCaseError, any, prop_assert, prop_oneof};
use proptest::{collection, option};

use crate::made_up::{GIB, MIB, dense_model, device, expert_model, machine};

/// Numbers of a size that exists, and some that cannot.
pub(crate) fn bytes(most: u64) -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..most, 1 => Just(0), 1 => any::<u64>(), 1 => Just(u64::MAX)]
}

pub(crate) fn count(most: u32) -> impl Strategy<Value = u32> {
    prop_oneof![12 => 1..most, 1 => Just(0), 1 => any::<u32>(), 1 => Just(u32::MAX)]
}

fn layer() -> impl Strategy<Value = LayerState> {
    let paged = |(bytes_per_token, window)| LayerState::Paged { bytes_per_token, window };
    (bytes(8192), option::of(count(4096))).prop_map(paged)
}

fn expert_layer() -> impl Strategy<Value = ExpertLayer> {
    let layer = |(layer, n_experts, n_used, slot_bytes)| ExpertLayer {
        layer,
        n_experts,
        n_used,
        slot_bytes,
    };
    (count(64), count(128), count(8), bytes(16 * MIB)).prop_map(layer)
}

fn compute() -> impl Strategy<Value = ComputeNeeds> {
    let needs = |(fixed, per_row, per_output_row, per_request, per_context_token)| ComputeNeeds {
        fixed,
        per_row,
        per_output_row,
        per_request,
        per_context_token,
    };
    (bytes(64 * MIB), bytes(64 << 10), bytes(MIB), bytes(4 * MIB), bytes(64)).prop_map(needs)
}

pub(crate) fn needs() -> impl Strategy<Value = ModelNeeds> {
    let sizes = (bytes(4 * GIB), bytes(4 * GIB), bytes(64 * MIB), bytes(64 * MIB), bytes(GIB));
    let page_table_reach = prop_oneof![Just(0), Just(512)];
    let counts = (count(64), count(128), count(8), count(32_768));
    let lists = (collection::vec(layer(), 0..6), collection::vec(expert_layer(), 0..6));
    (sizes, page_table_reach, counts, lists, compute()).prop_map(
        |(sizes, page_table_reach, counts, (state, mut expert_layers), compute)| {
            let (
                dense_bytes,
                expert_bytes,
                runtime_bytes,
                io_staging_bytes,
                decode_bytes_per_token,
            ) = sizes;
            let (layers, experts, experts_used, context_train) = counts;
            expert_layers.sort_by_key(|layer| layer.layer);
            expert_layers.dedup_by_key(|layer| layer.layer);
            ModelNeeds {
                layers,
                experts,
                experts_used,
                context_train,
                dense_bytes,
                expert_bytes,
                expert_layers,
                expert_staging_bytes: io_staging_bytes / 2,
                state,
                compute,
                runtime_bytes,
                page_table_reach,
                io_staging_bytes,
                decode_bytes_per_token,
                ..dense_model()
            }
        },
    )
}

pub(crate) fn machines() -> impl Strategy<Value = Machine> {
    (bytes(32 * GIB), bytes(32 * GIB), option::of(bytes(GIB)), option::of(bytes(1 << 40))).prop_map(
        |(total, free, headroom, bandwidth)| {
            let mut machine = machine(total, free.min(total));
            machine.devices[0] = Device { headroom, bandwidth, ..machine.devices[0].clone() };
            machine.devices.push(device("cuda:0", "cuda", GIB, GIB));
            machine
        },
    )
}

pub(crate) fn limits() -> impl Strategy<Value = Limits> {
    let settings = (option::of(count(65_536)), option::of(count(64)), option::of(count(4096)));
    let caps = (option::of(bytes(16 * GIB)), option::of(bytes(16 * GIB)), option::of(bytes(GIB)));
    let cache = (option::of(bytes(2 * GIB)), any::<bool>());
    (settings, caps, cache).prop_map(|(settings, caps, (prefix_cache, disk_cache))| {
        let ((ctx_size, parallel, ubatch), (memory_budget, cap, headroom)) = (settings, caps);
        Limits {
            ctx_size,
            parallel,
            ubatch,
            prefix_cache,
            disk_cache,
            memory_budget,
            devices: cap.into_iter().map(|bytes| ("cpu:0".to_owned(), bytes)).collect(),
            headroom,
            ..Limits::default()
        }
    })
}

/// `limits` with the options of a suggestion, read as the command line would.
pub(crate) fn with_options(limits: &Limits, options: &str) -> Limits {
    let mut limits = limits.clone();
    let words: Vec<&str> = options.split(' ').collect();
    for pair in words.chunks(2) {
        let [name, value] = pair else { panic!("an option without a value: {options}") };
        let count = || Some(value.parse().expect("a count"));
        let size = |text: &str| parse_size(text).expect("a size");
        let of_device = |text: &str| {
            let (id, bytes) = text.split_once('=').expect("ID=SIZE");
            (id.to_owned(), size(bytes))
        };
        match *name {
            "--ctx-size" => limits.ctx_size = count(),
            "--parallel" => limits.parallel = count(),
            "--ubatch-size" => limits.ubatch = count(),
            "--prefix-cache" => limits.prefix_cache = Some(size(value)),
            "--memory-budget" => limits.memory_budget = Some(size(value)),
            "--headroom" => limits.headroom = Some(size(value)),
            "--device" => limits.devices.push(of_device(value)),
            "--expert-budget" => limits.expert_budgets.push(of_device(value)),
            "--stream-cache" if value.contains('=') => {
                let (id, bytes) = of_device(value);
                limits.stream_cache = Some(StreamCache { device: Some(id), bytes });
            }
            "--stream-cache" => {
                limits.stream_cache = Some(StreamCache { device: None, bytes: size(value) });
            }
            other => panic!("an unknown option {other} in {options}"),
        }
    }
    limits
}

/// Checks that each suggestion of a refusal fits, on the machine with the pools that it declares, and that one without
/// suggestions says that there is none: nothing short, with all memory and with the fewest slots on any device, fits then.
pub(crate) fn check_suggestions(
    needs: &ModelNeeds,
    machine: &Machine,
    limits: &Limits,
    refusal: &Refusal,
) -> Result<(), TestCaseError> {
    for change in &refusal.change {
        let changed = with_options(limits, change);
        let fits = plan(needs, &declared(machine, &changed), &changed).is_ok();
        prop_assert!(fits, "{change} for {refusal:?}");
    }
    if !refusal.change.is_empty() {
        return Ok(());
    }
    let last_words =
        ["nothing on this machine makes it fit", "it can only fit without", "can be placed"];
    prop_assert!(last_words.iter().any(|words| refusal.reason.contains(words)), "{refusal:?}");
    let nowhere = std::iter::once(None);
    let devices = machine.devices.iter().filter(|device| device.kind == "cpu");
    let caches = nowhere.chain(devices.map(|device| Some(device.id.clone())));
    for device in caches {
        let all = Limits {
            headroom: Some(0),
            disk_cache: limits.disk_cache,
            ranking: limits.ranking.clone(),
            stream_cache: device
                .map(|id| StreamCache { device: Some(id), bytes: refusal_floor(refusal) }),
            devices: limits.devices.iter().filter(|(id, _)| id == "cpu:2").cloned().collect(),
            ..crate::made_up::settings(refusal.attempt.ctx_size.clamp(1, 32), 1, 1)
        };
        prop_assert!(plan(needs, machine, &all).is_err(), "{all:?} for {refusal:?}");
    }
    Ok(())
}

/// Bytes of slots that any token of the model of a refusal finds room in.
fn refusal_floor(refusal: &Refusal) -> u64 {
    let tiers = &refusal.attempt.expert_tiers;
    refusal.attempt.experts.floor_slots.saturating_mul(tiers.slot_bytes).saturating_add(2 * MIB)
}

/// `machine` with the declared pools as large as `limits` say.
fn declared(machine: &Machine, limits: &Limits) -> Machine {
    let mut machine = machine.clone();
    let pools: Vec<Device> = machine.devices.extract_if(.., |device| device.is_declared).collect();
    for pool in pools {
        let asked = limits.devices.iter().rev().find(|(id, _)| *id == pool.id);
        machine.declare(&pool.id, asked.map_or(pool.total, |entry| entry.1)).expect("it was there");
    }
    machine
}

/// Models with up to 6 layers of experts of one size or two, some of less than a page and some of many.
pub(crate) fn expert_needs() -> impl Strategy<Value = ModelNeeds> {
    let sizes =
        (1..4u64, prop_oneof![Just(100 << 10), Just(700 << 10), Just(3 * MIB / 2), Just(12 * MIB)]);
    let counts = (1..6u32, 1..24u32, 1..5u32, any::<bool>());
    (sizes, counts, 0..8 * MIB).prop_map(|((larger, slot_bytes), counts, expert_staging_bytes)| {
        let (layers, experts, experts_used, is_mixed) = counts;
        let layer = |layer: u32| ExpertLayer {
            layer,
            n_experts: experts,
            n_used: experts_used,
            slot_bytes: if is_mixed && layer % 2 == 1 {
                slot_bytes * (larger + 2) / 3
            } else {
                slot_bytes
            },
        };
        let expert_layers: Vec<ExpertLayer> = (0..layers).map(layer).collect();
        let bytes = expert_layers.iter().map(|layer| layer.slot_bytes * u64::from(layer.n_experts));
        ModelNeeds {
            layers,
            experts,
            experts_used,
            expert_bytes: bytes.sum(),
            expert_layers,
            expert_staging_bytes,
            ..expert_model()
        }
    })
}

/// One device to three, of which some are part of the first, and of which one may not compute.
pub(crate) fn pools() -> impl Strategy<Value = Machine> {
    let size = || 0..400 * MIB;
    (100 * MIB..800 * MIB, option::of(size()), option::of(size()), any::<bool>()).prop_map(
        |(free, second, part, is_other)| {
            let mut machine = machine(16 * GIB, free);
            if let Some(free) = second {
                machine.devices.push(device(
                    "cpu:1",
                    if is_other { "npu" } else { "cpu" },
                    GIB,
                    free,
                ));
            }
            machine.devices.iter_mut().for_each(|device| device.headroom = Some(5 * MIB));
            if let Some(bytes) = part {
                machine.declare("cpu:2", bytes).expect("a new name");
            }
            machine
        },
    )
}

/// Options about experts for a model and a machine.
pub(crate) fn expert_limits(
    needs: &ModelNeeds,
    machine: &Machine,
) -> impl Strategy<Value = Limits> + use<> {
    let ids: Vec<String> = machine
        .devices
        .iter()
        .filter(|device| device.kind == "cpu")
        .map(|device| device.id.clone())
        .collect();
    let size = || option::weighted(0.3, 0..500 * MIB);
    let sizes = collection::vec(size(), ids.len());
    let cache = option::weighted(0.3, (option::of(0..ids.len()), 0..300 * MIB));
    let ranks = (any::<u64>(), collection::vec(any::<bool>(), 3));
    let caps = collection::vec(size(), ids.len());
    let needs = needs.clone();
    (sizes, cache, ranks, caps, size()).prop_map(
        move |(sizes, cache, ranks, caps, memory_budget)| {
            let of = |sizes: Vec<Option<u64>>| {
                let sizes = ids.iter().zip(sizes);
                sizes.filter_map(|(id, bytes)| Some((id.clone(), bytes?))).collect()
            };
            let stream_cache = cache.map(|(device, bytes)| StreamCache {
                device: device.map(|index| ids[index].clone()),
                bytes,
            });
            Limits {
                expert_budgets: of(sizes),
                devices: of(caps),
                stream_cache,
                memory_budget,
                ranking: ranking(&needs, ranks.0, &ranks.1),
                ..crate::made_up::settings(256, 1, 32)
            }
        },
    )
}

/// Ranking files by a seed, those of them that `is_given` says.
fn ranking(needs: &ModelNeeds, seed: u64, is_given: &[bool]) -> Ranking {
    let n = needs.layers * needs.experts;
    let random =
        |index: u32| seed.wrapping_add(u64::from(index)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60;
    let owners: Vec<&str> = (0..n)
        .map(|index| ["\"primary\"", "\"secondary\"", "\"stream\""][(random(index) % 3) as usize])
        .collect();
    let placement = format!("{{\"owners\": [{}]}}", owners.join(","));
    let id = |index: u32| (index / needs.experts, index % needs.experts);
    let line = |index| format!("{},{},{}\n", id(index).0, id(index).1, random(index + 7));
    let hotness: String = (0..n).map(line).collect();
    let protected = format!("{{\"0\": [{}]}}", needs.experts - 1);
    Ranking {
        placement: is_given[0].then(|| Placement::parse(&placement, needs).expect("one for each")),
        hotness: is_given[1].then(|| Hotness::parse(&hotness, needs).expect("well-formed")),
        protected: is_given[2].then(|| Protected::parse(&protected, needs).expect("the last one")),
    }
}
