//! How much arithmetic a prompt takes, from the header of any family. Never what it takes in memory.

use frank_gguf::{ModelHeader, TensorInfo};
use frank_plan::PromptWork;

use crate::keys::Keys;
use crate::tensor_name::{expert_of, layer_and_part};

/// The arithmetic of one token of a prompt: of every matrix of the layers, and of attention. The head is not in it, for
/// only the last token of a prompt is asked for logits; nor is the embedding, which is looked up.
///
/// Zeros where the metadata does not say: a speed is then not told.
pub(crate) fn prompt_work(header: &ModelHeader, arch: &str) -> PromptWork {
    let keys = Keys::new(&header.metadata, arch);
    let count = |key: &str| keys.count(key).ok().flatten().map(|count| count as u64);
    let (experts, used) = (count("expert_count"), count("expert_used_count"));
    let values = |tensor: &TensorInfo| match (tensor.dims.len(), experts, used) {
        (2 | 3, Some(experts), Some(used)) if expert_of(&tensor.name).is_some() && experts > 0 => {
            let values = u128::from(tensor.n_values()) * u128::from(used) / u128::from(experts);
            u64::try_from(values).unwrap_or(u64::MAX)
        }
        (2 | 3, ..) if expert_of(&tensor.name).is_none() => tensor.n_values(),
        _ => 0,
    };
    // Layers that only draft further tokens come last and are not computed.
    let n_drafting = count("nextn_predict_layers").unwrap_or(0);
    let n_layers = count("block_count").map(|n| n.saturating_sub(n_drafting));
    let is_computed = |name: &str| {
        layer_and_part(name).is_some_and(|(layer, _)| n_layers.is_none_or(|n| u64::from(layer) < n))
    };
    let is_matrix = |name: &str| name.ends_with(".weight") && is_computed(name);
    let layers = header.tensors.iter().filter(|tensor| is_matrix(&tensor.name));
    let width = count("attention.head_count").and_then(|n_head| {
        let head_dim = count("attention.key_length")
            .or_else(|| count("embedding_length")?.checked_div(n_head));
        n_head.checked_mul(head_dim?)
    });
    // Scores and mixed values: one multiplication each for each component of each head.
    let per_layer = width.unwrap_or(0).saturating_mul(2);
    PromptWork {
        multiply_adds: layers.map(values).fold(0, u64::saturating_add),
        attention_multiply_adds: n_layers.unwrap_or(0).saturating_mul(per_layer),
    }
}
