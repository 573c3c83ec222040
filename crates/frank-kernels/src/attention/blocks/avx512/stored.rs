//! Stored keys and values as registers of 16 floats: what the types differ in.

use std::arch::x86_64::{
    __m128i, __m512, _mm512_cvtepi8_epi32, _mm512_cvtepi32_ps, _mm512_cvtepu8_epi32, _mm512_mul_ps,
    _mm512_permutexvar_ps, _mm512_set1_ps, _mm512_setr_ps, _mm512_setzero_ps, _mm512_srli_epi32,
};

use crate::elementwise::LANES;
use crate::kv::tile::{SCALES, TILE, TileType};
use crate::kv::{KV_BLOCK, KvType};
use crate::x86::{load_bytes16, load_f16x16, load_f32_bytes, store_f32x16};

/// A type as a constant that code is made for.
pub(super) const F32: u8 = KvType::F32 as u8;
pub(super) const F16: u8 = KvType::F16 as u8;
pub(super) const Q8_0: u8 = KvType::Q8_0 as u8;
pub(super) const Q4_0: u8 = KvType::Q4_0 as u8;

/// A head's keys or values of one block, of the type `T`.
#[derive(Clone, Copy)]
pub(super) struct Stored<'a, const T: u8> {
    pub(super) bytes: &'a [u8],
}

impl<const T: u8> Stored<'_, T> {
    const TILE_TYPE: Option<TileType> = match T {
        Q8_0 => Some(TileType::Q8_0),
        Q4_0 => Some(TileType::Q4_0),
        _ => None,
    };

    /// The scales of a tile by position, of a type that has them.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
    #[inline]
    pub(super) fn scales(self, tile: usize) -> [__m512; 2] {
        let Some(tile_type) = Self::TILE_TYPE else { return [_mm512_setzero_ps(); 2] };
        let first = tile * tile_type.tile_bytes();
        [load_f16x16(self.bytes, first), load_f16x16(self.bytes, first + SCALES / 2)]
    }

    /// As [`Stored::scales`], to take one at a time.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
    #[inline]
    pub(super) fn scale_values(self, tile: usize) -> [[f32; LANES]; 2] {
        let mut values = [[0.0; LANES]; 2];
        if Self::TILE_TYPE.is_some() {
            for (values, scales) in values.iter_mut().zip(self.scales(tile)) {
                store_f32x16(values, scales);
            }
        }
        values
    }

    /// Component `d` of the keys of all positions.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
    #[inline]
    pub(super) fn keys(self, d: usize, scales: [__m512; 2]) -> [__m512; 2] {
        if Self::TILE_TYPE.is_none() {
            return [self.floats(d * KV_BLOCK), self.floats(d * KV_BLOCK + LANES)];
        }
        let [low, high] = self.line(d / TILE, d % TILE);
        [_mm512_mul_ps(low, scales[0]), _mm512_mul_ps(high, scales[1])]
    }

    /// 32 components, a tile, of the values of the position at `slot`.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
    #[inline]
    pub(super) fn tile_values(self, tile: usize, slot: usize, scale: f32) -> [__m512; 2] {
        let scale = _mm512_set1_ps(scale);
        self.line(tile, slot).map(|quants| _mm512_mul_ps(quants, scale))
    }

    /// 16 floats from float `index` on.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
    #[inline]
    pub(super) fn floats(self, index: usize) -> __m512 {
        if T == F16 {
            load_f16x16(self.bytes, 2 * index)
        } else {
            load_f32_bytes(self.bytes, 4 * index)
        }
    }

    /// The quants of a line, not yet scaled.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
    #[inline]
    fn line(self, tile: usize, line: usize) -> [__m512; 2] {
        let Some(tile_type) = Self::TILE_TYPE else { return [_mm512_setzero_ps(); 2] };
        let first = tile * tile_type.tile_bytes() + SCALES + line * tile_type.line_bytes();
        match tile_type {
            TileType::Q8_0 => {
                let half = |offset| load_bytes16(self.bytes, offset);
                [signed_bytes(half(first)), signed_bytes(half(first + LANES))]
            }
            TileType::Q4_0 => nibbles(load_bytes16(self.bytes, first)),
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn signed_bytes(bytes: __m128i) -> __m512 {
    _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))
}

/// The low, then the high halves of 16 bytes, less 8.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn nibbles(bytes: __m128i) -> [__m512; 2] {
    let values = _mm512_setr_ps(
        -8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0,
    );
    let pairs = _mm512_cvtepu8_epi32(bytes);
    // A choice out of 16 looks at 4 bits only.
    [pairs, _mm512_srli_epi32::<4>(pairs)].map(|quants| _mm512_permutexvar_ps(quants, values))
}
