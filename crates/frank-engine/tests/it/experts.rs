//! What the engine tells of a model's experts, and what the model may do while nobody waits.

use frank_engine::{Engine, EngineEvent, EngineOptions, Generation, Request, SamplingParams};
use frank_experts::StoreStatistics;
use frank_models::Model;
use frank_telemetry::Metrics;

use crate::script::{Controls, Script, wait_until};

const OPTIONS: EngineOptions =
    EngineOptions { n_ctx: 64, n_parallel: 2, n_queue: 2, prefix_cache: false };

fn request(token_id: u32) -> Request {
    let sampling = SamplingParams::greedy();
    Request { prompt: vec![token_id], max_tokens: 4, sampling, ..Request::default() }
}

fn wait(mut generation: Generation) {
    while let Some(event) = generation.next_blocking() {
        assert!(!matches!(event, EngineEvent::Failed(_)), "{event:?}");
    }
}

fn streamed() -> StoreStatistics {
    StoreStatistics {
        n_primary: 3,
        n_streamed: 9,
        n_slots: 4,
        slots_used: 2,
        slot_bytes: 512,
        primary_visits: 5,
        hits: 7,
        bytes_read: 1024,
        read_time: std::time::Duration::from_millis(250),
        demand_wait: std::time::Duration::from_millis(500),
        reread: 3,
        evictions: 1,
        prefetch_useful: 6,
        prefetch_wasted: 8,
        ..StoreStatistics::default()
    }
}

fn held() -> (Box<dyn Model>, Controls) {
    Script::model(16, true)
}

#[test]
fn metrics_and_callers_learn_after_a_step_what_the_store_has_done() {
    let (model, controls) = Script::model(16, false);
    controls.drive().experts = Some(streamed());
    let metrics = Metrics::new();
    let engine = Engine::start(model, OPTIONS, metrics.clone());
    assert_eq!(engine.expert_statistics(), Some(streamed()));
    wait(engine.submit(request(5)).expect("taken"));
    assert_eq!(engine.expert_statistics().expect("it has experts").misses, 4);
    let text = metrics.encode();
    for line in [
        "frank_experts{tier=\"primary\"} 3",
        "frank_experts_in_memory{tier=\"streamed\"} 2",
        "frank_expert_hits_total{tier=\"primary\"} 5",
        "frank_expert_hits_total{tier=\"streamed\"} 7",
        "frank_expert_misses_total{tier=\"streamed\"} 4",
        "frank_expert_read_bytes_total{tier=\"streamed\"} 1024",
        "frank_expert_read_seconds_total{tier=\"streamed\"} 0.25",
        "frank_expert_demand_wait_seconds_total 0.5",
        "frank_expert_rereads_total 3",
        "frank_expert_evictions_total 1",
        "frank_expert_prefetch_useful_total 6",
        "frank_expert_prefetch_wasted_total 8",
        "frank_expert_slots 4",
    ] {
        assert!(text.lines().any(|found| found == line), "no {line:?} in\n{text}");
    }
    assert!(!text.contains("tier=\"secondary\""), "no device has this tier:\n{text}");
}

#[test]
fn a_store_that_counts_less_than_before_lowers_no_counter() {
    let (model, controls) = Script::model(16, false);
    controls.drive().experts = Some(streamed());
    let metrics = Metrics::new();
    let engine = Engine::start(model, OPTIONS, metrics.clone());
    controls.drive().experts = Some(StoreStatistics { hits: 2, n_streamed: 9, ..streamed() });
    wait(engine.submit(request(5)).expect("taken"));
    let line = "frank_expert_hits_total{tier=\"streamed\"} 7\n";
    assert!(metrics.encode().contains(line), "{}", metrics.encode());
}

#[test]
fn a_model_without_experts_has_no_series_of_a_tier_and_zeros_elsewhere() {
    let (model, _) = Script::model(16, false);
    let metrics = Metrics::new();
    let engine = Engine::start(model, OPTIONS, metrics.clone());
    wait(engine.submit(request(5)).expect("taken"));
    let text = metrics.encode();
    assert!(!text.contains("tier="), "{text}");
    let series = text.lines().filter(|line| line.starts_with("frank_expert"));
    let values: Vec<_> =
        series.map(|line| line.rsplit_once(' ').expect("name and value").1).collect();
    assert!(values.len() > 5 && values.iter().all(|value| ["0", "0.0"].contains(value)), "{text}");
    assert_eq!((engine.expert_statistics(), engine.expert_usage()), (None, None));
}

#[test]
fn how_often_experts_were_chosen_is_known_when_a_request_has_ended() {
    let (model, controls) = Script::model(16, false);
    controls.drive().experts = Some(streamed());
    let engine = Engine::start(model, OPTIONS, Metrics::new());
    assert_eq!(engine.expert_usage(), Some(vec![0, 0]));
    // Tokens 6, 7, 8 and 9 are computed, in one step each.
    wait(engine.submit(request(6)).expect("taken"));
    assert_eq!(engine.expert_usage(), Some(vec![2, 2]));
    wait(engine.submit(Request { max_tokens: 1, ..request(6) }).expect("taken"));
    assert_eq!(engine.expert_usage(), Some(vec![3, 2]));
}

#[test]
fn work_ahead_is_done_piece_by_piece_until_there_is_none() {
    let (model, controls) = held();
    controls.add_work_ahead(3);
    let engine = Engine::start(model, OPTIONS, Metrics::new());
    controls.allow(3);
    wait_until("three pieces", || controls.drive().order == "iii");
    // Then the loop sleeps, and wakes for a request.
    let generation = engine.submit(request(5)).expect("taken");
    controls.allow(4);
    wait(generation);
    assert_eq!(controls.drive().order, "iiissss");
}

#[test]
fn a_request_waits_for_one_piece_of_work_ahead_and_no_more() {
    let (model, controls) = held();
    controls.add_work_ahead(100);
    let engine = Engine::start(model, OPTIONS, Metrics::new());
    controls.allow(1);
    wait_until("the first piece", || controls.drive().order == "i");
    // The second piece is under way, or about to be, and the request comes before the third.
    let generation = engine.submit(request(5)).expect("taken");
    controls.allow(1000);
    wait(generation);
    let order = controls.drive().order.clone();
    assert!(order.starts_with("issss") || order.starts_with("iissss"), "{order}");
}

#[test]
fn an_engine_ends_with_work_ahead_left() {
    let (model, controls) = held();
    controls.add_work_ahead(usize::MAX);
    let engine = Engine::start(model, OPTIONS, Metrics::new());
    controls.allow(5);
    drop(controls);
    engine.shutdown();
}
