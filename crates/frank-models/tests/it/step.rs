//! Runs a model over one sequence in chunks, as the engine would.

use std::path::Path;

use frank_hub::ModelFile;
use frank_kernels::KvType;
use frank_models::{Batch, KvTypes, LoadOptions, Model, arch};
use frank_os::{Faults, IoBackend};
use frank_plan::{ExpertTiers, ModelNeeds, Tier, kv_windows};

/// How a sequence is run.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub(crate) n_threads: usize,
    /// Rows of a step.
    pub(crate) chunk: usize,
    pub(crate) kv_type: KvType,
    /// KV blocks in front of the sequence's own, so that its blocks lie elsewhere.
    pub(crate) first_block: u32,
    pub(crate) experts: Experts,
    /// What is added to the choice of an expert, by its layer and number.
    pub(crate) router_bias: Option<fn(u32, u32) -> f32>,
    pub(crate) io: Option<IoBackend>,
    pub(crate) prefetch: bool,
}

/// Where the experts of a mixture lie.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Experts {
    /// All beside the dense weights.
    Resident,
    /// All in files, with slots for the experts that one token uses in one layer and so many more.
    Streamed { more_slots: u64 },
    /// Here and there, by a seed, with as many slots as one token uses in one layer.
    Scattered { seed: u64 },
}

impl Experts {
    fn tiers(self, needs: &ModelNeeds) -> ExpertTiers {
        let resident = ExpertTiers::resident(needs.layers, needs.experts);
        let (slots, tier): (u64, &dyn Fn(u64) -> Tier) = match self {
            Self::Resident => return resident,
            Self::Streamed { more_slots } => (more_slots, &|_| Tier::Stream),
            Self::Scattered { seed } => (0, &move |index| scattered(seed, index)),
        };
        ExpertTiers {
            tiers: (0..).map(tier).take(resident.tiers.len()).collect(),
            cache_slots: u64::from(needs.experts_used) + slots,
            slot_bytes: needs.expert_layers.iter().map(|layer| layer.slot_bytes).max().unwrap_or(0),
            ..resident
        }
    }
}

/// A third of the experts each is primary, secondary on one of two devices, and streamed.
fn scattered(seed: u64, index: u64) -> Tier {
    // SplitMix64: neighbours and seeds give unlike numbers.
    let mut bits = seed.wrapping_add(index).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    match (bits >> 32) % 6 {
        0 | 1 => Tier::Primary,
        2 => Tier::Secondary(1),
        3 => Tier::Secondary(2),
        _ => Tier::Stream,
    }
}

impl Run {
    pub(crate) const EXACT: Self = Self {
        n_threads: 1,
        chunk: 512,
        kv_type: KvType::F32,
        first_block: 0,
        experts: Experts::Resident,
        router_bias: None,
        io: None,
        prefetch: false,
    };

    pub(crate) fn load(self, path: &Path, n_tokens: usize) -> Box<dyn Model> {
        self.load_with(path, |_| self.first_block + n_blocks(n_tokens))
    }

    /// A model with so many blocks for a group of layers with a window.
    pub(crate) fn load_with(
        self,
        path: &Path,
        blocks: impl Fn(Option<u32>) -> u32,
    ) -> Box<dyn Model> {
        let file = ModelFile::open(path).expect("the file opens");
        let family = arch(&file.header).expect("a known family");
        let kv_types = KvTypes { k: self.kv_type, v: self.kv_type };
        let needs = (family.needs)(&file.header, kv_types).expect("it can be planned");
        let options = LoadOptions {
            n_threads: self.n_threads,
            n_rows_max: self.chunk,
            n_outputs_max: self.chunk,
            kv_blocks: kv_windows(&needs.state).into_iter().map(blocks).collect(),
            kv_types,
            experts: self.experts.tiers(&needs),
            router_bias: self.router_bias.map(|bias| {
                let experts = |layer| (0..needs.experts).map(move |expert| bias(layer, expert));
                (0..needs.layers).flat_map(experts).collect()
            }),
            io: self.io,
            prefetch: self.prefetch,
            faults: Faults::default(),
            usage: None,
        };
        (family.load)(&file, &options).expect("the model loads")
    }

    /// Logits of every position of a sequence of its own, `[n_tokens, n_vocab]`.
    pub(crate) fn logits(self, path: &Path, token_ids: &[u32]) -> Vec<f32> {
        self.sequence(self.load(path, token_ids.len()).as_mut(), token_ids)
    }

    /// As [`Run::logits`] on a model that [`Run::load`] gave; what it computed before is overwritten.
    pub(crate) fn sequence(self, model: &mut dyn Model, token_ids: &[u32]) -> Vec<f32> {
        let (n_vocab, n_groups) = (model.n_vocab(), model.kv_groups().len());
        let table: Vec<u32> =
            (self.first_block..).take(n_blocks(token_ids.len()) as usize).collect();
        let tables = [table.as_slice()];
        let mut logits = vec![f32::NAN; token_ids.len() * n_vocab];
        let chunks = token_ids.chunks(self.chunk).zip(logits.chunks_mut(self.chunk * n_vocab));
        for (index, (token_ids, logits)) in chunks.enumerate() {
            let first = u32::try_from(index * self.chunk).expect("a short test");
            let positions: Vec<u32> = (first..).take(token_ids.len()).collect();
            let rows: Vec<usize> = (0..token_ids.len()).collect();
            let batch = Batch {
                token_ids,
                positions: &positions,
                sequences: &vec![0; token_ids.len()],
                block_tables: &vec![tables.as_slice(); n_groups],
                output_rows: &rows,
            };
            model.forward(&batch, logits).expect("everything can be read");
        }
        logits
    }

    /// Logits of every position of two sequences that share one step, one after the other.
    pub(crate) fn together(self, path: &Path, sequences: [&[u32]; 2]) -> Vec<f32> {
        let token_ids = sequences.concat();
        let mut model = self.load(path, token_ids.len() + frank_plan::KV_BLOCK_TOKENS as usize);
        let n_first = n_blocks(sequences[0].len());
        let tables: [Vec<u32>; 2] = [
            (self.first_block..).take(n_first as usize).collect(),
            (self.first_block + n_first..).take(n_blocks(sequences[1].len()) as usize).collect(),
        ];
        let tables = [tables[0].as_slice(), &tables[1]];
        let n_groups = model.kv_groups().len();
        let positions: Vec<u32> = sequences.iter().flat_map(|ids| (0..).take(ids.len())).collect();
        let rows: Vec<usize> = (0..token_ids.len()).collect();
        let batch = Batch {
            token_ids: &token_ids,
            positions: &positions,
            sequences: &rows
                .iter()
                .map(|&r| usize::from(r >= sequences[0].len()))
                .collect::<Vec<_>>(),
            block_tables: &vec![tables.as_slice(); n_groups],
            output_rows: &rows,
        };
        let mut logits = vec![f32::NAN; token_ids.len() * model.n_vocab()];
        model.forward(&batch, &mut logits).expect("everything can be read");
        logits
    }
}

fn n_blocks(n_tokens: usize) -> u32 {
    u32::try_from(n_tokens).expect("a short test").div_ceil(frank_plan::KV_BLOCK_TOKENS)
}
