//! Requests that share the steps of a script, submitted before the first one, and all that each of them gets.

use frank_engine::{
    CacheScope, Engine, EngineEvent, EngineOptions, Generation, Request, SamplingParams,
};
use frank_telemetry::Metrics;

use crate::script::{Controls, RECALL, Script, group};

/// An engine for four requests whose steps are held.
pub(crate) fn start() -> (Engine, Controls) {
    let options = EngineOptions { n_ctx: 128, n_parallel: 4, n_queue: 4, prefix_cache: true };
    let (model, controls) = Script::with_groups(64, true, vec![group(None, 16)]);
    (Engine::start(model, options, Metrics::new()), controls)
}

/// A greedy request for 12 tokens.
pub(crate) fn request(prompt: Vec<u32>) -> Request {
    Request {
        prompt,
        max_tokens: 12,
        sampling: SamplingParams::greedy(),
        cache_scope: Some(CacheScope([0; 32])),
        ..Request::default()
    }
}

/// Two requests whose answers say what they found in the cache.
pub(crate) fn mates() -> Vec<Request> {
    vec![request(vec![RECALL + 1; 50]), request(vec![RECALL + 2; 7])]
}

/// All that a request gets.
pub(crate) fn events(mut generation: Generation) -> Vec<EngineEvent> {
    std::iter::from_fn(|| generation.next_blocking()).collect()
}

/// Submits these requests before the next step and lets it all run.
pub(crate) fn together(
    engine: &Engine,
    controls: &Controls,
    requests: Vec<Request>,
) -> Vec<Vec<EngineEvent>> {
    let taken = submitted(engine, requests);
    controls.allow(1000);
    taken.into_iter().map(events).collect()
}

/// Takes these requests.
pub(crate) fn submitted(engine: &Engine, requests: Vec<Request>) -> Vec<Generation> {
    requests.into_iter().map(|request| engine.submit(request).expect("taken")).collect()
}

/// Nothing runs, and nothing is left of what ran.
pub(crate) fn assert_idle(engine: &Engine) {
    assert_eq!((engine.stats().running, engine.stats().kv_blocks_used), (0, 0));
}
