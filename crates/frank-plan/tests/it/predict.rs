//! Speed that a plan lets expect: from measured rates, and never without.

use frank_plan::{
    Bound, LayerState, Limits, Machine, ModelNeeds, Prediction, PromptWork, decode_step_bytes, plan,
};

use crate::made_up::{GIB, MIB, dense_model, machine};

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
