//! `llama`: dense decoders of the Llama family (Llama, SmolLM, and others converted to this name).
//!
//! RMS norms before attention and MLP, grouped-query attention with adjacent-pair RoPE (the converter permutes the
//! query and key rows), gated SiLU MLP, an output head of its own or tied to the embedding.

use frank_gguf::ModelHeader;
use frank_hub::ModelFile;
use frank_kernels::{Activations, AttentionShape, Pool, RopeTable, add, rms_norm};
use frank_os::HUGE_PAGE_BYTES;
use frank_plan::{ComputeNeeds, LayerState, ModelNeeds};

use crate::arch::LoadOptions;
use crate::blocks::Compute;
use crate::blocks::attention::{Attention, AttentionScratch, AttentionWeights};
use crate::blocks::mlp::GatedMlp;
use crate::error::{ArchError, LoadError};
use crate::keys::Keys;
use crate::kv::{KvTensors, KvTypes};
use crate::model::{Batch, Model};
use crate::needs::{self, NeedsInput};
use crate::scratch::Scratch;
use crate::weights::{MatrixId, VectorId, WeightTable, Weights};

const NAME: &str = "llama";

/// Sizes of a model, read from its metadata and checked.
#[derive(Debug, Clone, Copy)]
struct Shape {
    n_vocab: usize,
    n_embd: usize,
    n_ff: usize,
    n_layers: usize,
    attention: AttentionShape,
    n_rot: usize,
    rope_base: f32,
    norm_epsilon: f32,
    context_train: usize,
}

#[derive(Debug, Clone, Copy)]
struct Layer {
    attention_norm: VectorId,
    attention: AttentionWeights,
    mlp_norm: VectorId,
    mlp: GatedMlp,
}

/// The tensors of a model by their role.
#[derive(Debug)]
struct Parts {
    embedding: MatrixId,
    layers: Vec<Layer>,
    output_norm: VectorId,
    head: MatrixId,
    /// Divisors of the rotation frequencies, where the file has them.
    rope_factors: Option<VectorId>,
}

impl Shape {
    fn read(header: &ModelHeader) -> Result<Self, ArchError> {
        let keys = Keys::new(&header.metadata, NAME);
        refuse_variants(&keys)?;
        let n_embd = keys.required_count("embedding_length")?;
        let n_head = keys.required_count("attention.head_count")?;
        let attention = attention_shape(&keys, n_embd, n_head)?;
        let n_rot = keys.count("rope.dimension_count")?.unwrap_or(attention.head_dim);
        if n_rot == 0 || n_rot > attention.head_dim || !n_rot.is_multiple_of(2) {
            return Err(keys.value_error(
                "rope.dimension_count",
                &n_rot,
                "it must be even and fit in a head",
            ));
        }
        Ok(Self {
            n_vocab: n_vocab(&keys, header)?,
            n_embd,
            n_ff: keys.required_count("feed_forward_length")?,
            n_layers: keys.required_count("block_count")?,
            attention,
            n_rot,
            rope_base: keys.positive_float("rope.freq_base")?.unwrap_or(10_000.0),
            norm_epsilon: keys
                .positive_float("attention.layer_norm_rms_epsilon")?
                .ok_or_else(|| keys.missing("attention.layer_norm_rms_epsilon"))?,
            context_train: keys.count("context_length")?.unwrap_or(0),
        })
    }

    /// Widths of the step's scratch: hidden, normed, q, k, v, mixed, delta, gate, up.
    fn scratch_widths(&self) -> [usize; 9] {
        let AttentionShape { n_head, n_head_kv, head_dim, .. } = self.attention;
        let (n_q, n_kv) = (n_head * head_dim, n_head_kv * head_dim);
        [self.n_embd, self.n_embd, n_q, n_kv, n_kv, n_q, self.n_embd, self.n_ff, self.n_ff]
    }

    /// Longest input of a product.
    fn n_in_max(&self) -> usize {
        self.n_embd.max(self.n_ff).max(self.attention.n_head * self.attention.head_dim)
    }

    fn compute(&self) -> ComputeNeeds {
        let row = Scratch::row_bytes(self.scratch_widths())
            + Activations::row_bytes(self.n_in_max())
            + RopeTable::row_bytes(self.n_rot / 2);
        // The scratch is one buffer of whole huge pages.
        let fixed = HUGE_PAGE_BYTES;
        ComputeNeeds { fixed, per_row: row as u64, ..needs::output_compute(self.n_vocab) }
    }
}

/// Refuses what the metadata says and this file does not compute.
fn refuse_variants(keys: &Keys<'_>) -> Result<(), ArchError> {
    if let Some(n) = keys.count("expert_count")?.filter(|&n| n > 0) {
        return Err(keys.value_error(
            "expert_count",
            &n,
            "mixtures of experts of this family are not supported",
        ));
    }
    if let Some(scaling) = keys.text("rope.scaling.type")?.filter(|&scaling| scaling != "none") {
        return Err(keys.value_error(
            "rope.scaling.type",
            &scaling,
            "only unscaled positions are supported",
        ));
    }
    if let Some(scale) = keys.float("rope.scale_linear")?.filter(|&scale| scale != 1.0) {
        return Err(keys.value_error(
            "rope.scale_linear",
            &scale,
            "only unscaled positions are supported",
        ));
    }
    Ok(())
}

fn attention_shape(
    keys: &Keys<'_>,
    n_embd: usize,
    n_head: usize,
) -> Result<AttentionShape, ArchError> {
    let n_head_kv = keys.count("attention.head_count_kv")?.unwrap_or(n_head);
    let head_dim = keys.count("attention.key_length")?.unwrap_or(n_embd / n_head);
    if let Some(n) = keys.count("attention.value_length")?.filter(|&n| n != head_dim) {
        return Err(keys.value_error(
            "attention.value_length",
            &n,
            "keys and values must have one length",
        ));
    }
    #[expect(clippy::cast_precision_loss, reason = "a head has far fewer than 2^24 values")]
    let scale = 1.0 / (head_dim as f32).sqrt();
    let shape = AttentionShape { n_head, n_head_kv, head_dim, scale };
    if !shape.is_supported() {
        let heads = format!("{n_head} over {n_head_kv} heads of {head_dim}");
        return Err(keys.value_error(
            "attention.head_count",
            &heads,
            "query heads must be a multiple of key heads, and heads a multiple of 16 of at most 256",
        ));
    }
    Ok(shape)
}

/// The vocabulary is what the embedding holds; a key that says otherwise is an error of the file.
fn n_vocab(keys: &Keys<'_>, header: &ModelHeader) -> Result<usize, ArchError> {
    let missing = || ArchError::MissingTensor { name: "token_embd.weight".to_owned() };
    let rows =
        header.tensor("token_embd.weight").ok_or_else(missing)?.dims.get(1).copied().unwrap_or(1);
    let n_vocab = usize::try_from(rows)
        .map_err(|_| keys.value_error("vocab_size", &rows, "it is too large"))?;
    match keys.count("vocab_size")? {
        Some(n) if n != n_vocab => {
            Err(keys.value_error("vocab_size", &n, "token_embd.weight has another number of rows"))
        }
        _ => Ok(n_vocab),
    }
}

impl Parts {
    fn place(shape: &Shape, table: &mut WeightTable<'_>) -> Result<Self, ArchError> {
        let embedding = table.matrix("token_embd.weight", shape.n_embd, shape.n_vocab)?;
        let layers =
            (0..shape.n_layers).map(|i| place_layer(shape, table, i)).collect::<Result<_, _>>()?;
        let output_norm = table.vector("output_norm.weight", shape.n_embd)?;
        let head = if table.has("output.weight") {
            table.matrix("output.weight", shape.n_embd, shape.n_vocab)?
        } else {
            embedding
        };
        let has_factors = table.has("rope_freqs.weight");
        let rope_factors =
            has_factors.then(|| table.vector("rope_freqs.weight", shape.n_rot / 2)).transpose()?;
        table.refuse_unused(NAME)?;
        Ok(Self { embedding, layers, output_norm, head, rope_factors })
    }
}

fn place_layer(shape: &Shape, table: &mut WeightTable<'_>, i: usize) -> Result<Layer, ArchError> {
    let AttentionShape { n_head, n_head_kv, head_dim, .. } = shape.attention;
    let (n_q, n_kv, n_embd, n_ff) =
        (n_head * head_dim, n_head_kv * head_dim, shape.n_embd, shape.n_ff);
    let name = |part: &str| format!("blk.{i}.{part}.weight");
    Ok(Layer {
        attention_norm: table.vector(&name("attn_norm"), n_embd)?,
        attention: AttentionWeights {
            q: table.matrix(&name("attn_q"), n_embd, n_q)?,
            k: table.matrix(&name("attn_k"), n_embd, n_kv)?,
            v: table.matrix(&name("attn_v"), n_embd, n_kv)?,
            output: table.matrix(&name("attn_output"), n_q, n_embd)?,
        },
        mlp_norm: table.vector(&name("ffn_norm"), n_embd)?,
        mlp: GatedMlp {
            gate: table.matrix(&name("ffn_gate"), n_embd, n_ff)?,
            up: table.matrix(&name("ffn_up"), n_embd, n_ff)?,
            down: table.matrix(&name("ffn_down"), n_ff, n_embd)?,
        },
    })
}

/// What a model of this family needs in memory.
pub(super) fn needs(header: &ModelHeader, kv_types: KvTypes) -> Result<ModelNeeds, ArchError> {
    let shape = Shape::read(header)?;
    let mut table = WeightTable::new(header);
    let parts = Parts::place(&shape, &mut table)?;
    let token_bytes = kv_types.token_bytes(shape.attention.n_head_kv * shape.attention.head_dim);
    let state =
        vec![LayerState::Paged { bytes_per_token: token_bytes, window: None }; shape.n_layers];
    // A tied embedding is read whole as the head; one of its own is read one row a token.
    let tied = parts.head.is(parts.embedding);
    let unread = if tied { 0 } else { table.matrix_bytes(parts.embedding) };
    Ok(needs::model_needs(
        header,
        NeedsInput {
            arch: NAME,
            context_train: shape.context_train,
            dense_bytes: table.bytes(),
            decode_bytes_per_token: table.bytes() - unread,
            n_vocab: shape.n_vocab,
            state,
            compute: shape.compute(),
        },
    ))
}

/// Reads the weights and takes all memory that the model will use.
pub(super) fn load(file: &ModelFile, options: LoadOptions) -> Result<Box<dyn Model>, LoadError> {
    let shape = Shape::read(&file.header)?;
    let mut table = WeightTable::new(&file.header);
    let parts = Parts::place(&shape, &mut table)?;
    // All that is not weights first: what the system cannot give is known before gigabytes were read.
    let n_rows = options.n_rows_max;
    let kv_blocks = options.kv_blocks as usize;
    let kv = KvTensors::new(shape.n_layers, kv_blocks, &shape.attention, options.kv_types)?;
    let scratch = Scratch::new(n_rows, shape.scratch_widths())?;
    let weights = table.load(file)?;
    let factors = parts.rope_factors.map(|id| weights.vector(id));
    Ok(Box::new(Llama {
        inverse_frequencies: inverse_frequencies(&shape, factors),
        quants: Activations::with_capacity(n_rows, shape.n_in_max()),
        rope: RopeTable::with_capacity(n_rows, shape.n_rot / 2),
        pool: Pool::new(options.n_threads),
        n_outputs_max: options.n_outputs_max,
        kv,
        scratch,
        weights,
        parts,
        shape,
    }))
}

/// `base^(-2i / n_rot)` for each pair, divided by the file's factors where it has them.
fn inverse_frequencies(shape: &Shape, factors: Option<&[f32]>) -> Vec<f32> {
    #[expect(clippy::cast_precision_loss, reason = "a head has far fewer than 2^24 values")]
    let frequency = |i: usize| 1.0 / shape.rope_base.powf((2 * i) as f32 / shape.n_rot as f32);
    let factor = |i: usize| factors.map_or(1.0, |factors| factors[i]);
    (0..shape.n_rot / 2).map(|i| frequency(i) / factor(i)).collect()
}

/// A loaded model.
struct Llama {
    shape: Shape,
    parts: Parts,
    weights: Weights,
    inverse_frequencies: Vec<f32>,
    kv: KvTensors,
    pool: Pool,
    scratch: Scratch<9>,
    quants: Activations,
    rope: RopeTable,
    n_outputs_max: usize,
}

impl Model for Llama {
    fn n_vocab(&self) -> usize {
        self.shape.n_vocab
    }

    fn n_rows_max(&self) -> usize {
        self.scratch.n_rows_max()
    }

    fn n_outputs_max(&self) -> usize {
        self.n_outputs_max
    }

    fn forward(&mut self, batch: &Batch<'_>, logits: &mut [f32]) {
        let Shape { n_embd, n_ff, norm_epsilon, attention: shape, .. } = self.shape;
        let [hidden, normed, q, k, v, mixed, delta, gate, up] = self.scratch.split(batch.n_rows());
        let compute =
            &mut Compute { weights: &self.weights, pool: &mut self.pool, quants: &mut self.quants };
        let embedding = self.weights.matrix(self.parts.embedding);
        for (&token_id, row) in batch.token_ids.iter().zip(hidden.chunks_exact_mut(n_embd)) {
            embedding.row(token_id as usize, row);
        }
        self.rope.fill(batch.positions, &self.inverse_frequencies);
        let scratch = &mut AttentionScratch { q, k, v, mixed };
        for (index, layer) in self.parts.layers.iter().enumerate() {
            rms_norm(hidden, self.weights.vector(layer.attention_norm), norm_epsilon, normed);
            let attention = Attention {
                weights: layer.attention,
                shape,
                layer: index,
                rope: &self.rope,
                batch,
            };
            attention.forward(compute, &mut self.kv, scratch, normed, delta);
            add(hidden, delta);
            rms_norm(hidden, self.weights.vector(layer.mlp_norm), norm_epsilon, normed);
            layer.mlp.forward(compute, (n_embd, n_ff), normed, (gate, up), delta);
            add(hidden, delta);
        }
        let wanted = &mut delta[..batch.output_rows.len() * n_embd];
        for (&row, wanted) in batch.output_rows.iter().zip(wanted.chunks_exact_mut(n_embd)) {
            wanted.copy_from_slice(&hidden[row * n_embd..][..n_embd]);
        }
        let normed = &mut normed[..wanted.len()];
        rms_norm(wanted, self.weights.vector(self.parts.output_norm), norm_epsilon, normed);
        compute.linear(normed, n_embd, [(self.parts.head, logits)]);
    }
}
