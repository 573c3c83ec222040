//! What a request finds of earlier ones, and that its answer is the same with it.

use frank_engine::{
    CacheScope, Engine, EngineEvent, EngineOptions, Generation, Request, SamplingParams,
};
use frank_models::KvGroup;
use frank_telemetry::Metrics;

use crate::script::{Controls, RECALL, Script, group, wait_until};

const OPTIONS: EngineOptions =
    EngineOptions { n_ctx: 512, n_parallel: 4, n_queue: 8, prefix_cache: true };

const MINE: Option<CacheScope> = Some(CacheScope([1; 32]));

/// Room for four requests.
fn no_windows() -> Vec<KvGroup> {
    vec![group(None, 64)]
}

/// Room for four requests and some checkpoints.
fn windows() -> Vec<KvGroup> {
    vec![group(None, 64), group(Some(48), 40), group(Some(64), 40)]
}

fn start(groups: Vec<KvGroup>, held: bool) -> (Engine, Controls) {
    let (model, controls) = Script::with_groups(64, held, groups);
    (Engine::start(model, OPTIONS, Metrics::new()), controls)
}

/// `n` tokens that differ for each `seed`, all of which ask for what was found before them.
fn text(seed: u32, n: usize) -> Vec<u32> {
    (0..).map(|i: u32| RECALL + (i * 7 + seed * 13 + i / 11 * seed) % 200).take(n).collect()
}

fn request(prompt: &[u32], max_tokens: usize, cache_scope: Option<CacheScope>) -> Request {
    Request {
        prompt: prompt.to_vec(),
        max_tokens,
        sampling: SamplingParams::greedy(),
        cache_scope,
        ..Request::default()
    }
}

/// Tokens found, and the answer.
fn outcome(mut generation: Generation) -> (usize, Vec<u32>) {
    let mut n_cached = 0;
    let mut answer = Vec::new();
    while let Some(event) = generation.next_blocking() {
        match event {
            EngineEvent::Started { cached_tokens } => n_cached = cached_tokens,
            EngineEvent::Token(token) => answer.push(token.token_id),
            EngineEvent::Finished(_, usage) => assert_eq!(usage.cached_tokens, n_cached),
            EngineEvent::Failed(reason) => panic!("{reason}"),
        }
    }
    (n_cached, answer)
}

fn ask(engine: &Engine, prompt: &[u32], max_tokens: usize) -> (usize, Vec<u32>) {
    outcome(engine.submit(request(prompt, max_tokens, MINE)).expect("taken"))
}

/// The answer of an engine that knows nothing yet.
fn alone(groups: Vec<KvGroup>, prompt: &[u32], max_tokens: usize) -> Vec<u32> {
    ask(&start(groups, false).0, prompt, max_tokens).1
}

#[test]
fn the_second_turn_of_a_conversation_finds_prompt_and_answer() {
    for groups in [no_windows(), windows()] {
        let (engine, _controls) = start(groups.clone(), false);
        let first = text(1, 200);
        let (n_cached, answer) = ask(&engine, &first, 90);
        assert_eq!(n_cached, 0);
        let second = [first, answer, text(2, 40)].concat();
        let (n_cached, answer) = ask(&engine, &second, 20);
        // 289 tokens were computed, the last one of the answer was not: nine pages.
        assert_eq!(n_cached, 288);
        assert_eq!(answer, alone(groups, &second, 20));
    }
}

#[test]
fn the_second_turn_after_4000_tokens_starts_within_one_step() {
    let windows = vec![group(None, 300), group(Some(48), 40), group(Some(64), 40)];
    for groups in [vec![group(None, 300)], windows] {
        let (model, controls) = Script::with_groups(64, false, groups);
        let options = EngineOptions { n_ctx: 4608, ..OPTIONS };
        let engine = Engine::start(model, options, Metrics::new());
        let first = text(1, 4000);
        let (_, answer) = ask(&engine, &first, 50);
        let n_before = controls.steps.lock().expect("no test panics while it looks").len();
        let second = [first, answer, text(2, 30)].concat();
        assert_eq!(ask(&engine, &second, 1).0, 4032);
        let steps = controls.steps.lock().expect("no test panics while it looks");
        let rows: Vec<_> = steps[n_before..].iter().map(|step| step.token_ids.len()).collect();
        assert_eq!(rows, [4080 - 4032]);
    }
}

#[test]
fn a_prompt_that_was_asked_before_is_computed_from_its_last_token_on() {
    let (engine, controls) = start(no_windows(), false);
    for n in [64, 65, 95, 96] {
        let prompt = text(3, n);
        let answer = ask(&engine, &prompt, 40).1;
        assert_eq!(ask(&engine, &prompt, 40), (n - 1, answer.clone()), "{n} tokens");
        assert_eq!(answer, alone(no_windows(), &prompt, 40));
    }
    drop(controls);
}

#[test]
fn a_model_with_windows_goes_on_at_the_last_page_border_before_the_end_of_a_prompt() {
    let (engine, _controls) = start(windows(), false);
    for (n, expected) in [(65, 64), (100, 96), (200, 192)] {
        let prompt = text(n, n as usize);
        let answer = ask(&engine, &prompt, 3).1;
        assert_eq!(ask(&engine, &prompt, 3), (expected, answer));
    }
}

#[test]
fn prompts_that_part_inside_a_page_share_it_up_to_there_and_both_stay_right() {
    let (engine, _controls) = start(no_windows(), false);
    let first = text(1, 100);
    let mut second = first.clone();
    second[75] = 801;
    ask(&engine, &first, 5);
    let (n_cached, answer) = ask(&engine, &second, 30);
    assert_eq!((n_cached, answer), (75, alone(no_windows(), &second, 30)));
    assert_eq!(ask(&engine, &first, 30).1, alone(no_windows(), &first, 30));
}

#[test]
fn nobody_finds_what_another_scope_or_nobody_has_computed() {
    let (engine, _controls) = start(no_windows(), false);
    let prompt = text(1, 100);
    let cached_in = |scope| outcome(engine.submit(request(&prompt, 2, scope)).expect("taken")).0;
    assert_eq!(cached_in(None), 0);
    assert_eq!(cached_in(MINE), 0);
    assert_eq!(cached_in(Some(CacheScope([2; 32]))), 0);
    assert_eq!(cached_in(None), 0);
    assert_eq!(cached_in(MINE), 96);
}

#[test]
fn without_a_cache_nothing_is_found_and_no_block_is_kept() {
    let (model, _controls) = Script::with_groups(64, false, no_windows());
    let options = EngineOptions { prefix_cache: false, ..OPTIONS };
    let engine = Engine::start(model, options, Metrics::new());
    let prompt = text(1, 100);
    assert_eq!(ask(&engine, &prompt, 2).0, 0);
    assert_eq!((ask(&engine, &prompt, 2).0, engine.stats().kv_blocks_cached), (0, 0));
}

#[test]
fn a_prompt_that_several_ask_at_the_same_time_is_computed_once() {
    for groups in [no_windows(), windows()] {
        let (engine, controls) = start(groups.clone(), true);
        let prompts: Vec<_> =
            (0..4).map(|i| [text(9, 320), text(i, 10 + i as usize)].concat()).collect();
        let taken: Vec<_> = prompts
            .iter()
            .map(|prompt| engine.submit(request(prompt, 6, MINE)).expect("taken"))
            .collect();
        controls.allow(100);
        for (prompt, generation) in prompts.iter().zip(taken) {
            assert_eq!(outcome(generation).1, alone(groups.clone(), prompt, 6));
        }
        engine.shutdown();
        let steps = controls.steps.lock().expect("no panic");
        let n_rows: usize = steps.iter().map(|step| step.token_ids.len()).sum();
        let own: usize = prompts.iter().map(|prompt| prompt.len() - 320 + 5).sum();
        assert_eq!(n_rows, 320 + own);
    }
}

#[test]
fn requests_that_are_queued_together_wait_for_the_first_and_find_its_prompt() {
    let (engine, controls) = start(no_windows(), true);
    let prompt = text(4, 200);
    let all = (0..3).map(|_| request(&prompt, 4, MINE)).collect();
    let taken = engine.submit_all(all).expect("taken");
    controls.allow(3);
    wait_until("three steps", || engine.stats().steps == 3);
    assert_eq!((engine.stats().running, engine.stats().waiting), (1, 2), "no token yet");
    controls.allow(100);
    let outcomes: Vec<_> = taken.into_iter().map(outcome).collect();
    let answer = alone(no_windows(), &prompt, 4);
    assert_eq!(outcomes, [(0, answer.clone()), (192, answer.clone()), (192, answer)]);
}

#[test]
fn all_requests_that_are_queued_together_are_refused_when_one_has_no_room() {
    let (engine, controls) = start(no_windows(), true);
    let all = |n| (0..n).map(|_| request(&[1], 4, MINE)).collect();
    assert!(engine.submit_all(all(13)).is_err(), "four places and a queue of eight");
    assert_eq!(engine.stats().waiting, 0);
    assert_eq!(engine.submit_all(all(12)).expect("taken").len(), 12);
    drop(controls);
}

#[test]
fn a_client_that_leaves_leaves_its_whole_pages_behind() {
    let (engine, controls) = start(windows(), true);
    let prompt = text(5, 300);
    let generation = engine.submit(request(&prompt, 10, MINE)).expect("taken");
    controls.allow(3);
    wait_until("three steps", || engine.stats().steps == 3);
    drop(generation);
    controls.allow(1);
    wait_until("the release", || engine.stats().running == 0);
    assert_eq!(engine.stats().kv_blocks_used, 0);
    controls.allow(100);
    let found = ask(&engine, &prompt, 10);
    assert!(found.0 == 192 || found.0 == 256, "{} tokens of three or four steps", found.0);
    assert_eq!(found.1, alone(windows(), &prompt, 10));
}

/// Eviction that always takes the deepest page would never let this conversation be found deeper than once.
#[test]
fn a_long_conversation_is_found_deeper_each_turn_while_others_come_and_go() {
    for groups in [vec![group(None, 20)], vec![group(None, 20), group(Some(48), 12)]] {
        let (model, _controls) = Script::with_groups(64, false, groups.clone());
        let options = EngineOptions { n_parallel: 1, ..OPTIONS };
        let engine = Engine::start(model, options, Metrics::new());
        let mut conversation = text(1, 40);
        for turn in 0..12 {
            let (n_cached, answer) = ask(&engine, &conversation, 10);
            let expected = if turn == 0 { 0 } else { (conversation.len() - 21) / 32 * 32 };
            assert!(n_cached >= expected, "turn {turn}: {n_cached} tokens, {expected} expected");
            assert_eq!(answer, alone(groups.clone(), &conversation, 10), "turn {turn}");
            conversation.extend(answer);
            conversation.extend(text(turn, 20));
            ask(&engine, &text(100 + turn, 70), 2);
        }
    }
}

#[test]
fn lookups_hits_and_evictions_reach_the_metrics() {
    let (model, _controls) = Script::with_groups(64, false, vec![group(None, 16)]);
    let metrics = Metrics::new();
    let options = EngineOptions { n_parallel: 1, ..OPTIONS };
    let engine = Engine::start(model, options, metrics.clone());
    for seed in [1, 1, 2] {
        ask(&engine, &text(seed, 320), 2);
    }
    engine.shutdown();
    assert_eq!(metrics.prefix_cache_lookup_tokens.get(), 3 * 320);
    assert_eq!(metrics.prefix_cache_hit_tokens.get(), 319);
    assert!(metrics.prefix_cache_evictions.get() > 0);
}
