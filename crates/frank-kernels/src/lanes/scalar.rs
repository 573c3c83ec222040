//! Lanes as plain arrays: the reference for the others, and what runs where no SIMD form is compiled in.

use frank_gguf::quant::f16_to_f32;

use super::Lanes;

const N: usize = 8;

/// The baseline of the target.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scalar;

/// One lane of each of two registers after the other.
#[inline(always)]
fn zip<A: Copy, B: Copy, C: Copy + Default>(
    a: [A; N],
    b: [B; N],
    each: impl Fn(A, B) -> C,
) -> [C; N] {
    let mut out = [C::default(); N];
    for i in 0..N {
        out[i] = each(a[i], b[i]);
    }
    out
}

/// The `N` pieces of `SIZE` bytes at `offset`.
#[inline(always)]
fn pieces<const SIZE: usize>(bytes: &[u8], offset: usize) -> &[[u8; SIZE]; N] {
    let (pieces, _) = bytes[offset..offset + N * SIZE].as_chunks();
    pieces.first_chunk().expect("the slice was just cut to N pieces")
}

impl Scalar {
    #[inline(always)]
    fn dot<const W: usize>(
        start: i32,
        w: &[[u32; N]; W],
        a: &[[i8; 4]; W],
        value: impl Fn(u8) -> i32,
    ) -> [u32; N] {
        let mut sums = [start; N];
        for (w, a) in w.iter().zip(a) {
            for (sum, w) in sums.iter_mut().zip(w) {
                let w = w.to_le_bytes();
                *sum += value(w[0]) * i32::from(a[0])
                    + value(w[1]) * i32::from(a[1])
                    + value(w[2]) * i32::from(a[2])
                    + value(w[3]) * i32::from(a[3]);
            }
        }
        sums.map(i32::cast_unsigned)
    }
}

impl Lanes for Scalar {
    const N: usize = N;
    const TILE_ROWS_MAX: usize = 4;
    type Words = [u32; N];
    type Floats = [f32; N];

    #[inline(always)]
    fn words(self, bytes: &[u8], offset: usize) -> [u32; N] {
        pieces(bytes, offset).map(u32::from_le_bytes)
    }

    #[inline(always)]
    fn splat_word(self, word: u32) -> [u32; N] {
        [word; N]
    }

    #[inline(always)]
    fn and(self, a: [u32; N], b: [u32; N]) -> [u32; N] {
        zip(a, b, |a, b| a & b)
    }

    #[inline(always)]
    fn or(self, a: [u32; N], b: [u32; N]) -> [u32; N] {
        zip(a, b, |a, b| a | b)
    }

    #[inline(always)]
    fn shl(self, words: [u32; N], n: u32) -> [u32; N] {
        words.map(|word| word << n)
    }

    #[inline(always)]
    fn shr(self, words: [u32; N], n: u32) -> [u32; N] {
        words.map(|word| word >> n)
    }

    #[inline(always)]
    fn shr_signed(self, words: [u32; N], n: u32) -> [u32; N] {
        words.map(|word| (word.cast_signed() >> n).cast_unsigned())
    }

    #[inline(always)]
    fn repeat_low_byte(self, words: [u32; N]) -> [u32; N] {
        words.map(|word| (word & 0xff) * 0x0101_0101)
    }

    /// The first lanes hold the table, the others are not read.
    #[inline(always)]
    fn table(self, bytes: &[u8; 16]) -> [u32; N] {
        let mut table = [0; N];
        for (word, bytes) in table.iter_mut().zip(bytes.as_chunks().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        table
    }

    #[inline(always)]
    fn lookup(self, table: [u32; N], indices: [u32; N]) -> [u32; N] {
        let bytes: [u8; 4 * N] = bytemuck::cast(table.map(u32::to_le_bytes));
        indices.map(|word| {
            u32::from_le_bytes(word.to_le_bytes().map(|index| bytes[usize::from(index & 15)]))
        })
    }

    #[inline(always)]
    fn dot_unsigned<const W: usize>(
        self,
        _bits: u32,
        start: i32,
        w: &[[u32; N]; W],
        a: &[[i8; 4]; W],
    ) -> [u32; N] {
        Self::dot(start, w, a, i32::from)
    }

    #[inline(always)]
    fn signed(self, bytes: [u32; N]) -> [u32; N] {
        bytes
    }

    #[inline(always)]
    fn dot_signed<const W: usize>(
        self,
        w: &[[u32; N]; W],
        a: &[[i8; 4]; W],
        _sum_a: i32,
    ) -> [u32; N] {
        Self::dot(0, w, a, |w| i32::from(w.cast_signed()))
    }

    #[inline(always)]
    #[expect(clippy::cast_precision_loss, reason = "the caller promises integers below 2^24")]
    fn to_floats(self, words: [u32; N]) -> [f32; N] {
        words.map(|word| word.cast_signed() as f32)
    }

    #[inline(always)]
    fn u16s(self, bytes: &[u8], offset: usize) -> [u32; N] {
        pieces(bytes, offset).map(|bytes| u16::from_le_bytes(bytes).into())
    }

    #[inline(always)]
    fn f16s(self, bytes: &[u8], offset: usize) -> [f32; N] {
        pieces(bytes, offset).map(|bytes| f16_to_f32(u16::from_le_bytes(bytes)))
    }

    #[inline(always)]
    fn bf16s(self, bytes: &[u8], offset: usize) -> [f32; N] {
        pieces(bytes, offset).map(|[low, high]| f32::from_le_bytes([0, 0, low, high]))
    }

    #[inline(always)]
    fn f32s(self, bytes: &[u8], offset: usize) -> [f32; N] {
        pieces(bytes, offset).map(f32::from_le_bytes)
    }

    #[inline(always)]
    fn e8m0_halves(self, bytes: &[u8], offset: usize) -> [f32; N] {
        pieces(bytes, offset).map(|[e]| {
            // Below 2^-126 the bits of the fraction count: 2^-128 and 2^-127.
            f32::from_bits(if e < 2 { 0x0020_0000 << e } else { u32::from(e - 1) << 23 })
        })
    }

    #[inline(always)]
    fn load(self, values: &[f32]) -> [f32; N] {
        *values.first_chunk().expect("a value for each lane")
    }

    #[inline(always)]
    fn store(self, values: &mut [f32], floats: [f32; N]) {
        values[..N].copy_from_slice(&floats);
    }

    #[inline(always)]
    fn splat(self, value: f32) -> [f32; N] {
        [value; N]
    }

    #[inline(always)]
    fn mul(self, a: [f32; N], b: [f32; N]) -> [f32; N] {
        zip(a, b, |a, b| a * b)
    }

    #[inline(always)]
    fn fma(self, a: [f32; N], b: [f32; N], c: [f32; N]) -> [f32; N] {
        let mut out = c;
        for i in 0..N {
            out[i] = a[i].mul_add(b[i], c[i]);
        }
        out
    }
}
