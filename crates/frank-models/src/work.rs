//! How much arithmetic a prompt takes, from the header of any family. Never what it takes in memory.

use frank_gguf::{ModelHeader, TensorInfo};
use frank_plan::PromptWork;

use crate::keys::Keys;

/// The arithmetic of one token of a prompt: of every matrix of the layers, and of attention. The head is not in it, for
/// only the last token of a prompt is asked for logits; nor is the embedding, which is looked up.
///
/// Zeros where the metadata does not say: a speed is then not told.
pub(crate) fn prompt_work(header: &ModelHeader, arch: &str) -> PromptWork {
    let keys = Keys::new(&header.metadata, arch);
    let count = |key: &str| keys.count(key).ok().flatten().map(|count| count as u64);
    let (experts, used) = (count("expert_count"), count("expert_used_count"));
    let values = |tensor: &TensorInfo| match (tensor.dims.len(), experts, used) {
        (3, Some(experts), Some(used)) if experts > 0 => {
            (tensor.n_values() / experts).saturating_mul(used)
        }
        (2, ..) => tensor.n_values(),
        _ => 0,
    };
    let layers = header.tensors.iter().filter(|tensor| tensor.name.starts_with("blk."));
    let width = count("attention.head_count").and_then(|n_head| {
        let head_dim = count("attention.key_length")
            .or_else(|| count("embedding_length")?.checked_div(n_head));
        n_head.checked_mul(head_dim?)
    });
    // Scores and mixed values: one multiplication each for each component of each head.
    let per_layer = width.unwrap_or(0).saturating_mul(2);
    PromptWork {
        multiply_adds: layers.map(values).fold(0, u64::saturating_add),
        attention_multiply_adds: count("block_count").unwrap_or(0).saturating_mul(per_layer),
    }
}
