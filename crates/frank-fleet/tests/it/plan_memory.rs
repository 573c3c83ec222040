//! Whether all endpoints of a host fit together.

use frank_fleet::MemoryVerdict;
use frank_plan::{ExpertLayer, LayerState, ModelNeeds};

use crate::given::{GIB, Given, card, needs};

/// A fleet of one host whose endpoints have these lines beside what every endpoint has.
fn fleet(host: &str, endpoints: &[&str]) -> String {
    let mut text =
        format!("[hosts.box]\nssh = \"local\"\n{host}\n[models.m]\npayload = \"hf:o/m\"\n");
    for (index, lines) in endpoints.iter().enumerate() {
        let port = 7000 + index;
        text.push_str(&format!(
            "[endpoints.e{index}]\nhost = \"box\"\nport = {port}\nalias = \"a\"\nmodel = \"m\"\ntarget = \"files\"\n{lines}\n"
        ));
    }
    text
}

fn verdict(given: &Given) -> MemoryVerdict {
    given.plan().hosts[0].memory.clone().expect("the host is known")
}

/// Given such endpoints, which all serve a model with these needs.
fn given(host: &str, endpoints: &[&str], needs: &ModelNeeds) -> Given {
    let mut given = Given::new(&fleet(host, endpoints));
    let names = given.fleet.file.endpoints.keys().cloned();
    given.needs = names.map(|name| (name, needs.clone())).collect();
    given.facts.get_mut("box").unwrap().ram_free = 128 * GIB;
    given
}

#[test]
fn weights_and_full_contexts_of_all_slots_are_estimated_and_said_to_be_an_estimate() {
    let one = "runtime = \"llama.cpp\"\ncontext = 1024\nslots = 4";
    let given = given("headroom = \"0GiB\"", &[one], &needs(10 * GIB, 16));
    let told = verdict(&given);
    // 16 layers of 1 MiB for each of 4 contexts, and 1 GiB of buffers.
    let bytes = 10 * GIB + 16 * 4 * (1 << 20) + GIB;
    let memory = &told.devices[0];
    assert_eq!((memory.uses[0].bytes, memory.uses[0].is_estimate), (bytes, true));
    assert_eq!(memory.left, 128 * GIB - bytes);
    assert!(told.fits);
}

#[test]
fn endpoints_that_fit_alone_do_not_fit_together() {
    let one = "runtime = \"llama.cpp\"\ncontext = 1024";
    let alone = given("", &[one], &needs(70 * GIB, 16));
    assert!(verdict(&alone).fits);
    let both = given("", &[one, one], &needs(70 * GIB, 16));
    let plan = both.plan();
    let fault = plan.faults().find(|fault| fault.code == "does_not_fit").unwrap();
    assert!(fault.message.contains("cpu:0 is short by"), "{}", fault.message);
    assert_eq!(plan.hosts[0].next_generation, None);
    insta::assert_snapshot!(plan.hosts[0].memory.clone().unwrap().to_string());
}

/// V13: an integrated card that holds 92.6 GiB of the host's memory leaves too little for the others.
#[test]
fn what_an_integrated_card_borrows_is_gone_from_its_host() {
    let card_line = "runtime = \"llama.cpp\"\ncontext = 1024\ndevices = [\"rocm:0\"]";
    let host_line = "runtime = \"llama.cpp\"\ncontext = 1024\ndevices = [\"cpu:0\"]";
    let mut one = given("headroom = \"2GiB\"", &[card_line], &needs(91 * GIB, 16));
    let give = |given: &mut Given| {
        let facts = given.facts.get_mut("box").unwrap();
        (facts.ram, facts.ram_free) = (121 * GIB, 121 * GIB);
        let mut device = card("rocm:0", GIB / 2);
        device.shared = Some(114 * GIB);
        facts.devices = vec![device];
    };
    give(&mut one);
    let told = verdict(&one);
    assert!(told.fits, "{told}");
    assert_eq!(told.devices[1].total, 114 * GIB);
    let mut both = given("headroom = \"2GiB\"", &[card_line, host_line], &needs(91 * GIB, 16));
    both.needs.insert("e1".to_owned(), needs(30 * GIB, 16));
    give(&mut both);
    assert!(!verdict(&both).fits);
}

/// D25: 40 GiB do not fit on one of two cards of 24 GiB, and do when they are split.
#[test]
fn the_verdict_is_for_each_card_and_says_to_split() {
    let mut one = given(
        "",
        &["runtime = \"llama.cpp\"\ncontext = 1024\noptions = { split-mode = \"none\" }"],
        &needs(40 * GIB, 40),
    );
    let cards = vec![card("cuda:0", 24 * GIB), card("cuda:1", 24 * GIB)];
    one.facts.get_mut("box").unwrap().devices.clone_from(&cards);
    let plan = one.plan();
    let fault = plan.faults().find(|fault| fault.code == "does_not_fit").unwrap();
    assert!(fault.message.starts_with("cuda:0 is short by"), "{}", fault.message);
    assert!(fault.hint.as_ref().unwrap().contains("split"), "{:?}", fault.hint);
    let mut split = given("", &["runtime = \"llama.cpp\"\ncontext = 1024"], &needs(40 * GIB, 40));
    split.facts.get_mut("box").unwrap().devices.clone_from(&cards);
    let told = verdict(&split);
    assert!(told.fits, "{told}");
    let held: Vec<u64> = told.devices[1..].iter().map(|it| it.uses[0].bytes / GIB).collect();
    assert_eq!(held, [21, 20]);
    let mut vllm = given("", &["runtime = \"vllm\"\ncontext = 1024"], &needs(40 * GIB, 40));
    vllm.facts.get_mut("box").unwrap().devices.clone_from(&cards);
    let plan = vllm.plan();
    let fault = plan.faults().find(|fault| fault.code == "does_not_fit").unwrap();
    assert!(fault.hint.as_ref().unwrap().contains("tensor-parallel-size"), "{:?}", fault.hint);
}

/// Layers 0..=35 of 65 of 66 slots lie on the first card of 36:29, as in V2.
#[test]
fn a_split_goes_by_whole_layers_as_the_loader_does_it() {
    let line = "runtime = \"llama.cpp\"\ncontext = 1024\noptions = { tensor-split = \"36,29\" }";
    let mut model = needs(66 * GIB, 65);
    model.state = vec![LayerState::Paged { bytes_per_token: 0, window: None }; 65];
    let mut given = given("", &[line], &model);
    given.facts.get_mut("box").unwrap().devices =
        vec![card("rocm:0", 80 * GIB), card("rocm:1", 80 * GIB)];
    let told = verdict(&given);
    let held: Vec<u64> = told.devices[1..].iter().map(|it| it.uses[0].bytes / GIB).collect();
    // 36/65 of 66 slots begin before 36.55: 37 of them, and 29 for the other; 1 GiB of buffers each.
    assert_eq!(held, [38, 30]);
}

#[test]
fn keys_and_values_of_fewer_bits_and_windows_take_less() {
    let held = |options: &str, state: LayerState| {
        let line = format!("runtime = \"llama.cpp\"\ncontext = 8192\noptions = {{ {options} }}");
        let mut model = needs(GIB, 1);
        model.state = vec![state];
        verdict(&given("", &[&line], &model)).devices[0].uses[0].bytes - 2 * GIB
    };
    let full = LayerState::Paged { bytes_per_token: 32 << 10, window: None };
    assert_eq!(held("", full), 8192 * (32 << 10));
    assert_eq!(held("cache-type-k = \"q8_0\", cache-type-v = \"q8_0\"", full), 8192 * (17 << 10));
    let window = LayerState::Paged { bytes_per_token: 32 << 10, window: Some(1024) };
    assert_eq!(held("", window), 1024 * (32 << 10));
}

#[test]
fn experts_that_stay_with_the_host_are_counted_there() {
    let mut model = needs(40 * GIB, 10);
    (model.expert_bytes, model.dense_bytes) = (30 * GIB, 10 * GIB);
    let line = "runtime = \"llama.cpp\"\ncontext = 1024\noptions = { cpu-moe = true }";
    let mut given = given("", &[line], &model);
    given.facts.get_mut("box").unwrap().devices = vec![card("cuda:0", 24 * GIB)];
    let told = verdict(&given);
    assert_eq!(told.devices[0].uses[0].bytes, 30 * GIB);
    assert!(told.fits && told.devices[1].uses[0].bytes < 12 * GIB, "{told}");
}

#[test]
fn frank_is_planned_and_not_estimated_and_makes_do_with_the_rest() {
    let dense = ["runtime = \"frank\"\ncontext = 1024\nslots = 1"];
    let told = verdict(&given("", &dense, &needs(10 * GIB, 16)));
    let held = &told.devices[0].uses[0];
    assert!(!held.is_estimate && held.bytes >= 10 * GIB && held.bytes < 11 * GIB, "{told}");
    let refused = given(
        "",
        &["runtime = \"frank\"\ncontext = 1024\nmemory-budget = \"4GiB\""],
        &needs(10 * GIB, 16),
    );
    let plan = refused.plan();
    let fault = plan.faults().find(|fault| fault.code == "does_not_fit").unwrap();
    assert_eq!(fault.place, "endpoints.e0");
    // A mixture without a budget takes what others leave of the host.
    let mut mixture = needs(200 * GIB, 10);
    (mixture.dense_bytes, mixture.expert_bytes) = (10 * GIB, 190 * GIB);
    (mixture.experts, mixture.experts_used) = (64, 8);
    let layer =
        |layer| ExpertLayer { layer, n_experts: 64, n_used: 8, slot_bytes: 190 * GIB / 640 };
    mixture.expert_layers = (0..10).map(layer).collect();
    let lines = ["runtime = \"frank\"\ncontext = 1024", "runtime = \"llama.cpp\"\ncontext = 1024"];
    let mut both = given("", &lines, &mixture);
    both.needs.insert("e1".to_owned(), needs(60 * GIB, 10));
    let told = verdict(&both);
    assert!(told.fits, "{told}");
    let bytes: Vec<u64> = told.devices[0].uses.iter().map(|it| it.bytes / GIB).collect();
    assert!(bytes[0] == 61 && bytes[1] > 60 && bytes[1] < 67, "{told}");
}

#[test]
fn what_others_hold_is_not_planned_twice() {
    let line = "runtime = \"llama.cpp\"\ncontext = 1024";
    let mut given = given("", &[line], &needs(10 * GIB, 16));
    given.facts.get_mut("box").unwrap().ram_free = 100 * GIB;
    assert_eq!(verdict(&given).devices[0].others, 28 * GIB);
    // What is applied holds what it was planned to hold, and that is not somebody else's.
    let mut applied = frank_fleet::Generation { format: 1, number: 1, ..Default::default() };
    let mut endpoint = frank_fleet::AppliedEndpoint::default();
    endpoint.memory.insert("cpu:0".to_owned(), 11 * GIB);
    applied.endpoints.insert("e0".to_owned(), endpoint);
    given.applied.insert("box".to_owned(), applied);
    assert_eq!(verdict(&given).devices[0].others, 17 * GIB);
}

#[test]
fn what_nobody_can_tell_is_said_and_is_not_refused() {
    let mut given = given("", &["runtime = \"command\"", "runtime = \"plain\""], &needs(GIB, 1));
    given.needs.clear();
    let plan = given.plan();
    let told = plan.hosts[0].memory.clone().unwrap();
    assert_eq!(told.unknown, ["e0", "e1"]);
    assert!(told.fits);
    let codes: Vec<&str> = plan.faults().map(|fault| fault.code).collect();
    assert!(codes.contains(&"memory_unknown"), "{codes:?}");
}

#[test]
fn headroom_of_a_card_is_what_the_file_says() {
    let host = "[[hosts.box.devices]]\nid = \"cuda:0\"\nheadroom = \"1536MiB\"";
    let line = "runtime = \"llama.cpp\"\ncontext = 1024";
    let fits = |bytes| {
        let mut given = given(host, &[line], &needs(bytes, 1));
        given.facts.get_mut("box").unwrap().devices = vec![card("cuda:0", 24 * GIB)];
        verdict(&given).fits
    };
    // Beside 1 GiB of buffers, 1 MiB of keys and values and 1.5 GiB of headroom.
    assert!(fits(21 * GIB));
    assert!(!fits(21 * GIB + GIB / 2));
}
