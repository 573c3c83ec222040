//! Loads and stores of 512-bit registers from slices, with their bounds checked.

use std::arch::x86_64::{
    __m128i, __m512, _mm_loadu_si128, _mm256_loadu_si256, _mm512_cvtph_ps, _mm512_loadu_ps,
    _mm512_storeu_ps,
};

/// The 16 bytes at byte `offset`.
#[target_feature(enable = "avx512f")]
#[inline]
pub(crate) fn load_bytes16(bytes: &[u8], offset: usize) -> __m128i {
    let bytes: &[u8] = &bytes[offset..offset + 16];
    // SAFETY: the slice was just cut to 16 bytes; the load needs no alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// The 16 half-precision values at byte `offset`, widened.
#[target_feature(enable = "avx512f")]
#[inline]
pub(crate) fn load_f16x16(bytes: &[u8], offset: usize) -> __m512 {
    let bytes: &[u8] = &bytes[offset..offset + 32];
    // SAFETY: the slice was just cut to 32 bytes; the load needs no alignment.
    let halves = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
    _mm512_cvtph_ps(halves)
}

/// The 16 floats at byte `offset`.
#[target_feature(enable = "avx512f")]
#[inline]
pub(crate) fn load_f32_bytes(bytes: &[u8], offset: usize) -> __m512 {
    let bytes: &[u8] = &bytes[offset..offset + 64];
    // SAFETY: the slice was just cut to 64 bytes; the load needs no alignment.
    unsafe { _mm512_loadu_ps(bytes.as_ptr().cast()) }
}

/// 16 floats.
#[target_feature(enable = "avx512f")]
#[inline]
pub(crate) fn load_f32x16(values: &[f32; 16]) -> __m512 {
    // SAFETY: the array has 16 values; the load needs no alignment.
    unsafe { _mm512_loadu_ps(values.as_ptr()) }
}

/// Writes 16 floats.
#[target_feature(enable = "avx512f")]
#[inline]
pub(crate) fn store_f32x16(to: &mut [f32; 16], values: __m512) {
    // SAFETY: the array has room for 16 values; the store needs no alignment.
    unsafe { _mm512_storeu_ps(to.as_mut_ptr(), values) }
}
