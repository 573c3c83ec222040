//! Tensors of parts that are not there, assumed to be like those of layers that are. Never for loading.

use std::collections::{BTreeMap, HashSet};

use frank_gguf::{GgufError, ModelHeader, TensorInfo};

use super::from_keys;
use super::from_tensors::bytes_by_kind;
use crate::keys::Keys;
use crate::tensor_name::{expert_of, layer_and_part};

/// More layers than any model has: a header alone may claim any number.
const LAYERS_MAX: usize = 4096;

/// More tensors than any model has, those with one for each expert among them.
const TENSORS_MAX: usize = 1 << 17;

/// `header` with what its missing parts may hold, and a sentence that says so.
///
/// # Errors
/// [`GgufError`] when the header does not name its architecture, or names a tensor twice.
pub(super) fn completed(header: &ModelHeader) -> Result<(ModelHeader, String), GgufError> {
    let keys = Keys::new(&header.metadata, header.architecture()?);
    let count = |key: &str| keys.count(key).ok().flatten();
    // Layers that draft further tokens stand at the end and are not loaded.
    let n_draft = count("nextn_predict_layers").unwrap_or(0);
    let n_layers = count("block_count").unwrap_or(0).min(LAYERS_MAX).saturating_sub(n_draft);
    let layers = Layers::of(header);
    let patterns = layers.patterns();
    let n_missing = usize::try_from(header.n_tensors_missing).unwrap_or(usize::MAX);
    let n_max = n_missing.min(TENSORS_MAX);
    let (assumed, source): (Vec<TensorInfo>, _) = if patterns.is_empty() {
        let tensors = from_keys::tensors(header, &count, n_layers);
        (tensors.into_iter().take(n_max).collect(), "the metadata and its file type")
    } else {
        let n_leading = count("leading_dense_block_count").unwrap_or(0);
        let tensors = layers.missing(&patterns, n_leading..n_layers);
        let tensors = missing_head(header).into_iter().chain(tensors);
        (tensors.take(n_max).collect(), "layers that are there")
    };
    let (n_listed, n_assumed) = (header.tensors.len(), assumed.len());
    let warning = format!(
        "{n_missing} of {} tensors are in parts that are not here: {n_assumed} are assumed from {source}",
        n_listed.saturating_add(n_missing)
    );
    let alike = bytes_by_kind(header);
    let assumed = assumed.into_iter().map(|tensor| {
        let of_kind = || alike.get(&(tensor.type_id, tensor.dims.as_slice())).copied();
        let bytes = tensor.bytes().or_else(of_kind).unwrap_or(0);
        (tensor, bytes)
    });
    Ok((header.with_assumed(assumed)?, warning))
}

/// The tensors of each layer that the header lists.
struct Layers<'a> {
    by_layer: BTreeMap<usize, Vec<(&'a str, &'a TensorInfo)>>,
}

impl<'a> Layers<'a> {
    fn of(header: &'a ModelHeader) -> Self {
        let mut by_layer: BTreeMap<usize, Vec<_>> = BTreeMap::new();
        for tensor in &header.tensors {
            if let Some((layer, part)) = layer_and_part(&tensor.name) {
                by_layer.entry(layer as usize).or_default().push((part, tensor));
            }
        }
        Self { by_layer }
    }

    /// Layers that are whole, to be taken in turns since some layers of a file have more bits than others: those with
    /// experts where there are any, and as many tensors as any of them.
    fn patterns(&self) -> Vec<usize> {
        let is_expert = |(_, tensor): &(&str, &TensorInfo)| expert_of(&tensor.name).is_some();
        let has_experts = |layer: usize| self.by_layer[&layer].iter().any(is_expert);
        let with_experts: Vec<usize> =
            self.by_layer.keys().copied().filter(|&layer| has_experts(layer)).collect();
        let candidates = if with_experts.is_empty() {
            self.by_layer.keys().copied().collect()
        } else {
            with_experts
        };
        let most = candidates.iter().map(|layer| self.by_layer[layer].len()).max();
        let is_whole = |layer: &usize| Some(self.by_layer[layer].len()) == most;
        candidates.into_iter().filter(is_whole).collect()
    }

    /// What each of `layers` lacks of the pattern that is its turn, made as it is asked for.
    fn missing(
        &self,
        patterns: &[usize],
        layers: std::ops::Range<usize>,
    ) -> impl Iterator<Item = TensorInfo> {
        layers.flat_map(move |layer| {
            let there: HashSet<&str> =
                self.by_layer.get(&layer).into_iter().flatten().map(|&(part, _)| part).collect();
            let pattern = &self.by_layer[&patterns[layer % patterns.len()]];
            let lacking = pattern.iter().filter(move |(part, _)| !there.contains(part));
            lacking.map(move |(part, tensor)| TensorInfo {
                name: format!("blk.{layer}.{part}"),
                ..(*tensor).clone()
            })
        })
    }
}

/// The last norm and the head, which stand at the end of a model, where neither is there.
fn missing_head(header: &ModelHeader) -> Vec<TensorInfo> {
    const NORM: &str = "output_norm.weight";
    if header.tensor(NORM).is_some() {
        return Vec::new();
    }
    let like = |name: &str, pattern: &str| {
        let pattern = header.tensor(pattern)?;
        Some(TensorInfo { name: name.to_owned(), ..pattern.clone() })
    };
    let norm = like(NORM, "blk.0.attn_norm.weight");
    let head = match header.tensor("output.weight") {
        Some(_) => None,
        None => like("output.weight", "token_embd.weight"),
    };
    norm.into_iter().chain(head).collect()
}
