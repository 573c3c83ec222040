//! Dots of interleaved weights with 8-bit activations: the loops over a group that all types share.
//!
//! An output is one chain of fused multiply-adds in block order within one lane, the same for one row or many, and the
//! same whether integer dots come from vector registers or from tiles: they are exact.

use std::marker::PhantomData;

use super::packed::{PackedType, WORD};
use super::scaling::Scaling;
use super::{Form, GROUP_ROWS, GroupDots, WeightKernel};
use crate::activations::{Activations, QUANT_BLOCK, QuantBlock};
use crate::cpu::Isa;
use crate::lanes::{self, Kernel, Lanes};

/// A type whose rows are interleaved.
pub(crate) trait Interleaved {
    /// Its geometry.
    const PACKED: PackedType;
    /// What the quants are that [`Interleaved::unpack`] gives.
    const QUANTS: Quants;
    /// What dots are multiplied with.
    type Scaling: Scaling;

    /// Gives `parts` each 32 values of a block of `N` weight rows, in order. `#[inline(always)]`.
    fn unpack<L: Lanes>(lanes: L, weights: Block<'_>, parts: &mut impl Parts<L, Self::Scaling>);
}

/// What the bytes of unpacked quants mean.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Quants {
    /// Unsigned, of 4 to 7 `bits` at most; a quant is that number less `less`.
    Unsigned { bits: u32, less: u8 },
    /// Signed, made by [`Lanes::signed`].
    Signed,
}

/// What takes the parts of a block: 32 values of each of `N` weight rows.
pub(crate) trait Parts<L: Lanes, S: Scaling> {
    /// Takes part `i`. `#[inline(always)]`.
    fn add(&mut self, lanes: L, i: usize, q: &[L::Words; 8], scales: S::Of<L>);
}

/// One block of `N` rows of a group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block<'a> {
    /// `[words, 16]`.
    pub(super) words: &'a [u8],
    /// `[scales, 16]`.
    pub(super) scales: &'a [u8],
    /// The row in the first lane.
    pub(super) first_row: usize,
}

impl Block<'_> {
    /// Word `i` of each row.
    #[inline(always)]
    pub(crate) fn word<L: Lanes>(&self, lanes: L, i: usize) -> L::Words {
        lanes.words(self.words, (i * GROUP_ROWS + self.first_row) * WORD)
    }

    /// Words `first .. first + W`.
    #[inline(always)]
    pub(crate) fn words<L: Lanes, const W: usize>(&self, lanes: L, first: usize) -> [L::Words; W] {
        let mut words = [lanes.splat_word(0); W];
        for (i, word) in words.iter_mut().enumerate() {
            *word = self.word(lanes, first + i);
        }
        words
    }

    /// The 4-bit values of words `first .. first + 4`: first the low halves of all bytes, then the high ones.
    #[inline(always)]
    pub(crate) fn nibbles<L: Lanes>(&self, lanes: L, first: usize) -> [L::Words; 8] {
        let packed: [L::Words; 4] = self.words(lanes, first);
        let mut words = [packed[0]; 8];
        for (i, packed) in packed.iter().enumerate() {
            words[i] = low_nibbles(lanes, *packed);
            words[i + 4] = high_nibbles(lanes, *packed);
        }
        words
    }

    /// Scale `i` of each row, an f16.
    #[inline(always)]
    pub(crate) fn f16s<L: Lanes>(&self, lanes: L, i: usize) -> L::Floats {
        lanes.f16s(self.scales, (i * GROUP_ROWS + self.first_row) * 2)
    }

    /// Scale `i` of each row, a 16-bit integer.
    #[inline(always)]
    pub(crate) fn u16s<L: Lanes>(&self, lanes: L, i: usize) -> L::Words {
        lanes.u16s(self.scales, (i * GROUP_ROWS + self.first_row) * 2)
    }

    /// Half of what the one scale of each row means as an E8M0 exponent.
    #[inline(always)]
    pub(crate) fn e8m0_halves<L: Lanes>(&self, lanes: L) -> L::Floats {
        lanes.e8m0_halves(self.scales, self.first_row)
    }
}

/// The low half of each byte.
#[inline(always)]
pub(crate) fn low_nibbles<L: Lanes>(lanes: L, packed: L::Words) -> L::Words {
    lanes.and(packed, lanes.splat_byte(15))
}

/// The high half of each byte.
#[inline(always)]
pub(crate) fn high_nibbles<L: Lanes>(lanes: L, packed: L::Words) -> L::Words {
    low_nibbles(lanes, lanes.shr(packed, 4))
}

/// The kernel of a type in the table.
pub(crate) const fn kernel<T: Interleaved>(type_id: u32) -> WeightKernel {
    let dots = InterleavedDots {
        rows: dot::<T>,
        #[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
        tiles: super::tiles::dot::<T>,
    };
    WeightKernel { type_id, form: Form::Interleaved { packed: T::PACKED, dots } }
}

/// What multiplies an interleaved type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InterleavedDots {
    /// Dots of a group's 16 rows with rows of activations in the order of rows, from a first one, as many as the
    /// output has.
    pub(crate) rows: fn(Isa, &[u8], &Activations, usize, &mut [GroupDots]),
    /// The same with activations in tiles.
    #[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
    pub(crate) tiles: super::tiles::Dot,
}

fn dot<T: Interleaved>(
    isa: Isa,
    group: &[u8],
    activations: &Activations,
    first_row: usize,
    out: &mut [GroupDots],
) {
    lanes::run(isa, Dot::<T> { group, activations, first_row, out, weights: PhantomData });
}

/// Parts that meet `R` rows of activations at once.
struct Multiplied<'a, T, L: Lanes, const R: usize> {
    /// The blocks of each row, as many as the weights' block has parts.
    rows: &'a [&'a [QuantBlock]; R],
    acc: &'a mut [L::Floats; R],
    weights: PhantomData<T>,
}

impl<T: Interleaved, L: Lanes, const R: usize> Parts<L, T::Scaling> for Multiplied<'_, T, L, R> {
    #[inline(always)]
    fn add(
        &mut self,
        lanes: L,
        i: usize,
        q: &[L::Words; 8],
        scales: <T::Scaling as Scaling>::Of<L>,
    ) {
        for (acc, row) in self.acc.iter_mut().zip(self.rows) {
            let a = &row[i];
            let dots = if T::Scaling::HALVES {
                half_dots::<T, L>(lanes, q, a)
            } else {
                [whole_dot::<T, L>(lanes, q, a); 2]
            };
            *acc = T::Scaling::add(lanes, &scales, dots, a, *acc);
        }
    }
}

#[inline(always)]
fn whole_dot<T: Interleaved, L: Lanes>(lanes: L, q: &[L::Words; 8], a: &QuantBlock) -> L::Words {
    match T::QUANTS {
        Quants::Signed => lanes.dot_signed(q, &a.quants, a.sum()),
        Quants::Unsigned { bits, less } => {
            lanes.dot_unsigned(bits, -i32::from(less) * a.sum(), q, &a.quants)
        }
    }
}

#[inline(always)]
fn half_dots<T: Interleaved, L: Lanes>(
    lanes: L,
    q: &[L::Words; 8],
    a: &QuantBlock,
) -> [L::Words; 2] {
    let (q, _) = q.as_chunks::<4>();
    let [(a0, sum0), (a1, sum1)] = a.halves();
    match T::QUANTS {
        Quants::Signed => [lanes.dot_signed(&q[0], a0, sum0), lanes.dot_signed(&q[1], a1, sum1)],
        Quants::Unsigned { bits, less } => [
            lanes.dot_unsigned(bits, -i32::from(less) * sum0, &q[0], a0),
            lanes.dot_unsigned(bits, -i32::from(less) * sum1, &q[1], a1),
        ],
    }
}

struct Dot<'a, T> {
    group: &'a [u8],
    activations: &'a Activations,
    first_row: usize,
    out: &'a mut [GroupDots],
    weights: PhantomData<T>,
}

impl<T: Interleaved> Kernel for Dot<'_, T> {
    #[inline(always)]
    fn run<L: Lanes>(mut self, lanes: L) {
        let mut done = 0;
        while done < self.out.len() {
            // Runs of a constant length, so that a tile's sums are registers.
            done += match self.out.len() - done {
                8.. if L::TILE_ROWS_MAX >= 8 => self.tile::<L, 8>(lanes, done),
                4.. => self.tile::<L, 4>(lanes, done),
                2.. => self.tile::<L, 2>(lanes, done),
                _ => self.tile::<L, 1>(lanes, done),
            };
        }
    }
}

impl<T: Interleaved> Dot<'_, T> {
    #[inline(always)]
    fn tile<L: Lanes, const R: usize>(&mut self, lanes: L, first: usize) -> usize {
        let mut rows: [&[QuantBlock]; R] = [&[]; R];
        for (i, row) in rows.iter_mut().enumerate() {
            *row = self.activations.row(self.first_row + first + i);
        }
        let per_block = T::PACKED.values / QUANT_BLOCK;
        let n_blocks = rows[0].len() / per_block;
        let (words, scales) = T::PACKED.split(self.group, n_blocks);
        let out: &mut [GroupDots; R] =
            self.out[first..].first_chunk_mut().expect("an output for each row");
        for first_row in (0..GROUP_ROWS).step_by(L::N) {
            let mut acc = [lanes.splat(0.0); R];
            let words = words.chunks_exact(T::PACKED.group_word_bytes());
            let scales = scales.chunks_exact(T::PACKED.group_scale_bytes());
            for (block, (words, scales)) in words.zip(scales).enumerate() {
                let mut blocks = rows;
                for row in &mut blocks {
                    *row = &row[block * per_block..][..per_block];
                }
                let mut parts =
                    Multiplied { rows: &blocks, acc: &mut acc, weights: PhantomData::<T> };
                T::unpack(lanes, Block { words, scales, first_row }, &mut parts);
            }
            for (out, acc) in out.iter_mut().zip(acc) {
                lanes.store(&mut out[first_row..], acc);
            }
        }
        R
    }
}
