//! The paged cache of keys and values: how a block lies in memory, and the writing of a row into it. Never decides which
//! block holds what.
//!
//! A block holds [`KV_BLOCK`] positions: keys as `[n_head_kv, head_dim, KV_BLOCK]`, so that a register holds one
//! component of 16 positions, and values as `[n_head_kv, KV_BLOCK, value_dim]`. Quantized types hold both as
//! `[n_head_kv, dim / 32]` tiles.

pub(crate) mod tile;

use frank_gguf::quant::f16_to_f32;
use half::f16;

use crate::attention::AttentionShape;
use tile::{Along, TILE, TileType};

/// Positions of a block of the cache.
pub(crate) const KV_BLOCK: usize = 32;

/// How keys and values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvType {
    /// 32-bit floats.
    F32,
    /// 16-bit floats, rounded to nearest even.
    F16,
    /// 8-bit integers, of which 32 along a head share a scale in f16.
    Q8_0,
    /// 4-bit integers, of which 32 along a head share a scale in f16.
    Q4_0,
}

impl KvType {
    /// All types, those that round least first.
    pub const ALL: [Self; 4] = [Self::F32, Self::F16, Self::Q8_0, Self::Q4_0];

    /// As options and reports spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Q8_0 => "q8_0",
            Self::Q4_0 => "q4_0",
        }
    }

    /// Components of a head that are rounded together: heads have a multiple of so many.
    #[must_use]
    pub fn block_values(self) -> usize {
        TileType::of(self).map_or(1, |_| TILE)
    }

    /// Bytes of so many values, whole blocks of them; saturates.
    #[must_use]
    pub fn bytes(self, n_values: usize) -> usize {
        let block_bytes = match self {
            Self::F32 => size_of::<f32>(),
            Self::F16 => size_of::<f16>(),
            Self::Q8_0 => TileType::Q8_0.tile_bytes() / KV_BLOCK,
            Self::Q4_0 => TileType::Q4_0.tile_bytes() / KV_BLOCK,
        };
        n_values.div_ceil(self.block_values()).saturating_mul(block_bytes)
    }

    /// Whether a head of so many components can be stored.
    #[must_use]
    pub fn takes_head(self, dim: usize) -> bool {
        dim.is_multiple_of(self.block_values())
    }
}

/// Keys and values of one layer, all blocks: `[n_blocks, block]` each.
#[derive(Debug, Clone, Copy)]
pub struct KvLayer<'a> {
    /// Keys.
    pub k: &'a [u8],
    /// Values.
    pub v: &'a [u8],
    /// How keys are stored.
    pub k_type: KvType,
    /// How values are stored.
    pub v_type: KvType,
}

/// As [`KvLayer`], to write.
#[derive(Debug)]
pub struct KvLayerMut<'a> {
    /// Keys.
    pub k: &'a mut [u8],
    /// Values.
    pub v: &'a mut [u8],
    /// How keys are stored.
    pub k_type: KvType,
    /// How values are stored.
    pub v_type: KvType,
}

/// Writes one row's keys, `[n_head_kv, head_dim]`, and values, `[n_head_kv, value_dim]`, to `position` of the sequence
/// with `table`.
///
/// # Panics
/// When the table has no block for the position or a length does not fit.
pub fn store_kv(
    shape: &AttentionShape,
    kv: &mut KvLayerMut<'_>,
    table: &[u32],
    position: u32,
    k: &[f32],
    v: &[f32],
) {
    let AttentionShape { n_head_kv, head_dim, value_dim, .. } = *shape;
    assert_eq!(k.len(), n_head_kv * head_dim, "keys for {shape:?}");
    assert_eq!(v.len(), n_head_kv * value_dim, "values for {shape:?}");
    let position = position as usize;
    let (block, slot) = (table[position / KV_BLOCK] as usize, position % KV_BLOCK);
    assert!(kv.k_type.takes_head(head_dim) && kv.v_type.takes_head(value_dim), "{shape:?}");
    let heads = k.chunks_exact(head_dim).zip(v.chunks_exact(value_dim));
    for (head, (k, v)) in (block * n_head_kv..).zip(heads) {
        store(kv.k_type, Along::Positions, kv.k, (head, slot), k);
        store(kv.v_type, Along::Components, kv.v, (head, slot), v);
    }
}

/// Writes one position of one head, `values`, to its place in the block that is the `head`-th of all heads.
fn store(
    kv_type: KvType,
    along: Along,
    to: &mut [u8],
    (head, slot): (usize, usize),
    values: &[f32],
) {
    let head_bytes = kv_type.bytes(values.len() * KV_BLOCK);
    let to = &mut to[head * head_bytes..][..head_bytes];
    let (first, stride) = match along {
        Along::Positions => (slot, KV_BLOCK),
        Along::Components => (slot * values.len(), 1),
    };
    let tile_type = match kv_type {
        KvType::F32 => {
            return store_as(bytemuck::cast_slice_mut::<u8, f32>(to), first, stride, values, |x| x);
        }
        KvType::F16 => {
            let to = bytemuck::cast_slice_mut::<u8, f16>(to);
            return store_as(to, first, stride, values, f16::from_f32);
        }
        KvType::Q8_0 => TileType::Q8_0,
        KvType::Q4_0 => TileType::Q4_0,
    };
    let tiles = to.chunks_exact_mut(tile_type.tile_bytes());
    for (tile, values) in tiles.zip(values.as_chunks().0) {
        tile_type.store(along, tile, slot, values);
    }
}

fn store_as<T>(
    to: &mut [T],
    first: usize,
    stride: usize,
    values: &[f32],
    convert: impl Fn(f32) -> T,
) {
    for (place, &value) in to[first..].iter_mut().step_by(stride).zip(values) {
        *place = convert(value);
    }
}

/// The stored float at `index`, widened where it is a `half`.
#[inline(always)]
pub(crate) fn value(half: bool, bytes: &[u8], index: usize) -> f32 {
    if half {
        f16_to_f32(bytemuck::cast_slice::<u8, u16>(bytes)[index])
    } else {
        bytemuck::cast_slice::<u8, f32>(bytes)[index]
    }
}
