//! The paged cache of keys and values: how a block lies in memory, and the writing of a row into it. Never decides which
//! block holds what.
//!
//! A block holds [`KV_BLOCK`] positions: keys as `[n_head_kv, head_dim, KV_BLOCK]`, so that a register holds one
//! component of 16 positions, and values as `[n_head_kv, KV_BLOCK, value_dim]`.

use frank_gguf::quant::f16_to_f32;
use half::f16;

use crate::attention::AttentionShape;

/// Positions of a block of the cache.
pub(crate) const KV_BLOCK: usize = 32;

/// How keys and values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvType {
    /// 32-bit floats.
    F32,
    /// 16-bit floats, rounded to nearest even.
    F16,
}

impl KvType {
    /// Bytes of one stored value.
    #[must_use]
    pub fn value_bytes(self) -> usize {
        match self {
            Self::F32 => size_of::<f32>(),
            Self::F16 => size_of::<f16>(),
        }
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
    let heads = k.chunks_exact(head_dim).zip(v.chunks_exact(value_dim));
    for (head, (k, v)) in (block * n_head_kv..).zip(heads) {
        store(kv.k_type, kv.k, head * head_dim * KV_BLOCK + slot, KV_BLOCK, k);
        store(kv.v_type, kv.v, (head * KV_BLOCK + slot) * value_dim, 1, v);
    }
}

/// Writes `values` to every `stride`-th place from `first` on.
fn store(kv_type: KvType, to: &mut [u8], first: usize, stride: usize, values: &[f32]) {
    match kv_type {
        KvType::F32 => {
            store_as(bytemuck::cast_slice_mut::<u8, f32>(to), first, stride, values, |x| x)
        }
        KvType::F16 => {
            store_as(bytemuck::cast_slice_mut::<u8, f16>(to), first, stride, values, f16::from_f32)
        }
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

/// The stored value at `index`, widened.
#[inline(always)]
pub(crate) fn value(kv_type: KvType, bytes: &[u8], index: usize) -> f32 {
    match kv_type {
        KvType::F32 => bytemuck::cast_slice::<u8, f32>(bytes)[index],
        KvType::F16 => f16_to_f32(bytemuck::cast_slice::<u8, u16>(bytes)[index]),
    }
}
