//! The frame of decoders: sizes, memory, and a step from the embedding through the layers to the head.
//!
//! Which blocks a layer has, and in which order, is written in the file of its family; nothing here asks which it is.

pub(crate) mod plain;
pub(crate) mod pre_norm;
mod step;
mod widths;

use frank_experts::{ExpertStore, ExpertTable, StoreOptions, StoreStatistics};
use frank_gguf::ModelHeader;
use frank_hub::ModelFile;
use frank_kernels::{Activations, AttentionShape, Pool};
use frank_os::HUGE_PAGE_BYTES;
use frank_plan::{ComputeNeeds, ModelNeeds};

use crate::arch::{Arch, LoadOptions};
use crate::blocks::Compute;
use crate::blocks::attention::Attend;
use crate::blocks::embedding::Embedding;
use crate::blocks::feed_forward::FeedForward;
use crate::blocks::head::Head;
use crate::blocks::moe::MoeStep;
use crate::blocks::rope::{Rope, RopeShape};
use crate::blocks::routes::Routes;
use crate::error::{ArchError, LoadError, StepError};
use crate::keys::Keys;
use crate::kv::{KvTensors, KvTypes};
use crate::model::{Batch, KvGroup, Model};
use crate::needs::{self, NeedsInput};
use crate::scratch::Scratch;
use crate::shape::moe::MoeDefaults;
use crate::shape::{self, Shape};
use crate::weights::{VectorId, WeightTable, Weights};
use step::NextMixture;
pub(crate) use step::Step;
use widths::{Columns, N_COLUMNS, Widths};

/// A family of decoders.
pub(crate) trait Family {
    /// What its models are stacks of.
    type Layer: DecoderLayer;

    /// The family's name, as files spell it in `general.architecture`.
    const ARCH: &'static str;

    /// What the family assumes of its mixtures of experts; `None` when it has none.
    const MOE: Option<MoeDefaults> = None;

    /// What a layer keeps of each token, and how it scores, for `n_head` query heads; without a window.
    fn attention_shape(
        keys: &Keys<'_>,
        n_embd: usize,
        n_head: usize,
    ) -> Result<AttentionShape, ArchError> {
        shape::attention_shape(keys, n_embd, n_head)
    }

    /// Reads the rest of the metadata, refuses what this family does not compute, and places all tensors.
    fn decoder(
        keys: &Keys<'_>,
        shape: &Shape,
        table: &mut WeightTable<'_>,
    ) -> Result<Decoder<Self::Layer>, ArchError>;
}

/// A layer of a decoder.
pub(crate) trait DecoderLayer: Send + 'static {
    /// The layer's attention, whose window and size the planner must know.
    fn attention(&self) -> &dyn Attend;

    /// What follows it.
    fn feed_forward(&self) -> &FeedForward;

    /// The norm of what that computes on.
    fn feed_forward_norm(&self) -> VectorId;

    /// Computes the layer: reads and writes `hidden` of the step.
    fn forward(&self, step: &mut Step<'_>) -> Result<(), StepError>;
}

/// The tensors of a model by their role.
pub(crate) struct Decoder<L> {
    pub(crate) embedding: Embedding,
    pub(crate) layers: Vec<L>,
    pub(crate) head: Head,
    /// The rotations that the layers name by their place here.
    pub(crate) ropes: Vec<RopeShape>,
}

impl<L> Decoder<L> {
    /// Places the embedding, each layer as `place_layer` does it, and the head.
    pub(crate) fn place(
        table: &mut WeightTable<'_>,
        shape: &Shape,
        ropes: Vec<RopeShape>,
        mut place_layer: impl FnMut(&mut WeightTable<'_>, usize) -> Result<L, ArchError>,
    ) -> Result<Self, ArchError> {
        let embedding = Embedding::place(table, shape.n_embd, shape.n_vocab)?;
        let layers =
            (0..shape.n_layers).map(|i| place_layer(table, i)).collect::<Result<_, _>>()?;
        let head = Head::place(table, &embedding, shape)?;
        Ok(Self { embedding, layers, head, ropes })
    }
}

/// The entry of a family in the table.
pub(crate) const fn arch<F: Family>() -> Arch {
    Arch { name: F::ARCH, needs: needs::<F>, load: load::<F> }
}

/// Sizes and tensors of the model in `header`.
fn read<F: Family>(
    header: &ModelHeader,
) -> Result<(Shape, Decoder<F::Layer>, WeightTable<'_>), ArchError> {
    let keys = Keys::new(&header.metadata, F::ARCH);
    let shape = Shape::read(&keys, header, F::MOE, F::attention_shape)?;
    let mut table = WeightTable::new(header);
    let decoder = F::decoder(&keys, &shape, &mut table)?;
    table.refuse_unused(F::ARCH, (shape.n_layers, shape.n_drafting))?;
    Ok((shape, decoder, table))
}

fn needs<F: Family>(header: &ModelHeader, kv_types: KvTypes) -> Result<ModelNeeds, ArchError> {
    let (shape, decoder, table) = read::<F>(header)?;
    decoder.layers.iter().try_for_each(|layer| kv_types.check(layer.attention().shape()))?;
    let state = decoder.layers.iter().map(|layer| kv_types.state(layer.attention().shape()));
    // A tied embedding is read whole as the head; one of its own is read one row a token.
    let tied = decoder.head.is_tied(&decoder.embedding);
    let unread = if tied { 0 } else { table.matrix_bytes(decoder.embedding.matrix) };
    Ok(needs::model_needs(
        header,
        NeedsInput {
            arch: F::ARCH,
            shape: &shape,
            weights: &table,
            unread_bytes: unread,
            state: state.collect(),
            compute: compute_needs(&shape, &decoder),
        },
    ))
}

fn compute_needs<L: DecoderLayer>(shape: &Shape, decoder: &Decoder<L>) -> ComputeNeeds {
    let angles: usize = decoder.ropes.iter().map(RopeShape::row_bytes).sum();
    let row = Widths::of(shape, &decoder.layers).row_bytes().saturating_add(angles);
    let output = needs::output_compute(shape.n_vocab);
    // The scratch is one buffer of whole huge pages.
    let fixed = output.fixed.saturating_add(HUGE_PAGE_BYTES);
    ComputeNeeds { fixed, per_row: row as u64, ..output }
}

fn load<F: Family>(file: &ModelFile, options: &LoadOptions) -> Result<Box<dyn Model>, LoadError> {
    let (shape, decoder, table) = read::<F>(&file.header)?;
    // All that is not weights first: what the system cannot give is known before gigabytes were read.
    let n_rows = options.n_rows_max;
    let layers: Vec<_> = decoder.layers.iter().map(|layer| *layer.attention().shape()).collect();
    let kv = KvTensors::new(&layers, &options.kv_blocks, options.kv_types)?;
    let widths = Widths::of(&shape, &decoder.layers);
    let scratch = Scratch::new(n_rows, widths.columns())?;
    let mut pool = start_pool(options)?;
    let expert_table = table.expert_table(shape.n_layers);
    let weights = table.load(file, options.n_threads, options.io)?;
    let experts = expert_table
        .map(|table| open_experts(file, table, &shape, options, &mut pool))
        .transpose()?;
    Ok(Box::new(DecoderModel {
        ropes: decoder.ropes.iter().map(|rope| Rope::new(rope, &weights, n_rows)).collect(),
        quants: Activations::with_capacity(n_rows, widths.n_in()),
        routes: widths.routes(n_rows),
        next_routes: widths.routes(n_rows),
        prefetch: options.prefetch,
        pool,
        n_outputs_max: options.n_outputs_max,
        router_bias: options.router_bias.clone(),
        kv,
        scratch,
        experts,
        weights,
        decoder,
        shape,
    }))
}

/// Starts the threads that compute. One alone needs none of the system's.
fn start_pool(options: &LoadOptions) -> Result<Pool, LoadError> {
    let n_threads = options.n_threads;
    let allowed = if n_threads > 1 { options.faults.thread() } else { Ok(()) };
    allowed
        .and_then(|()| Pool::start(n_threads))
        .map_err(|source| LoadError::Threads { n_threads, source })
}

/// Takes the memory of the experts and reads those that are resident.
fn open_experts(
    file: &ModelFile,
    table: ExpertTable,
    shape: &Shape,
    options: &LoadOptions,
    pool: &mut Pool,
) -> Result<ExpertStore, LoadError> {
    let store_options = StoreOptions {
        tiers: options.experts.tiers.clone(),
        cache_slots: usize::try_from(options.experts.cache_slots).unwrap_or(usize::MAX),
        io: options.io,
        prefetch: options.prefetch,
        faults: options.faults,
        usage: options.usage.clone(),
        n_used: shape.moe.map_or(0, |moe| moe.n_used),
    };
    Ok(ExpertStore::open(table, file.data_files(), &store_options, pool)?)
}

/// A loaded model.
struct DecoderModel<L> {
    shape: Shape,
    decoder: Decoder<L>,
    weights: Weights,
    ropes: Vec<Rope>,
    kv: KvTensors,
    pool: Pool,
    scratch: Scratch<N_COLUMNS>,
    quants: Activations,
    n_outputs_max: usize,
    experts: Option<ExpertStore>,
    routes: Routes,
    next_routes: Routes,
    prefetch: bool,
    /// `[n_layers, n_expert]`.
    router_bias: Option<Vec<f32>>,
}

impl<L: DecoderLayer> Model for DecoderModel<L> {
    fn n_vocab(&self) -> usize {
        self.shape.n_vocab
    }

    fn n_rows_max(&self) -> usize {
        self.scratch.n_rows_max()
    }

    fn n_outputs_max(&self) -> usize {
        self.n_outputs_max
    }

    fn kv_groups(&self) -> &[KvGroup] {
        self.kv.groups()
    }

    fn copy_block(&mut self, group: usize, from: u32, to: u32) {
        self.kv.copy_block(group, from, to);
    }

    fn read_block(&self, group: usize, block: u32, out: &mut [u8]) {
        self.kv.read_block(group, block, out);
    }

    fn write_block(&mut self, group: usize, block: u32, bytes: &[u8]) {
        self.kv.write_block(group, block, bytes);
    }

    fn expert_statistics(&self) -> Option<StoreStatistics> {
        self.experts.as_ref().map(ExpertStore::statistics)
    }

    fn expert_usage(&self) -> Option<&[u64]> {
        self.experts.as_ref().map(ExpertStore::usage)
    }

    fn io_fallback(&self) -> Option<&str> {
        self.experts.as_ref().and_then(ExpertStore::io_fallback)
    }

    fn idle(&mut self) -> bool {
        self.experts.as_mut().is_some_and(|experts| experts.idle(&mut self.pool))
    }

    fn forward(&mut self, batch: &Batch<'_>, logits: &mut [f32]) -> Result<(), StepError> {
        let Decoder { embedding, layers, head, .. } = &self.decoder;
        let columns = self.scratch.split(batch.n_rows());
        let Columns { hidden, normed, delta, attention, gate, up, moe } = Columns::of(columns);
        embedding.look_up(&self.weights, batch.token_ids, hidden);
        self.ropes.iter_mut().for_each(|rope| rope.fill(batch.positions));
        let (weights, pool, quants) = (&self.weights, &mut self.pool, &mut self.quants);
        let moe = self.experts.as_mut().map(|store| MoeStep {
            store,
            routes: &mut self.routes,
            next_routes: &mut self.next_routes,
            prefetch: self.prefetch,
            router_bias: self.router_bias.as_deref(),
            scratch: moe,
        });
        let mut step = Step {
            compute: Compute { weights, pool, quants },
            batch,
            kv: &mut self.kv,
            ropes: &self.ropes,
            shape: &self.shape,
            hidden,
            normed,
            delta,
            attention,
            gate,
            up,
            moe,
            next: None,
        };
        for (i, layer) in layers.iter().enumerate() {
            step.next = layers.get(i + 1).and_then(NextMixture::of);
            layer.forward(&mut step)?;
        }
        let Step { compute, hidden, normed, delta, .. } = &mut step;
        let sizes = (self.shape.n_embd, self.shape.norm_epsilon);
        head.forward(compute, batch.output_rows, sizes, hidden, (delta, normed), logits);
        Ok(())
    }
}
