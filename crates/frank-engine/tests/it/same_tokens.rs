//! A mixture of experts that streams gives the same greedy tokens with the same log probabilities, bit for bit, however few
//! of its experts have room, wherever they lie, and however they are read.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use frank_engine::{Generation, SamplingParams};
use frank_experts::StoreStatistics;
use frank_hub::{ModelFile, rewrite};
use frank_kernels::KvType;
use frank_models::{EXPERT_ALIGNMENT, expert_major};
use frank_os::IoBackend;
use frank_plan::{ExpertTiers, Limits, Machine, ModelNeeds, Placement, StreamCache, Tier, plan};
use frank_testkit::assets;
use frank_testkit::synthetic_moe::{SyntheticMoe, SyntheticQuant};
use tempfile::TempDir;

use crate::loaded::{Answer, Loaded, Loading, TokenBits, needs};

const LAYERS: u64 = 6;
const EXPERTS: u64 = 32;
const USED: u64 = 4;
/// Experts of all layers.
const COUNT: u64 = LAYERS * EXPERTS;
/// The experts of one token in all layers.
const FLOOR: u64 = LAYERS * USED;

/// An expert has three matrices of 128 x 256 in Q4_0: 54 KiB, few of which begin on a page.
const SHAPE: SyntheticMoe = SyntheticMoe {
    layers: LAYERS as u32,
    hidden: 128,
    experts: EXPERTS as u32,
    top: USED as u32,
    ff: 256,
    heads: 4,
    kv_heads: 2,
    head_dim: 32,
    context_length: 1024,
    quant: SyntheticQuant::Q4_0,
    seed: 1,
    skew: 0.5,
};

const N_ANSWER: usize = 256;
/// Tokens of the prompts. A chunk of 64 wants nearly all experts of a layer, at the floor for four slots.
const PROMPTS: [usize; 4] = [100, 7, 33, 150];
const UBATCH: usize = 64;

/// How experts are read, and whether they are read ahead.
type Way = (IoBackend, bool);

struct Mixture {
    /// As published, and with each expert in one piece.
    files: [PathBuf; 2],
    needs: ModelNeeds,
    /// What each prompt is answered alone, with all experts in memory.
    expected: Vec<Vec<TokenBits>>,
    _folder: TempDir,
}

impl Mixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let files = ["published.gguf", "repacked.gguf"].map(|name| folder.path().join(name));
        SHAPE.write(&assets::tiny("qwen3moe.gguf"), &files[0]).expect("a new file");
        let published = ModelFile::open(&files[0]).expect("a whole model");
        let form = expert_major(&published.header).expect("it has experts");
        let watch = |_| ControlFlow::Continue(());
        rewrite(&published, &form.copies, EXPERT_ALIGNMENT, &files[1], &watch).expect("a new file");
        let needs = needs(&published, KvType::F16).expect("it can be planned");
        let loaded = Loaded::start(&files[0], &loading(None, (IoBackend::Pread, false)));
        let expected = (0..PROMPTS.len()).map(|i| Answer::of(ask(&loaded, i)).tokens).collect();
        let mixture = Self { files, needs, expected, _folder: folder };
        mixture.assert_varied();
        mixture
    }

    /// Panics when answers repeat themselves so soon that few experts are wanted.
    fn assert_varied(&self) {
        for answer in &self.expected {
            assert_eq!(answer.len(), N_ANSWER);
            let different: BTreeSet<u32> = answer.iter().map(|token| token.token.0).collect();
            assert!(different.len() > 40, "{} different tokens", different.len());
        }
    }

    /// All experts streamed through so many slots.
    fn streamed(&self, cache_slots: u64) -> ExpertTiers {
        let resident = ExpertTiers::resident(self.needs.layers, self.needs.experts);
        let tiers = vec![Tier::Stream; resident.tiers.len()];
        let slot_bytes = self.needs.expert_layers[0].slot_bytes;
        ExpertTiers { tiers, cache_slots, slot_bytes, ..resident }
    }

    /// What a placement file of random owners comes to, with a pool `cpu:1` or without.
    fn placed(&self, seed: u64, with_pool: bool) -> ExpertTiers {
        let text = owners(seed);
        let mut limits = Limits {
            ctx_size: Some(512),
            parallel: Some(1),
            expert_budgets: vec![("cpu:0".to_owned(), 4 << 20)],
            stream_cache: Some(StreamCache { device: None, bytes: 2 << 20 }),
            ..Limits::default()
        };
        limits.ranking.placement = Some(Placement::parse(&text, &self.needs).expect("all named"));
        let mut machine = Machine::from_toml(MACHINE).expect("a machine");
        if with_pool {
            machine.declare("cpu:1", 2 << 20).expect("it is a pool");
            limits.devices.push(("cpu:1".to_owned(), 2 << 20));
        }
        plan(&self.needs, &machine, &limits).expect("it fits").expert_tiers
    }

    /// Answers one prompt alone, then all of them together, and compares every bit.
    fn check(
        &self,
        file: &Path,
        experts: Option<ExpertTiers>,
        way: Way,
        what: &str,
    ) -> StoreStatistics {
        let (io, prefetch) = way;
        let name = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let what = format!("{name}, {what}, {io}, prefetch {prefetch}");
        let is_streamed = experts.as_ref().is_some_and(|experts| experts.cache_slots > 0);
        let loaded = Loaded::start(file, &loading(experts, way));
        Answer::of(ask(&loaded, 0)).assert_tokens(&self.expected[0], format!("{what}, alone"));
        let together: Vec<_> = (0..PROMPTS.len()).map(|i| ask(&loaded, i)).collect();
        for (i, generation) in together.into_iter().enumerate() {
            let what = format!("{what}, prompt {i} of four");
            Answer::of(generation).assert_tokens(&self.expected[i], what);
        }
        let counts = loaded.engine.expert_statistics().expect("a mixture");
        loaded.engine.shutdown();
        if is_streamed {
            assert_eq!(counts.backend, Some(io), "{what}");
            assert!(counts.hits > 0 && counts.misses > N_ANSWER as u64, "{what}: {counts:?}");
            assert!(counts.evictions > N_ANSWER as u64, "{what}: {counts:?}");
            let is_ahead = prefetch && io != IoBackend::Mmap;
            assert_eq!(counts.prefetch_useful > 0, is_ahead, "{what}: {counts:?}");
        }
        counts
    }
}

/// What its devices hold is decided by the limits.
const MACHINE: &str = "[host]\nram = \"4GiB\"\ncores = 2\n\
                       [[device]]\nid = \"cpu:0\"\nkind = \"cpu\"\ntotal = \"4GiB\"\nfree = \"4GiB\"\n";

/// A placement file of owners that look random and are the same each time.
fn owners(seed: u64) -> String {
    let mut state = seed;
    let words = (0..COUNT).map(|_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ["primary", "secondary", "stream"][(state >> 33) as usize % 3]
    });
    serde_json::json!({"owners": words.collect::<Vec<_>>()}).to_string()
}

fn loading(experts: Option<ExpertTiers>, (io, prefetch): Way) -> Loading {
    Loading {
        n_threads: 2,
        ubatch: UBATCH,
        n_ctx: 512,
        n_parallel: PROMPTS.len(),
        n_queue: PROMPTS.len(),
        n_contexts: PROMPTS.len(),
        kv_type: KvType::F16,
        experts,
        io: Some(io),
        prefetch,
        // Nothing that was said a moment ago: random weights repeat a few tokens for ever otherwise, and want few experts.
        sampling: SamplingParams { presence_penalty: 100.0, ..SamplingParams::greedy() },
    }
}

/// Asks prompt `i`.
fn ask(loaded: &Loaded, i: usize) -> Generation {
    loaded.submit(loaded.token_ids(PROMPTS[i], i), N_ANSWER, None)
}

/// All sizes of the cache below that of the experts, from both files, with prefetch and without.
fn check_every_size(io: IoBackend) {
    let mixture = Mixture::new();
    for file in &mixture.files {
        for (slots, what) in [(COUNT / 2, "50 %"), (COUNT / 4, "25 %"), (FLOOR, "the floor")] {
            for prefetch in [false, true] {
                let counts =
                    mixture.check(file, Some(mixture.streamed(slots)), (io, prefetch), what);
                assert_eq!(counts.n_slots as u64, slots);
            }
        }
    }
}

#[test]
fn answers_are_the_same_tokens_through_io_uring_at_every_size_of_the_cache() {
    check_every_size(IoBackend::Uring);
}

#[test]
fn answers_are_the_same_tokens_through_pread_at_every_size_of_the_cache() {
    check_every_size(IoBackend::Pread);
}

#[test]
fn answers_are_the_same_tokens_through_a_map_at_every_size_of_the_cache() {
    check_every_size(IoBackend::Mmap);
}

#[test]
fn answers_are_the_same_tokens_with_all_experts_in_memory_from_both_files() {
    let mixture = Mixture::new();
    for file in &mixture.files {
        for io in [IoBackend::Uring, IoBackend::Pread, IoBackend::Mmap] {
            let counts = mixture.check(file, None, (io, true), "resident");
            assert_eq!((counts.n_primary as u64, counts.misses), (COUNT, 0));
        }
    }
}

/// Five placement files: each with every backend, half of them with prefetch and half from the repacked file, so that
/// each of these meets each.
fn check_placements(with_pool: bool) {
    let mixture = Mixture::new();
    for seed in 1..=5 {
        let experts = mixture.placed(seed, with_pool);
        for (i, io) in [IoBackend::Uring, IoBackend::Pread, IoBackend::Mmap].into_iter().enumerate()
        {
            let turn = seed as usize + i;
            let file = &mixture.files[turn % 2];
            let what = format!("placement {seed}");
            let way = (io, (turn / 2).is_multiple_of(2));
            let counts = mixture.check(file, Some(experts.clone()), way, &what);
            assert!(counts.n_primary > 0 && counts.primary_visits > 0, "{what}: {counts:?}");
            assert_eq!(counts.n_secondary > 0, with_pool, "{what}: {counts:?}");
            assert_eq!(counts.secondary_visits > 0, with_pool, "{what}: {counts:?}");
        }
    }
}

#[test]
fn answers_are_the_same_tokens_under_five_placement_files() {
    check_placements(false);
}

#[test]
fn answers_are_the_same_tokens_under_five_placement_files_and_a_second_pool() {
    check_placements(true);
}
