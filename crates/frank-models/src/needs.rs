//! What a model needs in memory, from its header alone; for families that cannot be loaded yet, from its tensors.

use frank_gguf::{GgufError, ModelHeader};
use frank_os::AnonBuffer;
use frank_plan::{ComputeNeeds, ModelNeeds};

use crate::arch::arch;
use crate::error::ArchError;
use crate::keys::Keys;
use crate::kv::KvTypes;
use crate::weights::STAGING_BYTES;
use crate::work::prompt_work;

/// Code, stacks, allocator and the HTTP side of a serving process, without the tokenizer.
///
/// Source: peak RSS of `frank serve` less everything else in the plan, see `docs/measurements.md`.
const RUNTIME_BASE_BYTES: u64 = 9 << 20;

/// Tokenizer, vocabulary and what the header leaves in the allocator, for one token of the vocabulary; 115 bytes of it
/// are the trie of tokens that the first grammar makes.
///
/// Source: as [`RUNTIME_BASE_BYTES`].
const RUNTIME_TOKEN_BYTES: u64 = 284;

/// As [`RUNTIME_TOKEN_BYTES`] for a SentencePiece vocabulary, which has scores in the place of merges; 190 bytes
/// are the trie, whose tokens are longer.
///
/// Source: as [`RUNTIME_BASE_BYTES`], with Gemma 3 270M.
const RUNTIME_SPM_TOKEN_BYTES: u64 = 266;

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
/// A family or a tensor type that cannot be loaded is planned from the tensors' sizes in the file, and a warning
/// says so.
///
/// # Errors
/// [`GgufError`] when the header does not even name its architecture.
pub fn needs(header: &ModelHeader, kv_types: KvTypes) -> Result<ModelNeeds, GgufError> {
    let name = header.architecture()?;
    let known = arch(header).and_then(|arch| (arch.needs)(header, kv_types));
    Ok(known.unwrap_or_else(|error| from_tensors(header, name, kv_types, &error)))
}

/// What an architecture file says of its model.
pub(crate) struct NeedsInput {
    pub(crate) arch: &'static str,
    pub(crate) context_train: usize,
    pub(crate) dense_bytes: u64,
    pub(crate) decode_bytes_per_token: u64,
    pub(crate) n_vocab: usize,
    pub(crate) state: Vec<frank_plan::LayerState>,
    pub(crate) compute: ComputeNeeds,
}

/// Fills in what is the same for every dense family.
pub(crate) fn model_needs(header: &ModelHeader, input: NeedsInput) -> ModelNeeds {
    ModelNeeds {
        arch: input.arch.to_owned(),
        file_bytes: header.file_bytes(),
        layers: saturate(input.state.len()),
        experts: 0,
        experts_used: 0,
        context_train: saturate(input.context_train),
        dense_bytes: AnonBuffer::occupied(input.dense_bytes),
        expert_bytes: 0,
        state: input.state,
        compute: input.compute,
        runtime_bytes: runtime_bytes(header, input.n_vocab),
        io_staging_bytes: STAGING_BYTES as u64,
        decode_bytes_per_token: input.decode_bytes_per_token,
        prompt: prompt_work(header, input.arch),
        warnings: Vec::new(),
    }
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
    RUNTIME_BASE_BYTES.saturating_add(token_bytes.saturating_mul(n_vocab as u64))
}

fn saturate(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Plans from sizes in the file: weights as stored, keys and values by the common keys where they are there.
fn from_tensors(
    header: &ModelHeader,
    name: &str,
    kv_types: KvTypes,
    reason: &ArchError,
) -> ModelNeeds {
    let keys = Keys::new(&header.metadata, name);
    let count = |key: &str| keys.count(key).ok().flatten();
    let stored = |wanted: bool| -> u64 {
        let tensors = header.tensors.iter().enumerate();
        let chosen = tensors.filter(|(_, tensor)| is_expert(&tensor.name) == wanted);
        chosen.map(|(index, _)| header.stored_bytes(index)).fold(0, u64::saturating_add)
    };
    let (dense_bytes, expert_bytes) = (stored(false), stored(true));
    let (n_layers, experts) =
        (count("block_count").unwrap_or(0), count("expert_count").unwrap_or(0));
    let experts_used = count("expert_used_count").unwrap_or(0);
    let mut warnings = vec![format!("planned from tensor sizes, it cannot be loaded: {reason}")];
    let bytes_per_token = kv_bytes_per_token(&count, kv_types).unwrap_or_else(|| {
        warnings.push(
            "the metadata does not give the size of keys and values: they are not in this plan"
                .to_owned(),
        );
        0
    });
    let n_vocab =
        header.metadata.strings("tokenizer.ggml.tokens").ok().flatten().map_or(0, <[String]>::len);
    let used_experts = (expert_bytes / experts.max(1) as u64).saturating_mul(experts_used as u64);
    // Metadata of a stranger: a count of layers is bounded by the tensors that the file really lists.
    let n_layers = n_layers.min(header.tensors.len());
    let state = vec![frank_plan::LayerState::Paged { bytes_per_token, window: None }; n_layers];
    ModelNeeds {
        arch: name.to_owned(),
        file_bytes: header.file_bytes(),
        layers: saturate(n_layers),
        experts: saturate(experts),
        experts_used: saturate(experts_used),
        context_train: saturate(count("context_length").unwrap_or(0)),
        dense_bytes: AnonBuffer::occupied(dense_bytes),
        expert_bytes,
        state,
        compute: output_compute(n_vocab),
        runtime_bytes: runtime_bytes(header, n_vocab),
        io_staging_bytes: STAGING_BYTES as u64,
        decode_bytes_per_token: dense_bytes.saturating_add(used_experts),
        prompt: prompt_work(header, name),
        warnings,
    }
}

/// Whether a tensor holds routed experts: `blk.N.ffn_{gate,up,down,gate_up}_exps.weight` and its like.
fn is_expert(name: &str) -> bool {
    name.contains("_exps.")
}

fn kv_bytes_per_token(count: &dyn Fn(&str) -> Option<usize>, kv_types: KvTypes) -> Option<u64> {
    let n_head = count("attention.head_count")?;
    let n_head_kv = count("attention.head_count_kv").unwrap_or(n_head);
    let head_dim = match count("attention.key_length") {
        Some(n) => n,
        None => count("embedding_length")?.checked_div(n_head)?,
    };
    Some(kv_types.token_bytes(n_head_kv.checked_mul(head_dim)?))
}
