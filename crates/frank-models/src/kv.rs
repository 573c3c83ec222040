//! The tensors of the KV cache: one block of memory for all groups of layers. Which block holds which tokens is the
//! engine's.

use std::ops::Range;

use frank_kernels::{AttentionShape, KvLayer, KvLayerMut, KvType};
use frank_os::{AnonBuffer, OsError};
use frank_plan::{KV_BLOCK_TOKENS, LayerState, kv_windows};

use crate::error::ArchError;
use crate::model::KvGroup;

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
    /// Bytes of one token in a layer with `n_k` components of keys and `n_v` of values.
    #[must_use]
    pub fn token_bytes(self, n_k: usize, n_v: usize) -> u64 {
        (self.k.bytes(n_k) as u64).saturating_add(self.v.bytes(n_v) as u64)
    }

    /// Refuses heads that are not whole blocks of a type.
    pub(crate) fn check(self, shape: &AttentionShape) -> Result<(), ArchError> {
        let sides = [("key", self.k, shape.head_dim), ("value", self.v, shape.value_dim)];
        match sides.into_iter().find(|(_, kv_type, dim)| !kv_type.takes_head(*dim)) {
            None => Ok(()),
            Some((side, kv_type, dim)) => Err(ArchError::KvHead {
                side,
                dim,
                kv_type: kv_type.name(),
                multiple: kv_type.block_values(),
            }),
        }
    }

    /// What the planner has to know of a layer of this shape.
    pub(crate) fn state(self, shape: &AttentionShape) -> LayerState {
        let AttentionShape { n_head_kv, head_dim, value_dim, .. } = *shape;
        let bytes_per_token = self.token_bytes(n_head_kv * head_dim, n_head_kv * value_dim);
        let window = shape.window.map(|window| u32::try_from(window).unwrap_or(u32::MAX));
        LayerState::Paged { bytes_per_token, window }
    }
}

/// Keys and values of all layers, all blocks. A layer's keys lie together, `[n_blocks, block]`, then its values.
#[derive(Debug)]
pub(crate) struct KvTensors {
    memory: AnonBuffer,
    types: KvTypes,
    groups: Vec<KvGroup>,
    layers: Vec<LayerPlace>,
}

/// Where a layer lies.
#[derive(Debug)]
struct LayerPlace {
    group: usize,
    k: Blocks,
    v: Blocks,
}

/// Keys or values of one layer, in bytes of the whole memory.
#[derive(Debug)]
struct Blocks {
    range: Range<usize>,
    block_bytes: usize,
}

impl Blocks {
    fn after(start: usize, n_blocks: u32, block_bytes: usize) -> Self {
        Self { range: start..start + n_blocks as usize * block_bytes, block_bytes }
    }

    fn block(&self, block: u32) -> Range<usize> {
        let start = self.range.start + block as usize * self.block_bytes;
        start..start + self.block_bytes
    }
}

impl KvTensors {
    /// Room for `n_blocks` blocks of each group of `layers`, in the order of the groups. The memory is taken now.
    pub(crate) fn new(
        layers: &[AttentionShape],
        n_blocks: &[u32],
        types: KvTypes,
    ) -> Result<Self, OsError> {
        let states: Vec<LayerState> = layers.iter().map(|shape| types.state(shape)).collect();
        let windows = kv_windows(&states);
        assert_eq!(windows.len(), n_blocks.len(), "a count of blocks for each of {windows:?}");
        let groups = windows.iter().zip(n_blocks).map(|(window, &n_blocks)| KvGroup {
            window: window.map(|window| window as usize),
            n_blocks,
            block_bytes: 0,
        });
        let mut groups: Vec<KvGroup> = groups.collect();
        let mut end = 0;
        let places = layers.iter().zip(&states).map(|(shape, state)| {
            let LayerState::Paged { window, .. } = state;
            let group = windows.binary_search(window).expect("every layer's window is there");
            let heads = AttentionShape::BLOCK_TOKENS * shape.n_head_kv;
            let n_blocks = groups[group].n_blocks;
            let k_bytes = types.k.bytes(heads * shape.head_dim);
            let v_bytes = types.v.bytes(heads * shape.value_dim);
            let k = Blocks::after(end, n_blocks, k_bytes);
            let v = Blocks::after(k.range.end, n_blocks, v_bytes);
            groups[group].block_bytes += k.block_bytes + v.block_bytes;
            end = v.range.end;
            LayerPlace { group, k, v }
        });
        let layers = places.collect();
        let mut memory = AnonBuffer::new(end as u64)?;
        memory.populate()?;
        Ok(Self { memory, types, groups, layers })
    }

    pub(crate) fn groups(&self) -> &[KvGroup] {
        &self.groups
    }

    /// The group that a layer is in.
    pub(crate) fn group_of(&self, layer: usize) -> usize {
        self.layers[layer].group
    }

    pub(crate) fn layer(&self, layer: usize) -> KvLayer<'_> {
        let LayerPlace { k, v, .. } = &self.layers[layer];
        let memory = self.memory.as_slice();
        let (k, v) = (&memory[k.range.clone()], &memory[v.range.clone()]);
        KvLayer { k, v, k_type: self.types.k, v_type: self.types.v }
    }

    pub(crate) fn layer_mut(&mut self, layer: usize) -> KvLayerMut<'_> {
        let LayerPlace { k, v, .. } = &self.layers[layer];
        let (before, from_v) = self.memory.as_mut_slice().split_at_mut(v.range.start);
        let (k, v) = (&mut before[k.range.clone()], &mut from_v[..v.range.len()]);
        KvLayerMut { k, v, k_type: self.types.k, v_type: self.types.v }
    }

    pub(crate) fn copy_block(&mut self, group: usize, from: u32, to: u32) {
        self.check(group, from);
        self.check(group, to);
        let memory = self.memory.as_mut_slice();
        for part in parts(&self.layers, group) {
            memory.copy_within(part.block(from), part.block(to).start);
        }
    }

    /// Keys, then values, of each layer of the group in turn.
    pub(crate) fn read_block(&self, group: usize, block: u32, out: &mut [u8]) {
        self.check(group, block);
        self.check_length(group, out.len());
        let memory = self.memory.as_slice();
        let mut rest = out;
        for part in parts(&self.layers, group) {
            let (to, tail) = rest.split_at_mut(part.block_bytes);
            to.copy_from_slice(&memory[part.block(block)]);
            rest = tail;
        }
    }

    /// As [`KvTensors::read_block`] gives them.
    pub(crate) fn write_block(&mut self, group: usize, block: u32, bytes: &[u8]) {
        self.check(group, block);
        self.check_length(group, bytes.len());
        let mut rest = bytes;
        let memory = self.memory.as_mut_slice();
        for part in parts(&self.layers, group) {
            let (from, tail) = rest.split_at(part.block_bytes);
            memory[part.block(block)].copy_from_slice(from);
            rest = tail;
        }
    }

    fn check(&self, group: usize, block: u32) {
        let n_blocks = self.groups[group].n_blocks;
        assert!(block < n_blocks, "block {block} of {n_blocks} in group {group}");
    }

    fn check_length(&self, group: usize, n_bytes: usize) {
        let block_bytes = self.groups[group].block_bytes;
        assert_eq!(n_bytes, block_bytes, "bytes for a block of group {group}");
    }
}

/// Keys and values of the layers of a group, in turn.
fn parts(layers: &[LayerPlace], group: usize) -> impl Iterator<Item = &Blocks> {
    layers.iter().filter(move |layer| layer.group == group).flat_map(|layer| [&layer.k, &layer.v])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: KvTypes = KvTypes { k: KvType::F32, v: KvType::F16 };

    fn shape(window: Option<usize>) -> AttentionShape {
        let (n_head, head_dim, scale, soft_cap) = (2, 16, 1.0, None);
        let (n_head_kv, value_dim) = (n_head, head_dim);
        AttentionShape { n_head, n_head_kv, head_dim, value_dim, scale, window, soft_cap }
    }

    /// Three layers in two groups, of 2 and 3 blocks: all of layer `i` are `10 * i`, keys, and one more, values.
    fn tensors() -> KvTensors {
        let layers = [Some(32), None, Some(32)].map(shape);
        let mut kv = KvTensors::new(&layers, &[2, 3], TYPES).expect("a few kilobytes");
        for layer in 0..3u8 {
            let KvLayerMut { k, v, .. } = kv.layer_mut(usize::from(layer));
            k.fill(10 * layer);
            v.fill(10 * layer + 1);
        }
        kv
    }

    const BLOCK_VALUES: usize = AttentionShape::BLOCK_TOKENS * 32;

    #[test]
    fn keys_and_values_of_all_layers_lie_beside_each_other_whatever_their_types() {
        let kv = tensors();
        for (layer, n_blocks) in [(0u8, 3), (1, 2), (2, 3)] {
            let KvLayer { k, v, k_type, v_type } = kv.layer(usize::from(layer));
            assert_eq!((k_type, v_type), (KvType::F32, KvType::F16));
            assert!(k == vec![10 * layer; 4 * n_blocks * BLOCK_VALUES]);
            assert!(v == vec![10 * layer + 1; 2 * n_blocks * BLOCK_VALUES]);
        }
    }

    #[test]
    fn layers_of_one_window_are_a_group_and_the_one_without_comes_first() {
        let kv = tensors();
        let block_bytes = 6 * BLOCK_VALUES;
        let group = |window, n_blocks, block_bytes| KvGroup { window, n_blocks, block_bytes };
        assert_eq!(kv.groups(), [group(None, 2, block_bytes), group(Some(32), 3, 2 * block_bytes)]);
        assert_eq!([0, 1, 2].map(|layer| kv.group_of(layer)), [1, 0, 1]);
    }

    #[test]
    fn keys_and_values_of_unlike_heads_take_the_room_that_the_planner_counts() {
        let latent = AttentionShape { n_head_kv: 1, head_dim: 48, value_dim: 16, ..shape(None) };
        let kv = KvTensors::new(&[latent, shape(None)], &[3], TYPES).expect("a few kilobytes");
        let n_positions = 3 * AttentionShape::BLOCK_TOKENS;
        let KvLayer { k, v, .. } = kv.layer(0);
        assert_eq!((k.len(), v.len()), (n_positions * 48 * 4, n_positions * 16 * 2));
        let bytes_per_token = 48 * 4 + 16 * 2;
        assert_eq!(TYPES.state(&latent), LayerState::Paged { bytes_per_token, window: None });
        let latent_bytes = AttentionShape::BLOCK_TOKENS * (48 * 4 + 16 * 2);
        assert_eq!(kv.groups()[0].block_bytes, latent_bytes + 6 * BLOCK_VALUES);
    }

    #[test]
    fn blocks_of_every_pair_of_types_take_what_the_planner_counts_and_are_read_and_written_whole() {
        let latent = AttentionShape { n_head_kv: 1, head_dim: 96, value_dim: 64, ..shape(None) };
        for (k, v) in KvType::ALL.into_iter().flat_map(|k| KvType::ALL.map(|v| (k, v))) {
            let types = KvTypes { k, v };
            let mut kv = KvTensors::new(&[latent], &[2], types).expect("a few kilobytes");
            let LayerState::Paged { bytes_per_token, .. } = types.state(&latent);
            let block_bytes = kv.groups()[0].block_bytes;
            assert_eq!(block_bytes as u64, bytes_per_token * u64::from(KV_BLOCK_TOKENS));
            let layer = kv.layer(0);
            assert_eq!(layer.k.len() + layer.v.len(), 2 * block_bytes, "{types:?}");
            let bytes: Vec<u8> = (0..=250).cycle().take(block_bytes).collect();
            kv.write_block(0, 1, &bytes);
            kv.copy_block(0, 1, 0);
            let mut back = vec![0; block_bytes];
            kv.read_block(0, 0, &mut back);
            assert!(back == bytes, "{types:?}");
        }
        let q8_0 = KvTypes { k: KvType::Q8_0, v: KvType::Q4_0 };
        assert_eq!(q8_0.token_bytes(64, 96), 2 * 34 + 3 * 18);
    }

    #[test]
    fn a_block_is_all_layers_of_its_group_and_no_other() {
        let mut kv = tensors();
        let mut bytes = vec![0; 12 * BLOCK_VALUES];
        kv.read_block(1, 2, &mut bytes);
        let part = |number, n_bytes| vec![number; n_bytes * BLOCK_VALUES];
        assert!(bytes == [part(0, 4), part(1, 2), part(20, 4), part(21, 2)].concat());
        bytes.fill(99);
        kv.write_block(1, 1, &bytes);
        kv.copy_block(1, 1, 0);
        for (layer, other) in [(0, 0), (2, 20)] {
            let k = kv.layer(layer).k;
            let (written, kept) = k.split_at(2 * 4 * BLOCK_VALUES);
            assert!(written.iter().all(|&byte| byte == 99), "layer {layer}");
            assert!(kept.iter().all(|&byte| byte == other), "layer {layer}");
        }
        assert!(kv.layer(1).k.iter().all(|&byte| byte == 10), "the other group is as it was");
    }

    #[test]
    #[should_panic(expected = "block 2 of 2 in group 0")]
    fn a_block_that_is_not_there_is_no_other_groups_memory() {
        tensors().read_block(0, 2, &mut []);
    }
}
