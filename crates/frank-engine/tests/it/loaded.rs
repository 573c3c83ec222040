//! A model from a file in an engine, and its answers down to the bits of their log probabilities.

use std::path::Path;

use frank_engine::{
    CacheScope, DiskCache, Engine, EngineEvent, EngineOptions, Generation, Request, SamplingParams,
    Token,
};
use frank_hub::ModelFile;
use frank_kernels::KvType;
use frank_models::{ArchError, KvTypes, LoadOptions, arch};
use frank_os::{Faults, IoBackend};
use frank_plan::{ExpertTiers, ModelNeeds, kv_request_blocks, kv_windows};
use frank_telemetry::Metrics;

/// The runner-up is reported too: a near tie must not hide a difference.
const N_LOGPROBS: usize = 2;

/// How a model is loaded, and how an engine cuts its work.
#[derive(Debug, Clone)]
pub(crate) struct Loading {
    pub(crate) n_threads: usize,
    /// Rows of a step.
    pub(crate) ubatch: usize,
    pub(crate) n_ctx: usize,
    /// Requests that share steps.
    pub(crate) n_parallel: usize,
    /// Requests that may wait.
    pub(crate) n_queue: usize,
    /// Requests of a whole context that the KV cache holds.
    pub(crate) n_contexts: usize,
    pub(crate) kv_type: KvType,
    /// `None` keeps all experts in memory.
    pub(crate) experts: Option<ExpertTiers>,
    pub(crate) io: Option<IoBackend>,
    pub(crate) prefetch: bool,
    /// How requests choose their tokens.
    pub(crate) sampling: SamplingParams,
}

/// A model in an engine.
pub(crate) struct Loaded {
    pub(crate) engine: Engine,
    n_vocab: usize,
    sampling: SamplingParams,
}

impl Loaded {
    pub(crate) fn start(path: &Path, loading: &Loading) -> Self {
        Self::start_with_disk(path, loading, None)
    }

    /// An engine that keeps prefixes in `disk` too.
    pub(crate) fn start_with_disk(path: &Path, loading: &Loading, disk: Option<DiskCache>) -> Self {
        let Loading { n_threads, ubatch, n_ctx, n_parallel, n_queue, prefetch, io, .. } = *loading;
        let file = ModelFile::open(path).expect("the file opens");
        let needs = needs(&file, loading.kv_type).expect("it can be planned");
        let blocks = |window| {
            let [n_ctx, ubatch] = [n_ctx, ubatch].map(|n| u32::try_from(n).expect("small"));
            let request = kv_request_blocks(window, n_ctx, ubatch);
            u32::try_from(request * loading.n_contexts as u64).expect("small")
        };
        let resident = || ExpertTiers::resident(needs.layers, needs.experts);
        let options = LoadOptions {
            n_threads,
            n_rows_max: ubatch,
            n_outputs_max: n_parallel,
            kv_blocks: kv_windows(&needs.state).into_iter().map(blocks).collect(),
            kv_types: KvTypes { k: loading.kv_type, v: loading.kv_type },
            experts: loading.experts.clone().unwrap_or_else(resident),
            router_bias: None,
            io,
            prefetch,
            faults: Faults::default(),
            usage: None,
        };
        let family = arch(&file.header).expect("a known family");
        let model = (family.load)(&file, &options).expect("the model loads");
        let n_vocab = model.n_vocab();
        let options = EngineOptions { n_ctx, n_parallel, n_queue, prefix_cache: true };
        let engine = Engine::start_with_disk(model, options, disk, Metrics::new());
        Self { engine, n_vocab, sampling: loading.sampling.clone() }
    }

    /// A request for exactly so many tokens.
    pub(crate) fn submit(
        &self,
        prompt: Vec<u32>,
        max_tokens: usize,
        cache_scope: Option<CacheScope>,
    ) -> Generation {
        let request = Request {
            prompt,
            max_tokens,
            sampling: self.sampling.clone(),
            n_logprobs: Some(N_LOGPROBS),
            cache_scope,
            ..Request::default()
        };
        self.engine.submit(request).expect("it is taken")
    }

    /// Token ids that no tokenizer is needed for, other ones for each `seed`.
    pub(crate) fn token_ids(&self, n: usize, seed: usize) -> Vec<u32> {
        let token_id = |i: usize| (i * 7919 + seed * 104_729 + 13) % self.n_vocab;
        (0..n).map(|i| u32::try_from(token_id(i)).expect("below n_vocab")).collect()
    }
}

/// What a model needs.
///
/// # Errors
/// When its heads do not take the type.
pub(crate) fn needs(file: &ModelFile, kv_type: KvType) -> Result<ModelNeeds, ArchError> {
    let family = arch(&file.header).expect("a known family");
    (family.needs)(&file.header, KvTypes { k: kv_type, v: kv_type })
}

/// What a request came to.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) cached_tokens: usize,
    pub(crate) tokens: Vec<TokenBits>,
}

/// Id and log probability of a token and of the likeliest ones at its place, as bits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TokenBits {
    pub(crate) token: (u32, u32),
    top: Vec<(u32, u32)>,
}

impl Answer {
    pub(crate) fn of(mut generation: Generation) -> Self {
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

    /// Panics with the place of the first token that differs from the expected ones.
    pub(crate) fn assert_tokens(&self, expected: &[TokenBits], what: impl std::fmt::Display) {
        assert_eq!(self.tokens.len(), expected.len(), "{what}");
        let mut pairs = self.tokens.iter().zip(expected);
        let other = pairs.position(|(token, expected)| token != expected);
        assert_eq!(other, None, "{what}: the first token that differs");
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
