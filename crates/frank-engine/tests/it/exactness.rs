//! A greedy answer and its log probabilities are the same bit for bit: alone and among others, whatever the threads and
//! the rows of a step, and with a prefix from the cache.

use std::fmt;
use std::path::Path;

use frank_engine::{
    CacheScope, Engine, EngineEvent, EngineOptions, Generation, Request, SamplingParams, Token,
};
use frank_hub::ModelFile;
use frank_kernels::KvType;
use frank_models::{ARCHS, KvTypes, LoadOptions, arch};
use frank_plan::{ExpertTiers, kv_request_blocks, kv_windows};
use frank_telemetry::Metrics;
use frank_testkit::assets;

/// With the answer it goes over the window of Gemma 3 and the second border of the spans of attention.
const N_PROMPT: usize = 300;
const N_ANSWER: usize = 256;
const N_CTX: usize = 640;
/// Tokens of prompt and answer of the others: they join and leave at different steps, and one stays to the end.
const OTHERS: [(usize, usize); 7] =
    [(20, 600), (1, 40), (33, 200), (500, 100), (64, 3), (100, 120), (250, 20)];
/// The runner-up is reported too: a near tie must not hide a difference.
const N_LOGPROBS: usize = 2;
/// Tokens of the prompt that the cached runs have in common with earlier requests; no page ends there.
const N_SHARED: usize = 250;

/// How an engine cuts its work.
#[derive(Clone, Copy)]
struct Cut {
    n_threads: usize,
    /// Rows of a step.
    ubatch: usize,
}

/// How a request runs on it.
#[derive(Clone, Copy)]
struct Setting {
    among_others: bool,
    /// Earlier requests began with the same tokens.
    cached: bool,
}

const ALONE: Setting = Setting { among_others: false, cached: false };
const AMONG: Setting = Setting { among_others: true, cached: false };
const ALONE_CACHED: Setting = Setting { among_others: false, cached: true };
const AMONG_CACHED: Setting = Setting { among_others: true, cached: true };

const fn cut(n_threads: usize, ubatch: usize) -> Cut {
    Cut { n_threads, ubatch }
}

impl fmt::Display for Cut {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} threads, {} rows in a step", self.n_threads, self.ubatch)
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if self.among_others { "among others" } else { "alone" })?;
        out.write_str(if self.cached { ", with a cached prefix" } else { "" })
    }
}

/// An engine over a real or tiny model.
struct Subject {
    engine: Engine,
    n_vocab: usize,
}

impl Subject {
    fn start(path: &Path, cut: Cut) -> Self {
        let file = ModelFile::open(path).expect("the file opens");
        let family = arch(&file.header).expect("a known family");
        let kv_types = KvTypes { k: KvType::F16, v: KvType::F16 };
        let needs = (family.needs)(&file.header, kv_types).expect("it can be planned");
        // A step holds a row of each request.
        let n_parallel = cut.ubatch.min(OTHERS.len() + 1);
        let blocks = |window| {
            let [n_ctx, ubatch] = [N_CTX, cut.ubatch].map(|n| u32::try_from(n).expect("small"));
            let request = kv_request_blocks(window, n_ctx, ubatch);
            // Room for all that is ever asked, so that a cached prefix outlives the others, however few run together.
            u32::try_from(request * (OTHERS.len() as u64 + 3)).expect("small")
        };
        let options = LoadOptions {
            n_threads: cut.n_threads,
            n_rows_max: cut.ubatch,
            n_outputs_max: n_parallel,
            kv_blocks: kv_windows(&needs.state).into_iter().map(blocks).collect(),
            kv_types,
            experts: ExpertTiers::resident(needs.layers, needs.experts),
            router_bias: None,
            io: None,
            prefetch: true,
            faults: frank_os::Faults::default(),
            usage: None,
        };
        let model = (family.load)(&file, &options).expect("the model loads");
        let n_vocab = model.n_vocab();
        let options =
            EngineOptions { n_ctx: N_CTX, n_parallel, n_queue: OTHERS.len(), prefix_cache: true };
        Self { engine: Engine::start(model, options, Metrics::new()), n_vocab }
    }

    /// The answer to always the same prompt.
    fn answer(&self, setting: Setting) -> Answer {
        let scope = setting.cached.then_some(CacheScope([7; 32]));
        let prompt = self.token_ids(N_PROMPT, 1);
        if setting.cached {
            // The first leaves a checkpoint of its windows within what is shared, the second a page that is shared in part.
            let others = self.token_ids(N_PROMPT - N_SHARED, 2);
            for rest in [&[], others.as_slice()] {
                let earlier = [&prompt[..N_SHARED], rest].concat();
                Answer::of(self.submit(earlier, 1, scope));
            }
        }
        let n_before = if setting.among_others { OTHERS.len() / 2 } else { 0 };
        let n_others = if setting.among_others { OTHERS.len() } else { 0 };
        let submit_others = |range: std::ops::Range<usize>| -> Vec<Generation> {
            range
                .map(|i| self.submit(self.token_ids(OTHERS[i].0, 3 + i), OTHERS[i].1, scope))
                .collect()
        };
        let mut others = submit_others(0..n_before);
        let generation = self.submit(prompt, N_ANSWER, scope);
        others.extend(submit_others(n_before..n_others));
        // Whoever is still there then is left.
        Answer::of(generation)
    }

    fn submit(
        &self,
        prompt: Vec<u32>,
        max_tokens: usize,
        cache_scope: Option<CacheScope>,
    ) -> Generation {
        let request = Request {
            prompt,
            max_tokens,
            sampling: SamplingParams::greedy(),
            n_logprobs: Some(N_LOGPROBS),
            cache_scope,
            ..Request::default()
        };
        self.engine.submit(request).expect("it is taken")
    }

    /// Token ids that no tokenizer is needed for, other ones for each `seed`.
    fn token_ids(&self, n: usize, seed: usize) -> Vec<u32> {
        let token_id = |i: usize| (i * 7919 + seed * 104_729 + 13) % self.n_vocab;
        (0..n).map(|i| u32::try_from(token_id(i)).expect("below n_vocab")).collect()
    }
}

/// What a request came to.
#[derive(Debug)]
struct Answer {
    cached_tokens: usize,
    tokens: Vec<TokenBits>,
}

/// Id and log probability of a token and of the likeliest ones at its place, as bits.
#[derive(Debug, Clone, PartialEq)]
struct TokenBits {
    token: (u32, u32),
    top: Vec<(u32, u32)>,
}

impl Answer {
    fn of(mut generation: Generation) -> Self {
        let mut answer = Self { cached_tokens: 0, tokens: Vec::new() };
        while let Some(event) = generation.next_blocking() {
            match event {
                EngineEvent::Started { cached_tokens } => answer.cached_tokens = cached_tokens,
                EngineEvent::Token(token) => answer.tokens.push(TokenBits::of(&token)),
                EngineEvent::Finished(_, usage) => {
                    assert_eq!(usage.cached_tokens, answer.cached_tokens);
                    return answer;
                }
                EngineEvent::Failed(reason) => panic!("{reason}"),
            }
        }
        panic!("the engine ended before the answer")
    }
}

impl TokenBits {
    fn of(token: &Token) -> Self {
        let logprobs = token.logprobs.as_ref().expect("they were asked for");
        assert_eq!(logprobs.top.len(), N_LOGPROBS);
        let bits = |&(token_id, logprob): &(u32, f32)| (token_id, logprob.to_bits());
        Self {
            token: bits(&(token.token_id, logprobs.logprob)),
            top: logprobs.top.iter().map(bits).collect(),
        }
    }
}

/// Runs everything in `runs` and compares it with the first.
fn check(path: &Path, runs: &[(Cut, &[Setting])]) {
    let mut expected = None;
    for (cut, settings) in runs {
        let subject = Subject::start(path, *cut);
        for setting in *settings {
            let what = format!("{}: {setting}, {cut}", path.display());
            let answer = subject.answer(*setting);
            assert_eq!(answer.cached_tokens > 0, setting.cached, "{what}: cached tokens");
            assert_eq!(answer.tokens.len(), N_ANSWER, "{what}");
            let expected = expected.get_or_insert_with(|| answer.tokens.clone());
            let pairs = answer.tokens.iter().zip(&*expected);
            let other = pairs.into_iter().position(|(token, expected)| token != expected);
            assert_eq!(other, None, "{what}: the first token that differs");
        }
        subject.engine.shutdown();
    }
}

/// What a real model has time for: each number of threads and of rows, and each setting, at least once.
const FEW: &[(Cut, &[Setting])] = &[
    (cut(2, 512), &[ALONE, AMONG_CACHED]),
    (cut(2, 64), &[AMONG]),
    (cut(1, 7), &[ALONE_CACHED]),
    (cut(2, 1), &[ALONE_CACHED]),
];

/// What a variant of a family that has everything has time for.
const FEWEST: &[(Cut, &[Setting])] =
    &[(cut(2, 64), &[ALONE, AMONG_CACHED]), (cut(1, 512), &[ALONE_CACHED])];

#[test]
fn real_smollm2_answers_the_same_bits_in_every_setting() {
    check(&assets::smollm2(), FEW);
}

#[test]
fn real_gemma3_answers_the_same_bits_in_every_setting() {
    if let Some(path) = assets::gemma3() {
        check(&path, FEW);
    }
}

#[test]
fn real_qwen2_answers_the_same_bits_in_every_setting() {
    if let Some(path) = assets::qwen2() {
        check(&path, FEW);
    }
}

#[test]
fn tiny_models_answer_the_same_bits_in_every_setting() {
    const ALL: &[Setting] = &[ALONE, AMONG, ALONE_CACHED, AMONG_CACHED];
    let runs: Vec<(Cut, &[Setting])> = [1, 2]
        .into_iter()
        .flat_map(|n| [512, 64, 7, 1].map(|ubatch| (cut(n, ubatch), ALL)))
        .collect();
    for path in assets::tiny_models() {
        let name = path.file_stem().and_then(|stem| stem.to_str()).expect("a name");
        let is_family = ARCHS.iter().any(|arch| arch.name == name);
        check(&path, if is_family { &runs } else { FEWEST });
    }
}
