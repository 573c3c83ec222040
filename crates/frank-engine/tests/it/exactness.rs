//! A greedy answer and its log probabilities are the same bit for bit: alone and among others, whatever the threads and
//! the rows of a step, and with a prefix from the cache or a disk, for every type of keys and values.

use std::fmt;
use std::path::{Path, PathBuf};

use frank_engine::{CacheScope, DiskCache, Generation, SamplingParams};
use frank_hub::ModelFile;
use frank_kernels::KvType;
use frank_models::{ARCHS, ArchError};
use frank_testkit::assets;

use crate::loaded::{Answer, Loaded, Loading, TokenBits, needs};

/// With the answer it goes over the window of Gemma 3 and the second border of the spans of attention.
const N_PROMPT: usize = 300;
const N_ANSWER: usize = 256;
const N_CTX: usize = 640;
/// Tokens of prompt and answer of the others: they join and leave at different steps, and one stays to the end.
const OTHERS: [(usize, usize); 7] =
    [(20, 600), (1, 40), (33, 200), (500, 100), (64, 3), (100, 120), (250, 20)];
/// Tokens of the prompt that the cached runs have in common with earlier requests; no page ends there.
const N_SHARED: usize = 250;
const SCOPE: CacheScope = CacheScope([7; 32]);

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

/// An engine with room for all that is ever asked, so that a cached prefix outlives the others, however few run together.
fn loading(cut: Cut, kv_type: KvType) -> Loading {
    Loading {
        n_threads: cut.n_threads,
        ubatch: cut.ubatch,
        n_ctx: N_CTX,
        // A step holds a row of each request.
        n_parallel: cut.ubatch.min(OTHERS.len() + 1),
        n_queue: OTHERS.len(),
        n_contexts: OTHERS.len() + 3,
        kv_type,
        experts: None,
        io: None,
        prefetch: true,
        sampling: SamplingParams::greedy(),
    }
}

/// The answer to always the same prompt.
fn answer(loaded: &Loaded, setting: Setting) -> Answer {
    let scope = setting.cached.then_some(SCOPE);
    let prompt = loaded.token_ids(N_PROMPT, 1);
    if setting.cached {
        // The first leaves a checkpoint of its windows within what is shared, the second a page that is shared in part.
        let others = loaded.token_ids(N_PROMPT - N_SHARED, 2);
        for rest in [&[], others.as_slice()] {
            let earlier = [&prompt[..N_SHARED], rest].concat();
            Answer::of(loaded.submit(earlier, 1, scope));
        }
    }
    let n_before = if setting.among_others { OTHERS.len() / 2 } else { 0 };
    let n_others = if setting.among_others { OTHERS.len() } else { 0 };
    let submit_others = |range: std::ops::Range<usize>| -> Vec<Generation> {
        range
            .map(|i| loaded.submit(loaded.token_ids(OTHERS[i].0, 3 + i), OTHERS[i].1, scope))
            .collect()
    };
    let mut others = submit_others(0..n_before);
    let generation = loaded.submit(prompt, N_ANSWER, scope);
    others.extend(submit_others(n_before..n_others));
    // Whoever is still there then is left.
    Answer::of(generation)
}

/// Runs everything in `runs` and compares it with the first, whose tokens it returns.
fn check(path: &Path, kv_type: KvType, runs: &[(Cut, &[Setting])]) -> Vec<TokenBits> {
    let mut expected = None;
    for (cut, settings) in runs {
        let loaded = Loaded::start(path, &loading(*cut, kv_type));
        for setting in *settings {
            let what = format!("{}, {kv_type:?}: {setting}, {cut}", path.display());
            let answer = answer(&loaded, *setting);
            assert_eq!(answer.cached_tokens > 0, setting.cached, "{what}: cached tokens");
            assert_eq!(answer.tokens.len(), N_ANSWER, "{what}");
            answer.assert_tokens(expected.get_or_insert_with(|| answer.tokens.clone()), what);
        }
        loaded.engine.shutdown();
    }
    expected.expect("something was run")
}

/// What a real model has time for: each number of threads and of rows, and each setting, at least once.
const FEW: &[(Cut, &[Setting])] = &[
    (cut(2, 512), &[ALONE, AMONG_CACHED]),
    (cut(2, 64), &[AMONG]),
    (cut(1, 7), &[ALONE_CACHED]),
    (cut(2, 1), &[ALONE_CACHED]),
];

/// What a model has time for of whose family a smaller one has everything.
const FEWEST: &[(Cut, &[Setting])] =
    &[(cut(2, 64), &[ALONE, AMONG_CACHED]), (cut(1, 512), &[ALONE_CACHED])];

#[test]
fn real_smollm2_answers_the_same_bits_in_every_setting() {
    check(&assets::smollm2(), KvType::F16, FEW);
}

#[test]
fn real_gemma3_answers_the_same_bits_in_every_setting() {
    if let Some(path) = assets::gemma3() {
        check(&path, KvType::F16, FEWEST);
    }
}

#[test]
fn real_qwen2_answers_the_same_bits_in_every_setting() {
    if let Some(path) = assets::qwen2() {
        check(&path, KvType::F16, FEWEST);
    }
}

/// Whether a file is the tiny model of a family, not one of its variants.
fn is_family(path: &Path) -> bool {
    let name = path.file_stem().and_then(|stem| stem.to_str()).expect("a name");
    ARCHS.iter().any(|arch| arch.name == name)
}

#[test]
fn tiny_models_answer_the_same_bits_in_every_setting() {
    // Each number of threads and of rows, each with and without others and a cached prefix on one of both.
    const STILL: &[Setting] = &[ALONE, AMONG_CACHED];
    const BUSY: &[Setting] = &[AMONG, ALONE_CACHED];
    const ALL: &[(Cut, &[Setting])] = &[
        (cut(1, 512), STILL),
        (cut(2, 512), BUSY),
        (cut(1, 64), BUSY),
        (cut(2, 64), STILL),
        (cut(1, 7), STILL),
        (cut(2, 7), BUSY),
        (cut(1, 1), BUSY),
        (cut(2, 1), STILL),
    ];
    for path in assets::tiny_models() {
        check(&path, KvType::F16, if is_family(&path) { ALL } else { FEWEST });
    }
}

/// The tiny models whose heads take a type.
fn tiny_models_with(kv_type: KvType) -> Vec<PathBuf> {
    let takes = |path: &PathBuf| {
        let file = ModelFile::open(path).expect("a tiny model opens");
        match needs(&file, kv_type) {
            Ok(_) => true,
            Err(ArchError::KvHead { .. }) => false,
            Err(error) => panic!("{}: {error}", path.display()),
        }
    };
    let models: Vec<_> = assets::tiny_models().into_iter().filter(takes).collect();
    assert!(!models.is_empty(), "{kv_type:?}");
    models
}

#[test]
fn tiny_models_answer_the_same_bits_in_every_setting_with_keys_and_values_in_f32() {
    for path in tiny_models_with(KvType::F32).iter().filter(|path| is_family(path)) {
        check(path, KvType::F32, FEWEST);
    }
}

#[test]
fn models_answer_the_same_bits_in_every_setting_with_quantized_keys_and_values() {
    for kv_type in [KvType::Q8_0, KvType::Q4_0] {
        for path in tiny_models_with(kv_type).iter().filter(|path| is_family(path)) {
            check(path, kv_type, FEWEST);
        }
    }
}

#[test]
fn real_smollm2_answers_the_same_bits_in_every_setting_with_each_type_of_keys_and_values() {
    let path = assets::smollm2();
    let plain = check(&path, KvType::F32, FEWEST);
    let [fine, coarse] = [KvType::Q8_0, KvType::Q4_0].map(|kv_type| check(&path, kv_type, FEWEST));
    assert!(plain != fine && fine != coarse, "a type that changes nothing was not taken");
}

#[test]
fn pages_that_come_back_from_a_disk_give_the_same_bits_with_each_type_of_keys_and_values() {
    for kv_type in [KvType::F32, KvType::F16, KvType::Q8_0, KvType::Q4_0] {
        for path in tiny_models_with(kv_type).iter().filter(|path| is_family(path)) {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let start = || {
                let disk = DiskCache::open(folder.path(), 1 << 30, [9; 32]).expect("its own");
                Loaded::start_with_disk(path, &loading(cut(2, 64), kv_type), Some(disk))
            };
            let ask = |loaded: &Loaded| {
                Answer::of(loaded.submit(loaded.token_ids(N_PROMPT, 1), N_ANSWER, Some(SCOPE)))
            };
            let first = start();
            let computed = ask(&first);
            first.engine.shutdown();
            let found = ask(&start());
            let what = format!("{}, {kv_type:?}", path.display());
            assert!(computed.cached_tokens == 0 && found.cached_tokens >= N_PROMPT / 2, "{what}");
            found.assert_tokens(&computed.tokens, what);
        }
    }
}
