//! The tensors of the KV cache: one block of memory for all layers. Which block holds which tokens is the engine's.

use frank_kernels::{AttentionShape, KvLayer, KvLayerMut, KvType};
use frank_os::{AnonBuffer, OsError};
use frank_plan::KV_BLOCK_TOKENS;

const _: () = assert!(
    AttentionShape::BLOCK_TOKENS == KV_BLOCK_TOKENS as usize,
    "the kernels and the planner mean the same block"
);

/// How keys and values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvTypes {
    /// Type of keys.
    pub k: KvType,
    /// Type of values.
    pub v: KvType,
}

impl KvTypes {
    /// Bytes of one token's keys and values in a layer with `n_values` values each.
    #[must_use]
    pub fn token_bytes(self, n_values: usize) -> u64 {
        (n_values as u64).saturating_mul((self.k.value_bytes() + self.v.value_bytes()) as u64)
    }
}

/// Keys and values of all layers, all blocks; layers are alike.
#[derive(Debug)]
pub(crate) struct KvTensors {
    memory: AnonBuffer,
    types: KvTypes,
    k_layer_bytes: usize,
    v_layer_bytes: usize,
}

impl KvTensors {
    /// Room for `n_blocks` blocks in each of `n_layers` layers. The memory is taken now.
    pub(crate) fn new(
        n_layers: usize,
        n_blocks: usize,
        shape: &AttentionShape,
        types: KvTypes,
    ) -> Result<Self, OsError> {
        let n_values = n_blocks * AttentionShape::BLOCK_TOKENS * shape.n_head_kv * shape.head_dim;
        let (k_layer_bytes, v_layer_bytes) =
            (n_values * types.k.value_bytes(), n_values * types.v.value_bytes());
        let mut memory = AnonBuffer::new((n_layers * (k_layer_bytes + v_layer_bytes)) as u64)?;
        memory.populate()?;
        Ok(Self { memory, types, k_layer_bytes, v_layer_bytes })
    }

    fn layer_start(&self, layer: usize) -> usize {
        layer * (self.k_layer_bytes + self.v_layer_bytes)
    }

    pub(crate) fn layer(&self, layer: usize) -> KvLayer<'_> {
        let layer = &self.memory.as_slice()[self.layer_start(layer)..];
        let (k, rest) = layer.split_at(self.k_layer_bytes);
        KvLayer { k, v: &rest[..self.v_layer_bytes], k_type: self.types.k, v_type: self.types.v }
    }

    pub(crate) fn layer_mut(&mut self, layer: usize) -> KvLayerMut<'_> {
        let start = self.layer_start(layer);
        let (k_type, v_type) = (self.types.k, self.types.v);
        let (k, rest) = self.memory.as_mut_slice()[start..].split_at_mut(self.k_layer_bytes);
        KvLayerMut { k, v: &mut rest[..self.v_layer_bytes], k_type, v_type }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_of_all_layers_lie_beside_each_other_whatever_their_types() {
        let (n_head, n_head_kv, head_dim) = (2, 2, 16);
        let (scale, window, soft_cap) = (1.0, None, None);
        let shape = AttentionShape { n_head, n_head_kv, head_dim, scale, window, soft_cap };
        let types = KvTypes { k: KvType::F32, v: KvType::F16 };
        let mut kv = KvTensors::new(3, 2, &shape, types).expect("a few kilobytes");
        for (layer, number) in (0..3).zip([10, 20, 30]) {
            let KvLayerMut { k, v, .. } = kv.layer_mut(layer);
            k.fill(number);
            v.fill(number + 1);
        }
        let n_values = 2 * AttentionShape::BLOCK_TOKENS * 32;
        for (layer, number) in (0..3).zip([10, 20, 30]) {
            let KvLayer { k, v, k_type, v_type } = kv.layer(layer);
            assert_eq!((k_type, v_type), (KvType::F32, KvType::F16));
            assert!(k == vec![number; 4 * n_values] && v == vec![number + 1; 2 * n_values]);
        }
    }
}
