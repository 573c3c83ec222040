//! The frame of dense decoders: sizes, memory, and a step from the embedding through the layers to the head.
//!
//! Which blocks a layer has, and in which order, is written in the file of its family; nothing here asks which it is.

use frank_gguf::ModelHeader;
use frank_hub::ModelFile;
use frank_kernels::{Activations, AttentionShape, Pool, add, rms_norm, rms_norm_in_place};
use frank_os::HUGE_PAGE_BYTES;
use frank_plan::{ComputeNeeds, ModelNeeds};

use crate::arch::{Arch, LoadOptions};
use crate::blocks::Compute;
use crate::blocks::attention::{Attention, AttentionScratch};
use crate::blocks::embedding::Embedding;
use crate::blocks::head::Head;
use crate::blocks::mlp::GatedMlp;
use crate::blocks::rope::{Rope, RopeShape};
use crate::error::{ArchError, LoadError};
use crate::keys::Keys;
use crate::kv::{KvTensors, KvTypes};
use crate::model::{Batch, KvGroup, Model};
use crate::needs::{self, NeedsInput};
use crate::scratch::Scratch;
use crate::shape::Shape;
use crate::weights::{VectorId, WeightTable, Weights};

/// A layer of a family of dense decoders.
pub(crate) trait DenseLayer: Send + Sized + 'static {
    /// The family's name, as files spell it in `general.architecture`.
    const ARCH: &'static str;

    /// Reads the rest of the metadata, refuses what this family does not compute, and places all tensors.
    fn decoder(
        keys: &Keys<'_>,
        shape: &Shape,
        table: &mut WeightTable<'_>,
    ) -> Result<Decoder<Self>, ArchError>;

    /// The layer's attention, whose window and size the planner must know.
    fn attention(&self) -> &Attention;

    /// Computes the layer: reads and writes `hidden` of the step.
    fn forward(&self, step: &mut Step<'_>);
}

/// The tensors of a model by their role.
pub(crate) struct Decoder<L> {
    pub(crate) embedding: Embedding,
    pub(crate) layers: Vec<L>,
    pub(crate) head: Head,
    /// The rotations that the layers name by their place here.
    pub(crate) ropes: Vec<RopeShape>,
}

/// The entry of a family in the table.
pub(crate) const fn arch<L: DenseLayer>() -> Arch {
    Arch { name: L::ARCH, needs: needs::<L>, load: load::<L> }
}

/// Sizes and tensors of the model in `header`.
fn read<L: DenseLayer>(
    header: &ModelHeader,
) -> Result<(Shape, Decoder<L>, WeightTable<'_>), ArchError> {
    let keys = Keys::new(&header.metadata, L::ARCH);
    let shape = Shape::read(&keys, header)?;
    let mut table = WeightTable::new(header);
    let decoder = L::decoder(&keys, &shape, &mut table)?;
    table.refuse_unused(L::ARCH)?;
    Ok((shape, decoder, table))
}

fn needs<L: DenseLayer>(header: &ModelHeader, kv_types: KvTypes) -> Result<ModelNeeds, ArchError> {
    let (shape, decoder, table) = read::<L>(header)?;
    let state = decoder.layers.iter().map(|layer| kv_types.state(&layer.attention().shape));
    // A tied embedding is read whole as the head; one of its own is read one row a token.
    let tied = decoder.head.is_tied(&decoder.embedding);
    let unread = if tied { 0 } else { table.matrix_bytes(decoder.embedding.matrix) };
    Ok(needs::model_needs(
        header,
        NeedsInput {
            arch: L::ARCH,
            context_train: shape.context_train,
            dense_bytes: table.bytes(),
            decode_bytes_per_token: table.bytes() - unread,
            n_vocab: shape.n_vocab,
            state: state.collect(),
            compute: compute_needs(&shape, &decoder.ropes),
        },
    ))
}

fn compute_needs(shape: &Shape, ropes: &[RopeShape]) -> ComputeNeeds {
    let angles: usize = ropes.iter().map(RopeShape::row_bytes).sum();
    let row = Scratch::row_bytes(scratch_widths(shape))
        + Activations::row_bytes(n_in_max(shape))
        + angles;
    let output = needs::output_compute(shape.n_vocab);
    // The scratch is one buffer of whole huge pages.
    let fixed = output.fixed.saturating_add(HUGE_PAGE_BYTES);
    ComputeNeeds { fixed, per_row: row as u64, ..output }
}

/// Widths of the step's scratch: hidden, normed, q, k, v, mixed, delta, gate, up.
fn scratch_widths(shape: &Shape) -> [usize; 9] {
    let AttentionShape { n_head, n_head_kv, head_dim, .. } = shape.attention;
    let (n_q, n_kv) = (n_head * head_dim, n_head_kv * head_dim);
    let Shape { n_embd, n_ff, .. } = *shape;
    [n_embd, n_embd, n_q, n_kv, n_kv, n_q, n_embd, n_ff, n_ff]
}

/// Longest input of a product.
fn n_in_max(shape: &Shape) -> usize {
    shape.n_embd.max(shape.n_ff).max(shape.attention.n_head * shape.attention.head_dim)
}

fn load<L: DenseLayer>(
    file: &ModelFile,
    options: &LoadOptions,
) -> Result<Box<dyn Model>, LoadError> {
    let (shape, decoder, table) = read::<L>(&file.header)?;
    // All that is not weights first: what the system cannot give is known before gigabytes were read.
    let n_rows = options.n_rows_max;
    let layers: Vec<_> = decoder.layers.iter().map(|layer| layer.attention().shape).collect();
    let kv = KvTensors::new(&layers, &options.kv_blocks, options.kv_types)?;
    let scratch = Scratch::new(n_rows, scratch_widths(&shape))?;
    let weights = table.load(file, options.n_threads)?;
    Ok(Box::new(DenseModel {
        ropes: decoder.ropes.iter().map(|rope| Rope::new(rope, &weights, n_rows)).collect(),
        quants: Activations::with_capacity(n_rows, n_in_max(&shape)),
        pool: Pool::new(options.n_threads),
        n_outputs_max: options.n_outputs_max,
        kv,
        scratch,
        weights,
        decoder,
        shape,
    }))
}

/// A loaded model.
struct DenseModel<L> {
    shape: Shape,
    decoder: Decoder<L>,
    weights: Weights,
    ropes: Vec<Rope>,
    kv: KvTensors,
    pool: Pool,
    scratch: Scratch<9>,
    quants: Activations,
    n_outputs_max: usize,
}

impl<L: DenseLayer> Model for DenseModel<L> {
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

    fn forward(&mut self, batch: &Batch<'_>, logits: &mut [f32]) {
        let Decoder { embedding, layers, head, .. } = &self.decoder;
        let [hidden, normed, q, k, v, mixed, delta, gate, up] = self.scratch.split(batch.n_rows());
        embedding.look_up(&self.weights, batch.token_ids, hidden);
        self.ropes.iter_mut().for_each(|rope| rope.fill(batch.positions));
        let (weights, pool, quants) = (&self.weights, &mut self.pool, &mut self.quants);
        let mut step = Step {
            compute: Compute { weights, pool, quants },
            batch,
            kv: &mut self.kv,
            ropes: &self.ropes,
            shape: &self.shape,
            hidden,
            normed,
            delta,
            attention_scratch: AttentionScratch { q, k, v, mixed },
            gate,
            up,
        };
        for layer in layers {
            layer.forward(&mut step);
        }
        let Step { compute, hidden, normed, delta, .. } = &mut step;
        let sizes = (self.shape.n_embd, self.shape.norm_epsilon);
        head.forward(compute, batch.output_rows, sizes, hidden, (delta, normed), logits);
    }
}

/// A step under way: the rows' hidden state, and what the blocks of a layer pass to each other.
pub(crate) struct Step<'a> {
    compute: Compute<'a>,
    batch: &'a Batch<'a>,
    kv: &'a mut KvTensors,
    ropes: &'a [Rope],
    shape: &'a Shape,
    /// `[n_rows, n_embd]`, as are `normed` and `delta`.
    hidden: &'a mut [f32],
    normed: &'a mut [f32],
    delta: &'a mut [f32],
    attention_scratch: AttentionScratch<'a>,
    /// `[n_rows, n_ff]`, as is `up`.
    gate: &'a mut [f32],
    up: &'a mut [f32],
}

impl Step<'_> {
    /// `normed = norm(hidden)`.
    pub(crate) fn norm(&mut self, weight: VectorId) {
        let weight = self.compute.weights.vector(weight);
        rms_norm(self.compute.pool, self.hidden, weight, self.shape.norm_epsilon, self.normed);
    }

    /// `delta = attention(normed)`.
    pub(crate) fn attend(&mut self, attention: &Attention) {
        let rows = (self.batch, &self.ropes[attention.rope]);
        let scratch = &mut self.attention_scratch;
        attention.forward(&mut self.compute, rows, self.kv, scratch, self.normed, self.delta);
    }

    /// `delta = mlp(normed)`.
    pub(crate) fn transform(&mut self, mlp: &GatedMlp) {
        let sizes = (self.shape.n_embd, self.shape.n_ff);
        mlp.forward(&mut self.compute, sizes, self.normed, (self.gate, self.up), self.delta);
    }

    /// `delta = norm(delta)`.
    pub(crate) fn norm_delta(&mut self, weight: VectorId) {
        let weight = self.compute.weights.vector(weight);
        rms_norm_in_place(self.compute.pool, self.delta, weight, self.shape.norm_epsilon);
    }

    /// `hidden += delta`.
    pub(crate) fn add(&mut self) {
        add(self.compute.pool, self.hidden, self.delta);
    }
}
