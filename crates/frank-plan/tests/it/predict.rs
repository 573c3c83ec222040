//! Speed that a plan lets expect: from measured rates, and never without.

use frank_plan::{
    Bound, Drive, Hotness, LayerState, Limits, Machine, ModelNeeds, Plan, Prediction, PromptWork,
    Ranking, StreamCache, decode_step_bytes, plan,
};

use crate::made_up::{GIB, MIB, dense_model, device, expert_model, machine, settings};

const BANDWIDTH: u64 = 40_000_000_000;
const ARITHMETIC: u64 = 200_000_000_000;

fn measured(bandwidth: Option<u64>, arithmetic: Option<u64>) -> Machine {
    let mut machine = machine(64 * GIB, 64 * GIB);
    machine.devices[0].bandwidth = bandwidth;
    machine.devices[0].arithmetic = arithmetic;
    machine
}

fn predict(needs: &ModelNeeds, machine: &Machine, ctx_size: u32) -> Prediction {
    let limits = Limits { ctx_size: Some(ctx_size), ..Limits::default() };
    plan(needs, machine, &limits).expect("fits").predict
}

/// A model of so many bytes of weights that nothing else takes time.
fn large_model() -> ModelNeeds {
    ModelNeeds { decode_bytes_per_token: 20 * GIB, ..dense_model() }
}

#[test]
fn each_speed_needs_its_own_measurement() {
    let speeds = |bandwidth, arithmetic| {
        let predict = predict(&dense_model(), &measured(bandwidth, arithmetic), 4096);
        (predict.decode_tok_s.is_some(), predict.prefill_tok_s.is_some(), predict.bound)
    };
    assert_eq!(speeds(None, None), (false, false, None));
    assert_eq!(speeds(Some(BANDWIDTH), None), (true, false, Some(Bound::Dram)));
    assert_eq!(speeds(None, Some(ARITHMETIC)), (false, true, None));
    assert_eq!(speeds(Some(0), Some(0)), (false, false, None));
}

#[test]
fn a_large_model_decodes_at_the_bandwidth() {
    let machine = measured(Some(BANDWIDTH), None);
    let got = predict(&large_model(), &machine, 2).decode_tok_s.expect("a number");
    let bound = BANDWIDTH as f64 / (20 * GIB) as f64;
    assert!(got < bound && got > 0.99 * bound, "{got} of {bound}");
}

#[test]
fn a_small_model_is_slower_than_the_bandwidth_allows_for_every_layer_takes_its_time() {
    let machine = measured(Some(BANDWIDTH), None);
    let share = |decode_bytes_per_token: u64| {
        let needs = ModelNeeds { decode_bytes_per_token, ..dense_model() };
        let got = predict(&needs, &machine, 2).decode_tok_s.expect("a number");
        got * decode_bytes_per_token as f64 / BANDWIDTH as f64
    };
    assert!(share(MIB) < share(100 * MIB) && share(100 * MIB) < 1.0);
    let tiny = ModelNeeds { decode_bytes_per_token: 1000, ..dense_model() };
    assert_eq!(predict(&tiny, &machine, 2).bound, Some(Bound::Compute));
}

#[test]
fn a_longer_context_is_slower_and_a_window_bounds_that() {
    let machine = measured(Some(BANDWIDTH), Some(ARITHMETIC));
    let windowed = ModelNeeds {
        state: vec![LayerState::Paged { bytes_per_token: 768, window: Some(64) }; 30],
        ..dense_model()
    };
    let decode =
        |needs: &ModelNeeds, ctx_size| predict(needs, &machine, ctx_size).decode_tok_s.unwrap();
    assert!(decode(&dense_model(), 8000) < decode(&dense_model(), 200));
    assert!(decode(&windowed, 8000) > decode(&dense_model(), 8000));
    assert!(decode(&windowed, 8000).to_bits() == decode(&windowed, 200).to_bits());
    let prefill =
        |needs: &ModelNeeds, ctx_size| predict(needs, &machine, ctx_size).prefill_tok_s.unwrap();
    assert!(prefill(&dense_model(), 512) < prefill(&dense_model(), 16));
    assert!(prefill(&windowed, 512) > prefill(&dense_model(), 512));
    assert!(prefill(&dense_model(), 512).to_bits() == prefill(&dense_model(), 4096).to_bits());
}

#[test]
fn a_model_whose_work_is_unknown_has_no_speed_of_reading_a_prompt() {
    let unknown = ModelNeeds { prompt: PromptWork::default(), ..dense_model() };
    let predict = predict(&unknown, &measured(Some(BANDWIDTH), Some(ARITHMETIC)), 512);
    assert!(predict.prefill_tok_s.is_none() && predict.decode_tok_s.is_some(), "{predict:?}");
}

#[test]
fn streams_share_the_weights_of_a_step_and_not_their_keys_and_values() {
    let (weights, token) = (90 * MIB, 30 * 768);
    assert_eq!(decode_step_bytes(&dense_model(), 100, 1), weights + 100 * token);
    assert_eq!(decode_step_bytes(&dense_model(), 100, 4), weights + 400 * token);
    let absurd = ModelNeeds {
        state: vec![LayerState::Paged { bytes_per_token: u64::MAX, window: None }; 3],
        ..dense_model()
    };
    assert_eq!(decode_step_bytes(&absurd, u32::MAX, u32::MAX), u64::MAX);
}

/// A drive that gives so many bytes a second.
fn drive(bandwidth: Option<u64>) -> Vec<Drive> {
    vec![Drive { path: "/".to_owned(), bandwidth }]
}

/// Seconds for a token.
fn seconds(speed: Option<f64>) -> f64 {
    1.0 / speed.expect("a number")
}

/// Of a model with experts on a machine whose rates are known: where all are resident, what a token of an answer and one
/// of a prompt take.
fn resident_seconds() -> [f64; 2] {
    let machine = measured(Some(BANDWIDTH), Some(ARITHMETIC));
    let predict = plan(&expert_model(), &machine, &settings(512, 1, 256)).expect("fits").predict;
    [seconds(predict.decode_tok_s), seconds(predict.prefill_tok_s)]
}

#[test]
fn streamed_experts_need_the_bandwidth_of_the_drive_and_of_each_device_that_holds_some() {
    let speeds = |bandwidth: Option<u64>, second: Option<u64>| {
        let mut machine = measured(Some(BANDWIDTH), Some(ARITHMETIC));
        machine.devices.push(device("cpu:1", "cpu", GIB, GIB));
        machine.devices[1].bandwidth = second;
        machine.drives = drive(bandwidth);
        let budgets = ["cpu:0", "cpu:1"].map(|id| (id.to_owned(), 40 * MIB));
        let cache = StreamCache { device: None, bytes: 60 * MIB };
        let limits = Limits {
            expert_budgets: budgets.to_vec(),
            stream_cache: Some(cache),
            ..settings(512, 1, 256)
        };
        plan(&expert_model(), &machine, &limits).expect("fits").predict
    };
    let both = speeds(Some(3_000_000_000), Some(BANDWIDTH));
    assert_eq!(both.bound, Some(Bound::Nvme));
    // 80 experts are resident, and 60 of the other 160 have a slot. What is read longest counts whole, and the part of the
    // rest that does not run beside it.
    let [decode, prefill] = resident_seconds();
    let missed = (160.0 / 240.0) * (100.0 / 160.0) * (60 * MIB) as f64 / 3e9;
    assert!(missed > decode, "{missed} {decode}");
    let got = seconds(both.decode_tok_s);
    assert!((got - missed - 0.4 * decode).abs() < 1e-9, "{got}, {missed} and {decode}");
    // A step of 256 rows of a prompt reads every expert that has no slot, once.
    let read = (100 * MIB) as f64 / 3e9 / 256.0;
    assert!(read < prefill, "{read} {prefill}");
    let got = seconds(both.prefill_tok_s);
    assert!((got - prefill - 0.4 * read).abs() < 1e-9, "{got}, {prefill} and {read}");
    let no_drive = speeds(None, Some(BANDWIDTH));
    assert_eq!((no_drive.decode_tok_s, no_drive.prefill_tok_s, no_drive.bound), (None, None, None));
    let no_second = speeds(Some(3_000_000_000), None);
    assert!(no_second.decode_tok_s.is_none() && no_second.prefill_tok_s.is_some());
}

/// A plan with 120 slots for 240 streamed experts, 4 for each layer of 8.
fn streamed(machine: &Machine, ranking: Ranking) -> Plan {
    let limits = Limits {
        stream_cache: Some(StreamCache { device: None, bytes: 120 * MIB }),
        expert_budgets: vec![("cpu:0".to_owned(), 0)],
        ranking,
        ..settings(512, 1, 256)
    };
    plan(&expert_model(), machine, &limits).expect("fits")
}

/// A machine with a drive so slow that nothing else counts for much.
fn slow_drive() -> Machine {
    let drives = drive(Some(1_000_000));
    Machine { drives, ..measured(Some(BANDWIDTH), Some(ARITHMETIC)) }
}

/// Bytes that `plan` expects to be read from that drive for a token of an answer.
fn missed(plan: &mut Plan, usage: Option<&Hotness>) -> f64 {
    plan.predict_on(&expert_model(), &slow_drive(), usage);
    let [rest, _] = resident_seconds();
    1e6 * (seconds(plan.predict.decode_tok_s) - 0.4 * rest)
}

#[test]
fn a_speed_is_predicted_when_the_drive_was_measured_after_the_plan_was_made() {
    let mut plan = streamed(&measured(Some(BANDWIDTH), Some(ARITHMETIC)), Ranking::default());
    assert_eq!(plan.predict, Prediction::default());
    let half = (30 * MIB) as f64;
    let got = missed(&mut plan, None);
    assert!((got - half).abs() < 1.0, "{got} of {half}");
    assert_eq!(plan.predict, streamed(&slow_drive(), Ranking::default()).predict);
    assert_eq!(plan.predict.bound, Some(Bound::Nvme));
}

#[test]
fn experts_that_are_known_to_be_chosen_most_are_expected_in_the_slots() {
    let usage = |hot: u64| {
        let counts = (0..240).map(|at| if at % 8 < 4 { hot } else { 0 });
        Hotness::of_counts(&counts.collect::<Vec<_>>(), 8)
    };
    let mut plan = streamed(&slow_drive(), Ranking::default());
    let even = missed(&mut plan, None);
    let mut share = |hot| missed(&mut plan, Some(&usage(hot))) / even;
    assert!((share(0) - 1.0).abs() < 1e-6, "{}", share(0));
    // Each counts once more than it was chosen, so those without a slot are one in eleven choices and not one in two.
    assert!((share(9) - 2.0 / 11.0).abs() < 1e-6, "{}", share(9));
    let ranking = Ranking { hotness: Some(usage(9)), ..Ranking::default() };
    assert_eq!(plan.predict, streamed(&slow_drive(), ranking).predict);
}
