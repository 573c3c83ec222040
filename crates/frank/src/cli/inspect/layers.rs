//! Bytes of a model file by layer, and within a layer by what every token uses and what only some do. Never judges names.

use std::collections::BTreeMap;

use serde::Serialize;

use super::TensorFacts;

/// What one layer takes in the file.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct LayerFacts {
    pub(super) layer: u32,
    pub(super) tensors: usize,
    pub(super) bytes: u64,
    /// Bytes that every token uses: all but the routed experts.
    pub(super) dense_bytes: u64,
    /// Routed experts.
    pub(super) experts: u64,
    /// Bytes of one routed expert, all its parts together; the mean where they differ.
    pub(super) expert_bytes_each: u64,
}

impl LayerFacts {
    fn new(layer: u32) -> Self {
        Self { layer, tensors: 0, bytes: 0, dense_bytes: 0, experts: 0, expert_bytes_each: 0 }
    }

    /// Bytes of all routed experts.
    pub(super) fn expert_bytes(&self) -> u64 {
        self.bytes - self.dense_bytes
    }

    fn add(&mut self, tensor: &TensorFacts<'_>) {
        let bytes = self.bytes.saturating_add(tensor.bytes);
        let added = bytes - self.bytes;
        self.bytes = bytes;
        self.tensors += 1;
        match experts_in(tensor.name, tensor.dims) {
            Some(experts) => self.experts = self.experts.max(experts),
            None => self.dense_bytes += added,
        }
    }

    fn finish(mut self) -> Self {
        self.expert_bytes_each = self.expert_bytes().checked_div(self.experts).unwrap_or(0);
        self
    }
}

/// Layers in order, and the bytes of tensors outside of all layers.
pub(super) fn layers(tensors: &[TensorFacts<'_>]) -> (Vec<LayerFacts>, u64) {
    let mut layers: BTreeMap<u32, LayerFacts> = BTreeMap::new();
    let mut outside = 0u64;
    for tensor in tensors {
        match layer_of(tensor.name) {
            Some(layer) => {
                layers.entry(layer).or_insert_with(|| LayerFacts::new(layer)).add(tensor);
            }
            None => outside = outside.saturating_add(tensor.bytes),
        }
    }
    (layers.into_values().map(LayerFacts::finish).collect(), outside)
}

/// The layer of a tensor named `blk.{layer}.…`.
fn layer_of(name: &str) -> Option<u32> {
    name.strip_prefix("blk.")?.split_once('.')?.0.parse().ok()
}

/// How many routed experts a layer has as far as one of its tensors says, where it holds weights of any: those of all
/// experts in `blk.N.ffn_up_exps.weight`, whose last dimension counts them, or of one in `blk.N.ffn_up.E.weight`.
fn experts_in(name: &str, dims: &[u64]) -> Option<u64> {
    let stem = name.strip_suffix(".weight")?;
    if stem.ends_with("_exps") {
        return Some(dims.get(2).copied().unwrap_or(1));
    }
    let (part, expert) = stem.rsplit_once('.')?;
    let is_part = ["ffn_gate", "ffn_up", "ffn_down"].iter().any(|name| part.ends_with(name));
    let expert: u64 = expert.parse().ok().filter(|_| is_part)?;
    Some(expert.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routed_experts_are_told_by_their_names() {
        let check = |name: &str, dims: &[u64], experts| assert_eq!(experts_in(name, dims), experts);
        check("blk.3.ffn_up_exps.weight", &[8, 4, 60], Some(60));
        check("blk.3.ffn_gate_up_exps.weight", &[8, 4, 60], Some(60));
        check("blk.3.ffn_down_exps.weight", &[8, 4], Some(1));
        check("blk.3.ffn_gate.7.weight", &[8, 4], Some(8));
        check("blk.3.ffn_gate.18446744073709551615.weight", &[8, 4], Some(u64::MAX));
        check("blk.3.ffn_up_exps.bias", &[4, 60], None);
        check("blk.3.ffn_up_shexp.weight", &[8, 4], None);
        check("blk.3.ffn_up.weight", &[8, 4], None);
        check("blk.3.attn_q.7.weight", &[8, 4], None);
    }
}
