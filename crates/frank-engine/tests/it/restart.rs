//! Prefixes on a disk, from one engine to the next over the same directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use frank_engine::{
    CacheScope, DiskCache, Engine, EngineEvent, EngineOptions, FinishReason, Request,
    SamplingParams,
};
use frank_models::KvGroup;
use frank_telemetry::Metrics;
use tempfile::TempDir;

use crate::script::{Controls, N_VOCAB, Script, group};

const OPTIONS: EngineOptions =
    EngineOptions { n_ctx: 640, n_parallel: 2, n_queue: 8, prefix_cache: true };
const AMPLE: u64 = 1 << 30;
const ALICE: CacheScope = CacheScope([1; 32]);
const BOB: CacheScope = CacheScope([2; 32]);

/// An engine over `dir`, and what its model was given.
struct Run {
    engine: Engine,
    controls: Controls,
}

impl Run {
    fn start(dir: &Path, groups: &[KvGroup]) -> Self {
        Self::start_within(dir, groups, AMPLE)
    }

    fn start_within(dir: &Path, groups: &[KvGroup], budget: u64) -> Self {
        let (model, controls) = Script::with_groups(64, false, groups.to_vec());
        let disk = DiskCache::open(dir, budget, [9; 32]).expect("a directory of its own");
        let engine = Engine::start_with_disk(model, OPTIONS, Some(disk), Metrics::new());
        Self { engine, controls }
    }

    /// Answers `prompt` with 40 tokens and returns how many of its tokens were cached.
    fn ask(&self, scope: CacheScope, prompt: &[u32]) -> usize {
        let request = Request {
            prompt: prompt.to_vec(),
            max_tokens: 40,
            sampling: SamplingParams::greedy(),
            cache_scope: Some(scope),
            ..Request::default()
        };
        let mut generation = self.engine.submit(request).expect("taken");
        let mut next = prompt[prompt.len() - 1] + 1;
        let mut started_with = None;
        loop {
            match generation.next_blocking().expect("the answer goes on") {
                EngineEvent::Started { cached_tokens } => started_with = Some(cached_tokens),
                EngineEvent::Token(token) => {
                    assert_eq!(token.token_id, next % N_VOCAB as u32);
                    next += 1;
                }
                EngineEvent::Finished(reason, usage) => {
                    assert_eq!((reason, usage.completion_tokens), (FinishReason::Length, 40));
                    assert_eq!(started_with, Some(usage.cached_tokens));
                    return usage.cached_tokens;
                }
                EngineEvent::Failed(reason) => panic!("{reason}"),
            }
        }
    }

    /// Tokens that the model was given so far.
    fn n_computed(&self) -> usize {
        let steps = self.controls.steps.lock().expect("no step panics");
        steps.iter().map(|step| step.token_ids.len()).sum()
    }
}

/// A prompt of `n` tokens that no other one shares a page with.
fn prompt(n: u32, seed: u32) -> Vec<u32> {
    (0..n).map(|i| (i * 7 + seed * 131) % 600).collect()
}

/// Asks once, ends the engine, starts another and asks again. Returns how many tokens were cached then, and how many
/// computed.
fn restarted(groups: &[KvGroup], n_prompt: u32) -> (usize, usize) {
    let dir = TempDir::new().expect("a temporary folder");
    let first = Run::start(dir.path(), groups);
    assert_eq!(first.ask(ALICE, &prompt(n_prompt, 1)), 0);
    first.engine.shutdown();
    let second = Run::start(dir.path(), groups);
    (second.ask(ALICE, &prompt(n_prompt, 1)), second.n_computed())
}

#[test]
fn an_engine_finds_what_an_earlier_one_computed() {
    let plain = [group(None, 80)];
    assert_eq!(restarted(&plain, 300), (288, 12 + 39));
    assert_eq!(restarted(&plain, 321), (320, 1 + 39));
    assert_eq!(restarted(&plain, 320), (288, 32 + 39), "the last token is always computed");
    assert_eq!(restarted(&plain, 32), (0, 32 + 39));
}

#[test]
fn a_window_brings_only_what_its_next_row_reads() {
    let windows = [group(None, 80), group(Some(70), 20)];
    assert_eq!(restarted(&windows, 300), (288, 12 + 39));
    assert_eq!(restarted(&[group(Some(70), 20)], 300), (288, 12 + 39));
    assert_eq!(restarted(&[group(Some(10), 20), group(Some(70), 20)], 300), (288, 12 + 39));
}

#[test]
fn the_answer_is_found_as_well_as_the_prompt() {
    let dir = TempDir::new().expect("a temporary folder");
    let groups = [group(None, 80), group(Some(70), 20)];
    let first = prompt(300, 1);
    let run = Run::start(dir.path(), &groups);
    run.ask(ALICE, &first);
    run.engine.shutdown();
    // 39 tokens of the answer are computed: with the prompt 10 whole pages.
    let last = first[299] + 1;
    let second: Vec<u32> = first.iter().copied().chain(last..last + 40).chain(0..50).collect();
    assert_eq!(Run::start(dir.path(), &groups).ask(ALICE, &second), 320);
}

#[test]
fn another_scope_sees_nothing_of_it() {
    let dir = TempDir::new().expect("a temporary folder");
    let groups = [group(None, 80)];
    let run = Run::start(dir.path(), &groups);
    run.ask(ALICE, &prompt(300, 1));
    run.engine.shutdown();
    let run = Run::start(dir.path(), &groups);
    assert_eq!(run.ask(BOB, &prompt(300, 1)), 0);
    assert_eq!(run.ask(ALICE, &prompt(300, 1)), 288);
}

#[test]
fn what_lies_in_memory_is_continued_from_the_disk() {
    for groups in [vec![group(None, 80)], vec![group(None, 80), group(Some(70), 20)]] {
        let dir = TempDir::new().expect("a temporary folder");
        let run = Run::start(dir.path(), &groups);
        run.ask(ALICE, &prompt(300, 1));
        run.engine.shutdown();
        let run = Run::start(dir.path(), &groups);
        assert_eq!(run.ask(ALICE, &prompt(130, 1)), if groups.len() == 1 { 128 } else { 0 });
        assert_eq!(run.ask(ALICE, &prompt(300, 1)), 288);
    }
}

#[test]
fn requests_that_begin_alike_wait_for_one_reading() {
    let dir = TempDir::new().expect("a temporary folder");
    let groups = [group(None, 80)];
    let run = Run::start(dir.path(), &groups);
    run.ask(ALICE, &prompt(300, 1));
    run.engine.shutdown();
    let run = Run::start(dir.path(), &groups);
    std::thread::scope(|scope| {
        let asked = [(), ()].map(|()| scope.spawn(|| run.ask(ALICE, &prompt(300, 1))));
        for asked in asked {
            assert_eq!(asked.join().expect("an answer"), 288);
        }
    });
    assert_eq!(run.n_computed(), 2 * (12 + 39));
}

#[test]
fn the_pages_of_the_last_step_are_stored_while_nothing_else_is_asked() {
    let dir = TempDir::new().expect("a temporary folder");
    let run = Run::start(dir.path(), &[group(Some(70), 20)]);
    // A short prompt leaves no checkpoint behind: the first one is that of the end, with both whole pages.
    run.ask(ALICE, &prompt(30, 1));
    let deadline = Instant::now() + Duration::from_secs(20);
    while entries(dir.path()).len() < 2 {
        assert!(Instant::now() < deadline, "{} of 2 pages", entries(dir.path()).len());
        std::thread::yield_now();
    }
}

/// Files of entries below `dir`.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let files = |dir: &Path| -> Vec<PathBuf> {
        let all = fs::read_dir(dir).expect("a folder").map(|file| file.expect("a file").path());
        all.collect()
    };
    let folders = files(dir).into_iter().filter(|path| path.is_dir());
    let mut found: Vec<_> = folders.flat_map(|f| files(&f)).flat_map(|f| files(&f)).collect();
    found.sort();
    found
}

#[test]
fn damaged_pages_are_computed_again_with_the_same_tokens() {
    for groups in [vec![group(None, 80)], vec![group(None, 80), group(Some(70), 20)]] {
        let dir = TempDir::new().expect("a temporary folder");
        let run = Run::start(dir.path(), &groups);
        run.ask(ALICE, &prompt(300, 1));
        run.engine.shutdown();
        let n_entries = entries(dir.path()).len();
        assert!(n_entries >= 10, "{n_entries}");
        for damaged in 0..n_entries {
            let run = Run::start(dir.path(), &groups);
            let files = entries(dir.path());
            assert_eq!(files.len(), n_entries, "what was damaged is stored again");
            let mut bytes = fs::read(&files[damaged]).expect("an entry");
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            fs::write(&files[damaged], bytes).expect("an entry");
            // `ask` checks the tokens, and the model that each finds what was before it.
            let n_cached = run.ask(ALICE, &prompt(300, 1));
            assert!(n_cached.is_multiple_of(32) && n_cached <= 288, "{n_cached}");
            assert_eq!(run.n_computed() + n_cached, 339);
            run.engine.shutdown();
        }
    }
}

#[test]
fn a_disk_that_fails_ends_no_request() {
    let dir = TempDir::new().expect("a temporary folder");
    let place = dir.path().join("cache");
    let groups = [group(None, 80)];
    let run = Run::start(&place, &groups);
    run.ask(ALICE, &prompt(300, 1));
    run.engine.shutdown();
    let run = Run::start(&place, &groups);
    fs::remove_dir_all(&place).expect("it is there");
    assert_eq!(run.ask(ALICE, &prompt(300, 1)), 0);
    assert_eq!(run.ask(ALICE, &prompt(300, 2)), 0);
    assert_eq!(run.ask(ALICE, &prompt(300, 1)), 299, "memory is as good as ever");
    run.engine.shutdown();
}

#[test]
fn a_small_budget_keeps_the_beginning_of_a_prompt() {
    let dir = TempDir::new().expect("a temporary folder");
    let groups = [group(None, 80)];
    let five_pages = 5 * 8192;
    let run = Run::start_within(dir.path(), &groups, five_pages);
    run.ask(ALICE, &prompt(300, 1));
    run.engine.shutdown();
    assert_eq!(entries(dir.path()).len(), 5);
    let run = Run::start_within(dir.path(), &groups, five_pages);
    assert_eq!(run.ask(ALICE, &prompt(300, 1)), 160);
}

#[test]
fn a_cancelled_request_gives_its_blocks_back_while_pages_come() {
    let dir = TempDir::new().expect("a temporary folder");
    let groups = [group(None, 40), group(Some(70), 20)];
    let run = Run::start(dir.path(), &groups);
    run.ask(ALICE, &prompt(500, 1));
    run.engine.shutdown();
    for round in 0..20 {
        let run = Run::start(dir.path(), &groups);
        let request = Request {
            prompt: prompt(500, 1),
            max_tokens: 100,
            cache_scope: Some(ALICE),
            ..Request::default()
        };
        drop(run.engine.submit(request).expect("taken"));
        // It needs most blocks of the cache.
        assert_eq!(run.ask(BOB, &prompt(500, 3 + round)), 0);
        run.engine.shutdown();
        assert_eq!(run.engine.stats().kv_blocks_used, 0);
    }
}
