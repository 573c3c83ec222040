//! What a model needs in memory, from its header alone; for families that cannot be loaded yet, from its tensors.

mod assumed;
mod from_keys;
mod from_tensors;

use frank_experts::staging_bytes;
use frank_gguf::ModelHeader;
use frank_os::{AnonBuffer, program_bytes};
use frank_plan::{ComputeNeeds, ExpertLayer, ModelNeeds};

use crate::arch::arch;
use crate::error::ArchError;
use crate::kv::KvTypes;
use crate::shape::Shape;
use crate::weights::{STAGING_BYTES, WeightTable};
use crate::work::prompt_work;
use from_tensors::from_tensors;

/// Stacks, allocator, libraries and the HTTP side of a serving process, without the tokenizer, less what was freed after
/// loading.
///
/// Source: peak RSS of `frank serve` less everything else in the plan, see `docs/measurements.md`.
const RUNTIME_BASE_BYTES: u64 = 1 << 19;

/// Percent of the program that a serving process touches, or gets along with pages that it touches.
///
/// Source: as [`RUNTIME_BASE_BYTES`]; 81 in a release build of 14 MiB, 72 in one of 20 MiB with checks of overflows and
/// assertions, about as much without optimizations.
const PROGRAM_PERCENT: u64 = 70;

/// Tokenizer, vocabulary and what the header leaves in the allocator, for one token of the vocabulary; 115 bytes of it
/// are the trie of tokens that the first grammar makes.
///
/// Source: as [`RUNTIME_BASE_BYTES`].
const RUNTIME_TOKEN_BYTES: u64 = 304;

/// As [`RUNTIME_TOKEN_BYTES`] for a SentencePiece vocabulary, which has scores in the place of merges; 190 bytes
/// are the trie, whose tokens are longer.
///
/// Source: as [`RUNTIME_BASE_BYTES`], with Gemma 3 270M.
const RUNTIME_SPM_TOKEN_BYTES: u64 = 276;

/// A page table of x86-64 has 8 bytes for each page of 4 KiB, and the kernel keeps it beside a huge page too.
const PAGE_TABLE_REACH: u64 = 4096 / 8;

/// Bytes of logits for one token of the vocabulary.
const LOGIT_BYTES: u64 = 4;

/// Bytes of sampling candidates and of log probabilities for one token of the vocabulary, of the one answer at a time
/// that is sampled.
const SAMPLING_TOKEN_BYTES: u64 = 8 + 4;

/// The grammar that the answer of a request is kept to, compiled and followed.
///
/// Source: growth of `frank serve` under `cargo xtask soak` with four requests at a time, see `docs/measurements.md`.
const GRAMMAR_BYTES: u64 = 1 << 19;

/// The needs of a model of any family.
///
/// A family or a tensor type that cannot be loaded is planned from the tensors' sizes in the file, and what stands in parts
/// that are not there from those that are; warnings say so.
///
/// # Errors
/// [`ArchError`] when the header does not even name its architecture, or its heads cannot be kept as `kv_types`.
pub fn needs(header: &ModelHeader, kv_types: KvTypes) -> Result<ModelNeeds, ArchError> {
    let name = header.architecture()?;
    // Heads that the wanted types do not divide are no reason to plan with less knowledge.
    let known = |header| match arch(header).and_then(|arch| (arch.needs)(header, kv_types)) {
        Err(error @ ArchError::KvHead { .. }) => Err(error),
        needs => Ok(needs),
    };
    if header.n_tensors_missing == 0 {
        return Ok(known(header)?
            .unwrap_or_else(|error| from_tensors(header, name, kv_types, Some(&error))));
    }
    let (header, warning) = assumed::completed(header)?;
    let mut needs = known(&header)?.unwrap_or_else(|_| from_tensors(&header, name, kv_types, None));
    needs.warnings.insert(0, warning);
    Ok(needs)
}

/// What a family says of its model.
pub(crate) struct NeedsInput<'a> {
    pub(crate) arch: &'static str,
    pub(crate) shape: &'a Shape,
    pub(crate) weights: &'a WeightTable<'a>,
    /// Dense weights of which a decoded token reads next to nothing.
    pub(crate) unread_bytes: u64,
    pub(crate) state: Vec<frank_plan::LayerState>,
    pub(crate) compute: ComputeNeeds,
}

/// Fills in what is the same for every family.
pub(crate) fn model_needs(header: &ModelHeader, input: NeedsInput<'_>) -> ModelNeeds {
    let NeedsInput { arch, shape, weights, unread_bytes, state, compute } = input;
    // Where all layers are leading ones, sizes of experts mean nothing.
    let moe = shape.moe.filter(|moe| moe.n_leading_dense < shape.n_layers);
    let (n_expert, n_used) = moe.map_or((0, 0), |moe| (moe.n_expert, moe.n_used));
    let layer = |(layer, n_experts, slot_bytes)| ExpertLayer {
        layer: saturate(layer),
        n_experts: saturate(n_experts),
        n_used: saturate(n_used),
        slot_bytes,
    };
    let expert_layers: Vec<_> = weights.expert_layers().map(layer).collect();
    let used_bytes = slot_bytes(&expert_layers, |layer| layer.n_used);
    ModelNeeds {
        arch: arch.to_owned(),
        file_bytes: header.file_bytes(),
        layers: saturate(state.len()),
        experts: saturate(n_expert),
        experts_used: saturate(n_used),
        context_train: saturate(shape.context_train),
        dense_bytes: AnonBuffer::occupied(weights.bytes()),
        expert_bytes: slot_bytes(&expert_layers, |layer| layer.n_experts),
        expert_staging_bytes: staging_bytes(weights.expert_file_bytes_max(), n_used as u64),
        state,
        compute,
        runtime_bytes: runtime_bytes(header, shape.n_vocab),
        page_table_reach: PAGE_TABLE_REACH,
        io_staging_bytes: STAGING_BYTES as u64,
        decode_bytes_per_token: (weights.bytes() - unread_bytes).saturating_add(used_bytes),
        prompt: prompt_work(header, arch),
        warnings: widening_warning(weights).into_iter().collect(),
        expert_layers,
    }
}

/// Bytes of so many experts of each layer in memory.
fn slot_bytes(layers: &[ExpertLayer], n_experts: fn(&ExpertLayer) -> u32) -> u64 {
    let bytes = |layer| u64::from(n_experts(layer)).saturating_mul(layer.slot_bytes);
    layers.iter().map(bytes).fold(0, u64::saturating_add)
}

/// Says that a file in an old layout takes more memory than its size, where it does.
fn widening_warning(weights: &WeightTable<'_>) -> Option<String> {
    let bytes = weights.widened_bytes();
    (bytes > 0).then(|| {
        format!(
            "the file has attn_kv_b in place of attn_k_b and attn_v_b: its keys are transposed and held in F32, {} MiB of \
             the dense weights",
            bytes.div_ceil(1 << 20)
        )
    })
}

/// Scratch of the output side: a row of logits for each parallel request, and the candidates of one; saturates, since a
/// header alone may claim any vocabulary.
pub(crate) fn output_compute(n_vocab: usize) -> ComputeNeeds {
    ComputeNeeds {
        fixed: (n_vocab as u64).saturating_mul(SAMPLING_TOKEN_BYTES),
        per_output_row: (n_vocab as u64).saturating_mul(LOGIT_BYTES),
        per_request: GRAMMAR_BYTES,
        ..ComputeNeeds::default()
    }
}

fn runtime_bytes(header: &ModelHeader, n_vocab: usize) -> u64 {
    let token_bytes = match header.metadata.str("tokenizer.ggml.model") {
        Ok(Some("llama")) => RUNTIME_SPM_TOKEN_BYTES,
        _ => RUNTIME_TOKEN_BYTES,
    };
    let base = RUNTIME_BASE_BYTES + program_bytes() * PROGRAM_PERCENT / 100;
    base.saturating_add(token_bytes.saturating_mul(n_vocab as u64))
}

fn saturate(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
