//! Requests from submission to their last event.

use frank_engine::{
    Engine, EngineEvent, EngineOptions, FinishReason, Generation, Health, Request, SamplingParams,
    SubmitError, Token, Usage,
};
use frank_models::{Batch, KvGroup, Model, StepError};
use frank_telemetry::Metrics;

use crate::script::{N_VOCAB, POISON, Script, group, wait_until};

const OPTIONS: EngineOptions =
    EngineOptions { n_ctx: 64, n_parallel: 4, n_queue: 2, prefix_cache: true };

fn start(model: Box<dyn Model>) -> Engine {
    Engine::start(model, OPTIONS, Metrics::new())
}

fn request(prompt: &[u32], max_tokens: usize) -> Request {
    Request {
        prompt: prompt.to_vec(),
        max_tokens,
        sampling: SamplingParams::greedy(),
        ..Request::default()
    }
}

/// What comes after the request has got its place.
fn next(generation: &mut Generation) -> Option<EngineEvent> {
    let event = generation.next_blocking();
    let is_start = matches!(event, Some(EngineEvent::Started { .. }));
    if is_start { generation.next_blocking() } else { event }
}

fn events(mut generation: Generation) -> Vec<EngineEvent> {
    std::iter::from_fn(|| next(&mut generation)).collect()
}

fn token(token_id: u32) -> EngineEvent {
    EngineEvent::Token(Token::plain(token_id))
}

fn tokens(n: std::ops::Range<u32>) -> Vec<EngineEvent> {
    n.map(token).collect()
}

fn finished(reason: FinishReason, prompt_tokens: usize, completion_tokens: usize) -> EngineEvent {
    EngineEvent::Finished(reason, Usage { prompt_tokens, cached_tokens: 0, completion_tokens })
}

#[test]
fn an_answer_ends_at_max_tokens_and_counts_them() {
    let (model, _) = Script::model(16, false);
    let got = events(start(model).submit(request(&[5, 6, 7], 3)).expect("taken"));
    assert_eq!(got, [tokens(8..11), vec![finished(FinishReason::Length, 3, 3)]].concat());
}

#[test]
fn an_end_token_ends_the_answer_and_is_not_sent() {
    let (model, _) = Script::model(16, false);
    let request = Request { end_tokens: vec![999, 10], ..request(&[7], 60) };
    let got = events(start(model).submit(request).expect("taken"));
    assert_eq!(got, [tokens(8..10), vec![finished(FinishReason::Stop, 1, 2)]].concat());
}

#[test]
fn max_tokens_is_clamped_to_what_the_context_leaves() {
    let (model, _) = Script::model(16, false);
    let got = events(start(model).submit(request(&[1; 60], usize::MAX)).expect("taken"));
    assert_eq!(got.last(), Some(&finished(FinishReason::Length, 60, 4)));
}

#[test]
fn requests_decode_together_in_one_step() {
    let (model, controls) = Script::model(16, true);
    let engine = start(model);
    let first = engine.submit(request(&[100], 4)).expect("taken");
    let second = engine.submit(request(&[200, 201], 4)).expect("taken");
    controls.allow(20);
    assert_eq!(events(first)[..4], tokens(101..105));
    assert_eq!(events(second)[..4], tokens(202..206));
    let steps = controls.steps.lock().expect("no panic");
    assert!(steps.iter().any(|step| step.n_outputs == 2), "no step had rows of both: {steps:?}");
}

#[test]
fn a_long_prompt_is_read_in_chunks_and_does_not_stall_a_running_answer() {
    let (model, controls) = Script::model(8, true);
    let engine = start(model);
    let mut running = engine.submit(request(&[100], 30)).expect("taken");
    controls.allow(1);
    assert_eq!(next(&mut running), Some(token(101)));
    let prompt: Vec<u32> = (300..340).collect();
    let long = engine.submit(request(&prompt, 2)).expect("taken");
    controls.allow(40);
    assert_eq!(events(long)[..2], tokens(340..342));
    drop(running);
    let steps = controls.steps.lock().expect("no panic");
    let reading: Vec<_> =
        steps.iter().filter(|s| s.token_ids.iter().any(|t| (300..340).contains(t))).collect();
    assert!(reading.len() >= 6, "40 tokens in chunks of at most 7 beside one decode row");
    assert!(reading.iter().all(|s| s.token_ids.len() <= 8 && s.positions[0] > 0), "{reading:?}");
}

#[test]
fn a_client_that_leaves_frees_its_place_within_one_step() {
    let (model, controls) = Script::model(8, true);
    let engine = start(model);
    let mut generation = engine.submit(request(&[1], 50)).expect("taken");
    controls.allow(2);
    assert_eq!(next(&mut generation), Some(token(2)));
    wait_until("the second step", || engine.stats().steps == 2);
    drop(generation);
    // The third step had begun; after it the request is gone.
    controls.allow(1);
    wait_until("the release", || engine.stats().running == 0);
    assert_eq!((engine.stats().steps, engine.stats().kv_blocks_used), (3, 0));
}

#[test]
fn a_client_that_leaves_during_its_prompt_frees_its_place_within_one_step() {
    let (model, controls) = Script::model(8, true);
    let engine = start(model);
    let generation = engine.submit(request(&[1; 60], 4)).expect("taken");
    controls.allow(1);
    wait_until("the first chunk", || engine.stats().steps == 1);
    drop(generation);
    controls.allow(1);
    wait_until("the release", || engine.stats().running == 0);
    assert_eq!((engine.stats().steps, engine.stats().kv_blocks_used), (2, 0));
}

#[test]
fn a_queued_request_whose_client_left_is_never_computed() {
    let (model, controls) = Script::model(8, true);
    let engine = start(model);
    let running: Vec<_> =
        (0..4).map(|i| engine.submit(request(&[10 * i], 2)).expect("taken")).collect();
    wait_until("four running", || engine.stats().running == 4);
    let queued = engine.submit(request(&[500], 2)).expect("queued");
    assert_eq!(engine.stats().waiting, 1);
    drop(queued);
    controls.allow(50);
    for generation in running {
        assert_eq!(events(generation).len(), 3);
    }
    engine.shutdown();
    let steps = controls.steps.lock().expect("no panic");
    assert!(steps.iter().all(|step| !step.token_ids.contains(&500)));
}

#[test]
fn a_full_queue_refuses_and_the_others_finish() {
    let (model, controls) = Script::model(8, true);
    let engine = start(model);
    // Together these want more than the KV cache holds; each waits for its place and none dies.
    let taken: Vec<_> =
        (0..6).map(|_| engine.submit(request(&[1; 40], 20)).expect("taken")).collect();
    wait_until("four running", || engine.stats().running == 4);
    assert_eq!(engine.submit(request(&[1], 1)).err(), Some(SubmitError::QueueFull { limit: 2 }));
    controls.allow(1000);
    for generation in taken {
        assert_eq!(events(generation).last(), Some(&finished(FinishReason::Length, 40, 20)));
    }
}

#[test]
fn who_has_seen_an_answer_end_finds_its_place_free() {
    let (model, _) = Script::model(16, false);
    let engine = start(model);
    for _ in 0..200 {
        assert_eq!(events(engine.submit(request(&[5, 6, 7], 3)).expect("taken")).len(), 4);
        let stats = engine.stats();
        assert_eq!((stats.running, stats.kv_blocks_used), (0, 0));
    }
}

#[test]
fn impossible_requests_are_refused_with_their_numbers() {
    let (model, _) = Script::model(8, false);
    let engine = start(model);
    let check = |request: Request, expected: SubmitError| {
        assert_eq!(engine.submit(request).err(), Some(expected))
    };
    check(request(&[], 1), SubmitError::EmptyPrompt);
    check(request(&[1], 0), SubmitError::NoTokens);
    check(request(&[1; 64], 1), SubmitError::PromptTooLong { n_prompt: 64, n_ctx: 64 });
    check(request(&[1, 1000], 1), SubmitError::UnknownToken { token_id: 1000, n_vocab: N_VOCAB });
    assert_eq!(
        events(engine.submit(request(&[1; 63], 1)).expect("fits to the last token")).len(),
        2
    );
}

#[test]
fn shutdown_lets_running_and_waiting_answers_end_and_takes_no_new_one() {
    let (model, controls) = Script::model(8, true);
    let engine = start(model);
    let taken: Vec<_> = (0..5).map(|i| engine.submit(request(&[i], 3)).expect("taken")).collect();
    let ending = {
        let engine = engine.clone();
        std::thread::spawn(move || engine.shutdown())
    };
    wait_until("the end of intake", || engine.health() == Health::Stopped);
    assert_eq!(engine.submit(request(&[1], 1)).err(), Some(SubmitError::ShuttingDown));
    controls.allow(100);
    ending.join().expect("shutdown returns");
    for generation in taken {
        assert_eq!(events(generation).len(), 4);
    }
}

#[test]
fn a_panic_in_a_step_ends_its_requests_and_the_engine_answers_the_next() {
    let (model, _) = Script::model(8, false);
    let engine = start(model);
    let got = events(engine.submit(request(&[POISON], 5)).expect("taken"));
    assert_eq!(got, [EngineEvent::Failed("a step failed: the poisoned token".to_owned())]);
    assert_eq!(events(engine.submit(request(&[1], 2)).expect("taken"))[..2], tokens(2..4));
    assert_eq!(engine.health(), Health::Ok);
}

#[test]
fn a_seed_gives_the_same_answer_whatever_runs_beside_it() {
    let seeded = || Request {
        sampling: SamplingParams { seed: Some(11), temperature: 30.0, ..SamplingParams::default() },
        ..request(&[42], 20)
    };
    let (model, _) = Script::model(16, false);
    let alone = events(start(model).submit(seeded()).expect("taken"));
    let (model, _) = Script::model(16, false);
    let engine = start(model);
    let noise = || Request { sampling: SamplingParams::default(), ..request(&[1], 30) };
    let _mates: Vec<_> = (0..3).map(|_| engine.submit(noise()).expect("taken")).collect();
    assert_eq!(events(engine.submit(seeded()).expect("taken")), alone);
}

#[test]
fn counts_reach_the_metrics() {
    let (model, _) = Script::model(8, false);
    let metrics = Metrics::new();
    let engine = Engine::start(model, OPTIONS, metrics.clone());
    let request = Request { end_tokens: vec![30], ..request(&[21; 11], 60) };
    assert_eq!(events(engine.submit(request).expect("taken")).len(), 9);
    engine.shutdown();
    assert_eq!((metrics.prompt_tokens.get(), metrics.completion_tokens.get()), (11, 8));
    assert_eq!(
        engine.stats().steps,
        2 + 8,
        "two chunks of the prompt; the last gives the first of 8 tokens and the end"
    );
}

#[test]
fn a_queued_request_with_a_long_context_takes_no_memory_for_an_answer_that_is_not_there() {
    const N_QUEUED: usize = 16;
    const GROWTH_MAX: u64 = 64 << 20;
    let n_ctx = 1 << 20;
    let options = EngineOptions { n_ctx, n_parallel: 1, n_queue: N_QUEUED, prefix_cache: true };
    let (model, controls) = Script::with_groups(8, true, vec![group(None, 1 << 15)]);
    let engine = Engine::start(model, options, Metrics::new());
    let before = frank_os::process_memory().expect("Linux says").rss;
    let queued: Vec<_> =
        (0..N_QUEUED).map(|_| engine.submit(request(&[1], n_ctx)).expect("taken")).collect();
    let growth = frank_os::process_memory().expect("Linux says").rss.saturating_sub(before);
    assert!(growth < GROWTH_MAX, "{growth} bytes for {N_QUEUED} requests of one token");
    drop((queued, controls));
}

/// A model that cannot say its size any more after a step, which is outside of what a step guards.
struct Broken(bool);

impl Model for Broken {
    fn n_vocab(&self) -> usize {
        assert!(!self.0, "asked after a step, expected in this test");
        N_VOCAB
    }

    fn n_rows_max(&self) -> usize {
        8
    }

    fn n_outputs_max(&self) -> usize {
        8
    }

    fn kv_groups(&self) -> &[KvGroup] {
        &[KvGroup { window: None, n_blocks: 8, block_bytes: 0 }]
    }

    fn forward(&mut self, _: &Batch<'_>, _: &mut [f32]) -> Result<(), StepError> {
        self.0 = true;
        Ok(())
    }

    fn copy_block(&mut self, _: usize, _: u32, _: u32) {}

    fn read_block(&self, _: usize, _: u32, _: &mut [u8]) {}

    fn write_block(&mut self, _: usize, _: u32, _: &[u8]) {}
}

#[test]
fn a_step_loop_that_panics_ends_every_answer_and_takes_no_new_request() {
    let options = EngineOptions { n_parallel: 1, ..OPTIONS };
    let engine = Engine::start(Box::new(Broken(false)), options, Metrics::new());
    let taken: Vec<_> = (0..3).map_while(|_| engine.submit(request(&[1], 5)).ok()).collect();
    assert!(!taken.is_empty(), "the first request finds the loop asleep");
    for generation in taken {
        assert_eq!(events(generation), [], "no event, and no wait for one");
    }
    engine.shutdown();
    assert_eq!(engine.health(), Health::Stopped);
    assert_eq!(engine.submit(request(&[1], 1)).err(), Some(SubmitError::ShuttingDown));
    assert_eq!((engine.stats().running, engine.stats().waiting), (0, 0));
}
