//! Lanes as 256-bit registers of AVX2, with FMA and F16C.

use std::arch::x86_64::{
    __m128i, __m256, __m256i, _mm_cvtsi32_si128, _mm_loadl_epi64, _mm_loadu_si128, _mm256_abs_epi8,
    _mm256_add_epi16, _mm256_add_epi32, _mm256_and_si256, _mm256_broadcastsi128_si256,
    _mm256_castsi256_ps, _mm256_cvtepi32_ps, _mm256_cvtepu8_epi32, _mm256_cvtepu16_epi32,
    _mm256_cvtph_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_loadu_si256, _mm256_madd_epi16,
    _mm256_maddubs_epi16, _mm256_max_epi32, _mm256_mul_ps, _mm256_or_si256, _mm256_set1_epi16,
    _mm256_set1_epi32, _mm256_set1_ps, _mm256_shuffle_epi8, _mm256_sign_epi8, _mm256_sll_epi32,
    _mm256_slli_epi32, _mm256_sra_epi32, _mm256_srl_epi32, _mm256_storeu_ps, _mm256_sub_epi32,
};

use super::{Kernel, Lanes, word};

/// Says that the CPU has AVX2, FMA and F16C: only [`run`] makes one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Avx2(());

/// Runs `kernel` compiled for AVX2.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn run(kernel: impl Kernel) {
    kernel.run(Avx2(()));
}

#[inline(always)]
fn load_128(bytes: &[u8], offset: usize) -> __m128i {
    let bytes: &[u8] = &bytes[offset..offset + 16];
    // SAFETY: the slice was just cut to 16 bytes; the load needs no alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// Eight bytes, in the low half.
#[inline(always)]
fn load_64(bytes: &[u8], offset: usize) -> __m128i {
    let bytes: &[u8] = &bytes[offset..offset + 8];
    // SAFETY: the slice was just cut to 8 bytes; the load needs no alignment.
    unsafe { _mm_loadl_epi64(bytes.as_ptr().cast()) }
}

impl Avx2 {
    /// The four byte products of each word, added in pairs: 16-bit sums.
    #[inline(always)]
    fn pair_sums(self, unsigned: __m256i, signed: __m256i) -> __m256i {
        // SAFETY: `self` says that the CPU has AVX2.
        unsafe { _mm256_maddubs_epi16(unsigned, signed) }
    }

    /// `sum` and both halves of each word of `pairs`.
    #[inline(always)]
    fn add_pairs(self, sum: __m256i, pairs: __m256i) -> __m256i {
        // SAFETY: `self` says that the CPU has AVX2.
        let ones = unsafe { _mm256_set1_epi16(1) };
        // SAFETY: `self` says that the CPU has AVX2.
        let words = unsafe { _mm256_madd_epi16(pairs, ones) };
        // SAFETY: `self` says that the CPU has AVX2.
        unsafe { _mm256_add_epi32(sum, words) }
    }
}

impl Lanes for Avx2 {
    const N: usize = 8;
    const TILE_ROWS_MAX: usize = 4;
    type Words = __m256i;
    type Floats = __m256;

    #[inline(always)]
    fn words(self, bytes: &[u8], offset: usize) -> __m256i {
        let bytes: &[u8] = &bytes[offset..offset + 32];
        // SAFETY: the slice was just cut to 32 bytes, and `self` says that the CPU has AVX2.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn splat_word(self, word: u32) -> __m256i {
        // SAFETY: `self` says that the CPU has AVX2.
        unsafe { _mm256_set1_epi32(word.cast_signed()) }
    }

    #[inline(always)]
    fn and(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` says that the CPU has AVX2.
        unsafe { _mm256_and_si256(a, b) }
    }

    #[inline(always)]
    fn or(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` says that the CPU has AVX2.
        unsafe { _mm256_or_si256(a, b) }
    }

    #[inline(always)]
    fn shl(self, words: __m256i, n: u32) -> __m256i {
        // SAFETY: `self` says that the CPU has AVX2, hence SSE2.
        let n = unsafe { _mm_cvtsi32_si128(n.cast_signed()) };
        // SAFETY: `self` says that the CPU has AVX2.
        unsafe { _mm256_sll_epi32(words, n) }
    }

    #[inline(always)]
    fn shr(self, words: __m256i, n: u32) -> __m256i {
        // SAFETY: `self` says that the CPU has AVX2, hence SSE2.
        let n = unsafe { _mm_cvtsi32_si128(n.cast_signed()) };
        // SAFETY: `self` says that the CPU has AVX2.
        unsafe { _mm256_srl_epi32(words, n) }
    }

    #[inline(always)]
    fn shr_signed(self, words: __m256i, n: u32) -> __m256i {
        // SAFETY: `self` says that the CPU has AVX2, hence SSE2.
        let n = unsafe { _mm_cvtsi32_si128(n.cast_signed()) };
        // SAFETY: `self` says that the CPU has AVX2.
        unsafe { _mm256_sra_epi32(words, n) }
    }

    #[inline(always)]
    fn repeat_low_byte(self, words: __m256i) -> __m256i {
        let low = self.table(&[0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12]);
        // SAFETY: `self` says that the CPU has AVX2.
        unsafe { _mm256_shuffle_epi8(words, low) }
    }

    #[inline(always)]
    fn table(self, bytes: &[u8; 16]) -> __m256i {
        // SAFETY: `self` says that the CPU has AVX2.
        unsafe { _mm256_broadcastsi128_si256(load_128(bytes, 0)) }
    }

    #[inline(always)]
    fn lookup(self, table: __m256i, indices: __m256i) -> __m256i {
        // SAFETY: `self` says that the CPU has AVX2.
        unsafe { _mm256_shuffle_epi8(table, indices) }
    }

    /// A sum of two products is below `2^(bits + 8)` in size: for 4 bits the 16-bit sums of eight words fit, for each
    /// further bit those of half as many. Exact, for nothing is saturated.
    #[inline(always)]
    fn dot_unsigned<const W: usize>(
        self,
        bits: u32,
        start: i32,
        w: &[__m256i; W],
        a: &[[i8; 4]; W],
    ) -> __m256i {
        assert!((4..=7).contains(&bits), "sums of two products fit in 16 bits");
        let at_once = 8 >> (bits - 4);
        let mut sum = self.splat_word(start.cast_unsigned());
        let mut i = 0;
        while i < W {
            let end = if i + at_once < W { i + at_once } else { W };
            let mut pairs = self.pair_sums(w[i], self.splat_word(word(a[i])));
            i += 1;
            while i < end {
                let more = self.pair_sums(w[i], self.splat_word(word(a[i])));
                // SAFETY: `self` says that the CPU has AVX2.
                pairs = unsafe { _mm256_add_epi16(pairs, more) };
                i += 1;
            }
            sum = self.add_pairs(sum, pairs);
        }
        sum
    }

    #[inline(always)]
    fn signed(self, bytes: __m256i) -> __m256i {
        bytes
    }

    /// The instruction multiplies unsigned by signed bytes: the sign of each weight moves over to its activation.
    /// Sums of two products stay below `2 * 128 * 127`, which fits in 16 bits.
    #[inline(always)]
    fn dot_signed<const W: usize>(
        self,
        w: &[__m256i; W],
        a: &[[i8; 4]; W],
        _sum_a: i32,
    ) -> __m256i {
        let mut sum = self.splat_word(0);
        for (w, a) in w.iter().zip(a) {
            // SAFETY: `self` says that the CPU has AVX2.
            let size = unsafe { _mm256_abs_epi8(*w) };
            let a = self.splat_word(word(*a));
            // SAFETY: `self` says that the CPU has AVX2.
            let signed = unsafe { _mm256_sign_epi8(a, *w) };
            sum = self.add_pairs(sum, self.pair_sums(size, signed));
        }
        sum
    }

    #[inline(always)]
    fn to_floats(self, words: __m256i) -> __m256 {
        // SAFETY: `self` says that the CPU has AVX2.
        unsafe { _mm256_cvtepi32_ps(words) }
    }

    #[inline(always)]
    fn f16s(self, bytes: &[u8], offset: usize) -> __m256 {
        // SAFETY: `self` says that the CPU has F16C.
        unsafe { _mm256_cvtph_ps(load_128(bytes, offset)) }
    }

    #[inline(always)]
    fn u16s(self, bytes: &[u8], offset: usize) -> __m256i {
        // SAFETY: `self` says that the CPU has AVX2.
        unsafe { _mm256_cvtepu16_epi32(load_128(bytes, offset)) }
    }

    #[inline(always)]
    fn bf16s(self, bytes: &[u8], offset: usize) -> __m256 {
        let low = self.u16s(bytes, offset);
        // SAFETY: `self` says that the CPU has AVX2.
        let high = unsafe { _mm256_slli_epi32::<16>(low) };
        // SAFETY: `self` says that the CPU has AVX2.
        unsafe { _mm256_castsi256_ps(high) }
    }

    #[inline(always)]
    fn f32s(self, bytes: &[u8], offset: usize) -> __m256 {
        let bytes: &[u8] = &bytes[offset..offset + 32];
        // SAFETY: the slice was just cut to 32 bytes, and `self` says that the CPU has AVX2.
        unsafe { _mm256_loadu_ps(bytes.as_ptr().cast()) }
    }

    /// The bits are `(e - 1) << 23`; for exponents 0 and 1, where that is not above zero, `(e + 1) << 21`.
    #[inline(always)]
    fn e8m0_halves(self, bytes: &[u8], offset: usize) -> __m256 {
        let one = self.splat_word(1);
        // SAFETY: `self` says that the CPU has AVX2.
        let e = unsafe { _mm256_cvtepu8_epi32(load_64(bytes, offset)) };
        // SAFETY: `self` says that the CPU has AVX2.
        let normal = self.shl(unsafe { _mm256_sub_epi32(e, one) }, 23);
        // SAFETY: `self` says that the CPU has AVX2.
        let tiny = self.shl(unsafe { _mm256_add_epi32(e, one) }, 21);
        // SAFETY: `self` says that the CPU has AVX2.
        let bits = unsafe { _mm256_max_epi32(normal, tiny) };
        // SAFETY: `self` says that the CPU has AVX2.
        unsafe { _mm256_castsi256_ps(bits) }
    }

    #[inline(always)]
    fn load(self, values: &[f32]) -> __m256 {
        let values: &[f32] = &values[..8];
        // SAFETY: the slice was just cut to 8 values, and `self` says that the CPU has AVX2.
        unsafe { _mm256_loadu_ps(values.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, values: &mut [f32], floats: __m256) {
        let values: &mut [f32] = &mut values[..8];
        // SAFETY: the slice was just cut to 8 values, and `self` says that the CPU has AVX2.
        unsafe { _mm256_storeu_ps(values.as_mut_ptr(), floats) }
    }

    #[inline(always)]
    fn splat(self, value: f32) -> __m256 {
        // SAFETY: `self` says that the CPU has AVX2.
        unsafe { _mm256_set1_ps(value) }
    }

    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: `self` says that the CPU has AVX2.
        unsafe { _mm256_mul_ps(a, b) }
    }

    #[inline(always)]
    fn fma(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: `self` says that the CPU has FMA.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }
}
