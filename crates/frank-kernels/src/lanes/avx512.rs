//! Lanes as 512-bit registers, with the byte products of VNNI.

use std::arch::x86_64::{
    __m128i, __m256i, __m512, __m512i, _mm_cvtsi32_si128, _mm_loadu_si128, _mm256_loadu_si256,
    _mm512_add_epi32, _mm512_and_si512, _mm512_broadcast_i32x4, _mm512_castsi512_ps,
    _mm512_cvtepi32_ps, _mm512_cvtepu8_epi32, _mm512_cvtepu16_epi32, _mm512_cvtph_ps,
    _mm512_dpbusd_epi32, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_max_epi32,
    _mm512_mul_ps, _mm512_or_si512, _mm512_set1_epi32, _mm512_set1_ps, _mm512_shuffle_epi8,
    _mm512_sll_epi32, _mm512_slli_epi32, _mm512_sra_epi32, _mm512_srl_epi32, _mm512_storeu_ps,
    _mm512_storeu_si512, _mm512_sub_epi8, _mm512_sub_epi32, _mm512_xor_si512,
};

use super::{Kernel, Lanes, word};

/// Says that the CPU has AVX-512 F, BW, DQ, VL and VNNI: only the functions below make one. `TILES` says that tile
/// registers make the dots of signed bytes, which take them as they are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx512<const TILES: bool>(());

/// Lanes beside tile registers.
pub(crate) type BesideTiles = Avx512<true>;

/// A kernel that multiplies with tile registers and has its floats in these lanes.
pub(crate) trait TileKernel {
    /// The body; `#[inline(always)]`.
    fn run(self, lanes: BesideTiles);
}

/// Runs `kernel` compiled for AVX-512.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
pub(super) fn run(kernel: impl Kernel) {
    kernel.run(Avx512::<false>(()));
}

/// As [`run`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
pub(super) fn run_beside_tiles(kernel: impl TileKernel) {
    kernel.run(Avx512::<true>(()));
}

#[inline(always)]
fn load_128(bytes: &[u8], offset: usize) -> __m128i {
    let bytes: &[u8] = &bytes[offset..offset + 16];
    // SAFETY: the slice was just cut to 16 bytes; the load needs no alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

impl<const TILES: bool> Avx512<TILES> {
    #[inline(always)]
    fn load_256(self, bytes: &[u8], offset: usize) -> __m256i {
        let bytes: &[u8] = &bytes[offset..offset + 32];
        // SAFETY: the slice was just cut to 32 bytes, and `self` says that the CPU has AVX.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }

    /// `start + Σ w a` over unsigned bytes `w` and signed bytes `a`.
    #[inline(always)]
    fn dot<const W: usize>(self, start: i32, w: &[__m512i; W], a: &[[i8; 4]; W]) -> __m512i {
        let mut sum = self.splat_word(start.cast_unsigned());
        for (w, a) in w.iter().zip(a) {
            let a = self.splat_word(word(*a));
            // SAFETY: `self` says that the CPU has AVX-512 VNNI.
            sum = unsafe { _mm512_dpbusd_epi32(sum, *w, a) };
        }
        sum
    }
}

impl BesideTiles {
    /// Each byte less `less`.
    #[inline(always)]
    pub(crate) fn less(self, bytes: __m512i, less: u8) -> __m512i {
        // SAFETY: `self` says that the CPU has AVX-512 BW.
        unsafe { _mm512_sub_epi8(bytes, self.splat_byte(less)) }
    }

    /// Writes the words of a register.
    #[inline(always)]
    pub(crate) fn store_words(self, to: &mut [u8; 64], words: __m512i) {
        // SAFETY: the array has 64 bytes, and `self` says that the CPU has AVX-512.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), words) }
    }
}

impl<const TILES: bool> Lanes for Avx512<TILES> {
    const N: usize = 16;
    const TILE_ROWS_MAX: usize = 8;
    type Words = __m512i;
    type Floats = __m512;

    #[inline(always)]
    fn words(self, bytes: &[u8], offset: usize) -> __m512i {
        let bytes: &[u8] = &bytes[offset..offset + 64];
        // SAFETY: the slice was just cut to 64 bytes, and `self` says that the CPU has AVX-512.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn splat_word(self, word: u32) -> __m512i {
        // SAFETY: `self` says that the CPU has AVX-512.
        unsafe { _mm512_set1_epi32(word.cast_signed()) }
    }

    #[inline(always)]
    fn and(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` says that the CPU has AVX-512.
        unsafe { _mm512_and_si512(a, b) }
    }

    #[inline(always)]
    fn or(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` says that the CPU has AVX-512.
        unsafe { _mm512_or_si512(a, b) }
    }

    #[inline(always)]
    fn shl(self, words: __m512i, n: u32) -> __m512i {
        // SAFETY: `self` says that the CPU has AVX-512, hence SSE2.
        let n = unsafe { _mm_cvtsi32_si128(n.cast_signed()) };
        // SAFETY: `self` says that the CPU has AVX-512.
        unsafe { _mm512_sll_epi32(words, n) }
    }

    #[inline(always)]
    fn shr(self, words: __m512i, n: u32) -> __m512i {
        // SAFETY: `self` says that the CPU has AVX-512, hence SSE2.
        let n = unsafe { _mm_cvtsi32_si128(n.cast_signed()) };
        // SAFETY: `self` says that the CPU has AVX-512.
        unsafe { _mm512_srl_epi32(words, n) }
    }

    #[inline(always)]
    fn shr_signed(self, words: __m512i, n: u32) -> __m512i {
        // SAFETY: `self` says that the CPU has AVX-512, hence SSE2.
        let n = unsafe { _mm_cvtsi32_si128(n.cast_signed()) };
        // SAFETY: `self` says that the CPU has AVX-512.
        unsafe { _mm512_sra_epi32(words, n) }
    }

    #[inline(always)]
    fn repeat_low_byte(self, words: __m512i) -> __m512i {
        let low = self.table(&[0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12]);
        // SAFETY: `self` says that the CPU has AVX-512 BW.
        unsafe { _mm512_shuffle_epi8(words, low) }
    }

    #[inline(always)]
    fn table(self, bytes: &[u8; 16]) -> __m512i {
        // SAFETY: `self` says that the CPU has AVX-512.
        unsafe { _mm512_broadcast_i32x4(load_128(bytes, 0)) }
    }

    #[inline(always)]
    fn lookup(self, table: __m512i, indices: __m512i) -> __m512i {
        // SAFETY: `self` says that the CPU has AVX-512 BW.
        unsafe { _mm512_shuffle_epi8(table, indices) }
    }

    #[inline(always)]
    fn dot_unsigned<const W: usize>(
        self,
        _bits: u32,
        start: i32,
        w: &[__m512i; W],
        a: &[[i8; 4]; W],
    ) -> __m512i {
        self.dot(start, w, a)
    }

    /// The instruction multiplies unsigned by signed bytes, so signed ones are moved up by 128 (a flip of their sign
    /// bit), and `128 Σ a` is taken off again: exact in integers.
    #[inline(always)]
    fn signed(self, bytes: __m512i) -> __m512i {
        if TILES {
            return bytes;
        }
        let sign = self.splat_byte(0x80);
        // SAFETY: `self` says that the CPU has AVX-512.
        unsafe { _mm512_xor_si512(bytes, sign) }
    }

    #[inline(always)]
    fn dot_signed<const W: usize>(self, w: &[__m512i; W], a: &[[i8; 4]; W], sum_a: i32) -> __m512i {
        const { assert!(!TILES, "beside tiles signed bytes are not moved up") };
        self.dot(-128 * sum_a, w, a)
    }

    #[inline(always)]
    fn to_floats(self, words: __m512i) -> __m512 {
        // SAFETY: `self` says that the CPU has AVX-512.
        unsafe { _mm512_cvtepi32_ps(words) }
    }

    #[inline(always)]
    fn f16s(self, bytes: &[u8], offset: usize) -> __m512 {
        // SAFETY: `self` says that the CPU has AVX-512.
        unsafe { _mm512_cvtph_ps(self.load_256(bytes, offset)) }
    }

    #[inline(always)]
    fn u16s(self, bytes: &[u8], offset: usize) -> __m512i {
        // SAFETY: `self` says that the CPU has AVX-512.
        unsafe { _mm512_cvtepu16_epi32(self.load_256(bytes, offset)) }
    }

    #[inline(always)]
    fn bf16s(self, bytes: &[u8], offset: usize) -> __m512 {
        let low = self.u16s(bytes, offset);
        // SAFETY: `self` says that the CPU has AVX-512.
        let high = unsafe { _mm512_slli_epi32::<16>(low) };
        // SAFETY: `self` says that the CPU has AVX-512.
        unsafe { _mm512_castsi512_ps(high) }
    }

    #[inline(always)]
    fn f32s(self, bytes: &[u8], offset: usize) -> __m512 {
        let bytes: &[u8] = &bytes[offset..offset + 64];
        // SAFETY: the slice was just cut to 64 bytes, and `self` says that the CPU has AVX-512.
        unsafe { _mm512_loadu_ps(bytes.as_ptr().cast()) }
    }

    /// The bits are `(e - 1) << 23`; for exponents 0 and 1, where that is not above zero, `(e + 1) << 21`.
    #[inline(always)]
    fn e8m0_halves(self, bytes: &[u8], offset: usize) -> __m512 {
        let one = self.splat_word(1);
        // SAFETY: `self` says that the CPU has AVX-512.
        let e = unsafe { _mm512_cvtepu8_epi32(load_128(bytes, offset)) };
        // SAFETY: `self` says that the CPU has AVX-512.
        let normal = self.shl(unsafe { _mm512_sub_epi32(e, one) }, 23);
        // SAFETY: `self` says that the CPU has AVX-512.
        let tiny = self.shl(unsafe { _mm512_add_epi32(e, one) }, 21);
        // SAFETY: `self` says that the CPU has AVX-512.
        let bits = unsafe { _mm512_max_epi32(normal, tiny) };
        // SAFETY: `self` says that the CPU has AVX-512.
        unsafe { _mm512_castsi512_ps(bits) }
    }

    #[inline(always)]
    fn load(self, values: &[f32]) -> __m512 {
        let values: &[f32] = &values[..16];
        // SAFETY: the slice was just cut to 16 values, and `self` says that the CPU has AVX-512.
        unsafe { _mm512_loadu_ps(values.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, values: &mut [f32], floats: __m512) {
        let values: &mut [f32] = &mut values[..16];
        // SAFETY: the slice was just cut to 16 values, and `self` says that the CPU has AVX-512.
        unsafe { _mm512_storeu_ps(values.as_mut_ptr(), floats) }
    }

    #[inline(always)]
    fn splat(self, value: f32) -> __m512 {
        // SAFETY: `self` says that the CPU has AVX-512.
        unsafe { _mm512_set1_ps(value) }
    }

    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: `self` says that the CPU has AVX-512.
        unsafe { _mm512_mul_ps(a, b) }
    }

    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: `self` says that the CPU has AVX-512.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
}
