//! Registers of 32-bit lanes, in which dot kernels are written once and compiled for each instruction set.
//!
//! [`run`] picks the instruction set. A value of a type that is [`Lanes`] exists only inside the function that `run`
//! compiles for its instruction set, so each intrinsic behind its methods is there when it is called. All methods and
//! all of a kernel's own functions are `#[inline(always)]`: that moves them into that function, where they compile to
//! the instructions that they name. A closure would stay outside; kernels use loops.

#[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
pub(crate) mod amx;
#[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
mod avx2;
#[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
mod avx512;
mod scalar;

#[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
pub(crate) use avx512::{BesideTiles, TileKernel};

use crate::cpu::Isa;

/// A kernel whose body is generic over the instruction set.
pub(crate) trait Kernel {
    /// The body; `#[inline(always)]`.
    fn run<L: Lanes>(self, lanes: L);
}

/// Runs `kernel` compiled for `isa`, which is lowered to what the CPU has.
pub(crate) fn run(isa: Isa, kernel: impl Kernel) {
    #[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
    match isa.min(crate::cpu::isa()) {
        // SAFETY: `isa()` found these features on this CPU.
        Isa::Avx512Vnni | Isa::Amx => return unsafe { avx512::run(kernel) },
        // SAFETY: `isa()` found these features on this CPU.
        Isa::Avx2 => return unsafe { avx2::run(kernel) },
        Isa::Scalar => {}
    }
    let _ = isa;
    kernel.run(scalar::Scalar);
}

/// Runs `kernel` compiled for AVX-512 beside tile registers.
///
/// # Panics
/// When the CPU has no AVX-512.
#[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
pub(crate) fn run_beside_tiles(kernel: impl TileKernel) {
    assert!(crate::cpu::isa() >= Isa::Avx512Vnni, "AVX-512 stands beside tiles");
    // SAFETY: `isa()` found these features on this CPU.
    unsafe { avx512::run_beside_tiles(kernel) }
}

/// An instruction set seen as registers of `N` lanes of 32 bits.
///
/// Lanes never mix. A word is four bytes, the first one lowest. Every method gives the same bits for every
/// instruction set.
pub(crate) trait Lanes: Copy {
    /// Lanes of a register; divides 16.
    const N: usize;
    /// Activation rows of a tile at most, so that its sums stay in registers.
    const TILE_ROWS_MAX: usize;
    /// `N` words.
    type Words: Copy;
    /// `N` floats.
    type Floats: Copy;

    /// The words at byte `offset`.
    fn words(self, bytes: &[u8], offset: usize) -> Self::Words;
    /// One word in every lane.
    fn splat_word(self, word: u32) -> Self::Words;
    /// One byte everywhere.
    #[inline(always)]
    fn splat_byte(self, byte: u8) -> Self::Words {
        self.splat_word(u32::from_le_bytes([byte; 4]))
    }
    /// Bitwise and.
    fn and(self, a: Self::Words, b: Self::Words) -> Self::Words;
    /// Bitwise or.
    fn or(self, a: Self::Words, b: Self::Words) -> Self::Words;
    /// Each word shifted left by `n` below 32, zeros coming in.
    fn shl(self, words: Self::Words, n: u32) -> Self::Words;
    /// Each word shifted right by `n` below 32, zeros coming in.
    fn shr(self, words: Self::Words, n: u32) -> Self::Words;
    /// Each word shifted right by `n` below 32, copies of its sign coming in.
    fn shr_signed(self, words: Self::Words, n: u32) -> Self::Words;
    /// Four times the lowest byte of each word.
    fn repeat_low_byte(self, words: Self::Words) -> Self::Words;
    /// 16 bytes to look up in.
    fn table(self, bytes: &[u8; 16]) -> Self::Words;
    /// Each byte, below 16, replaced by that entry of `table`.
    fn lookup(self, table: Self::Words, indices: Self::Words) -> Self::Words;

    /// `start + Σ w a` over unsigned bytes `w` of at most `bits` bits, 4 to 7, and the activations of each word.
    fn dot_unsigned<const W: usize>(
        self,
        bits: u32,
        start: i32,
        w: &[Self::Words; W],
        a: &[[i8; 4]; W],
    ) -> Self::Words;
    /// Signed bytes as [`Lanes::dot_signed`] wants them: byte by byte, so that a table may be prepared as well.
    fn signed(self, bytes: Self::Words) -> Self::Words;
    /// `Σ w a` over signed bytes made by [`Lanes::signed`] and activations above -128 whose sum is `sum_a`.
    fn dot_signed<const W: usize>(
        self,
        w: &[Self::Words; W],
        a: &[[i8; 4]; W],
        sum_a: i32,
    ) -> Self::Words;

    /// Integers below 2^24 in size as floats.
    fn to_floats(self, words: Self::Words) -> Self::Floats;
    /// The 16-bit integers at byte `offset`, each in the low half of its word.
    fn u16s(self, bytes: &[u8], offset: usize) -> Self::Words;
    /// The half-precision floats at byte `offset`.
    fn f16s(self, bytes: &[u8], offset: usize) -> Self::Floats;
    /// The bfloat16 at byte `offset`.
    fn bf16s(self, bytes: &[u8], offset: usize) -> Self::Floats;
    /// The floats at byte `offset`.
    fn f32s(self, bytes: &[u8], offset: usize) -> Self::Floats;
    /// `2^(e - 128)` for the bytes `e` at `offset`: half of what an E8M0 exponent means. 255 is a number here.
    fn e8m0_halves(self, bytes: &[u8], offset: usize) -> Self::Floats;
    /// The first `N` floats of `values`.
    fn load(self, values: &[f32]) -> Self::Floats;
    /// Writes the first `N` floats of `values`.
    fn store(self, values: &mut [f32], floats: Self::Floats);
    /// One float in every lane.
    fn splat(self, value: f32) -> Self::Floats;
    /// `a b`, rounded.
    fn mul(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a b + c`, rounded once.
    fn fma(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
}

/// Four activations as the word that meets a word of weights.
#[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
#[inline(always)]
fn word(a: [i8; 4]) -> u32 {
    let [a, b, c, d] = a.map(i8::cast_unsigned);
    u32::from_le_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight words of one byte everywhere with activations of one value everywhere.
    struct Extreme<'a> {
        weight: u8,
        bits: Option<u32>,
        a: i8,
        sums: &'a mut Vec<f32>,
    }

    impl Kernel for Extreme<'_> {
        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) {
            let (w, a) = ([lanes.splat_byte(self.weight); 8], [[self.a; 4]; 8]);
            let dot = match self.bits {
                Some(bits) => lanes.dot_unsigned(bits, 7, &w, &a),
                None => lanes.dot_signed(&w.map(|w| lanes.signed(w)), &a, 32 * i32::from(self.a)),
            };
            self.sums.resize(L::N, 0.0);
            lanes.store(self.sums, lanes.to_floats(dot));
        }
    }

    fn check(weight: u8, bits: Option<u32>, expected: i32) {
        for a in [-127, -1, 127] {
            for isa in [Isa::Scalar, Isa::Avx2, Isa::Avx512Vnni, Isa::Amx] {
                let mut sums = Vec::new();
                run(isa, Extreme { weight, bits, a, sums: &mut sums });
                let start = if bits.is_some() { 7 } else { 0 };
                let expected = (start + 32 * expected * i32::from(a)) as f32;
                assert!(sums.iter().all(|&sum| sum == expected), "{weight} {bits:?} {a}: {sums:?}");
            }
        }
    }

    #[test]
    fn the_largest_weights_and_activations_do_not_overflow() {
        check(15, Some(4), 15);
        check(31, Some(5), 31);
        check(63, Some(6), 63);
        check(127, Some(7), 127);
        check(0x80, None, -128);
        check(0x7f, None, 127);
    }
}
