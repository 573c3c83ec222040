//! Dots of interleaved weights with 8-bit activations: the loops over a group that all types share.
//!
//! An output is one chain of fused multiply-adds in block order within one lane, the same for one row or many.

use std::marker::PhantomData;

use super::packed::{PackedType, WORD};
use super::{Form, GROUP_ROWS, GroupDots, WeightKernel};
use crate::activations::{Activations, QUANT_BLOCK, QuantBlock};
use crate::cpu::Isa;
use crate::lanes::{self, Kernel, Lanes};

/// A type whose rows are interleaved.
pub(crate) trait Interleaved {
    /// Its geometry.
    const PACKED: PackedType;

    /// Adds to `acc` the dots of a block of `N` weight rows with the blocks of `R` activation rows, as many as the
    /// weights have values for. `#[inline(always)]`.
    fn add_block<L: Lanes, const R: usize>(
        lanes: L,
        weights: Block<'_>,
        rows: &[&[QuantBlock]; R],
        acc: &mut [L::Floats; R],
    );
}

/// One block of `N` rows of a group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block<'a> {
    /// `[words, 16]`.
    words: &'a [u8],
    /// `[scales, 16]`.
    scales: &'a [u8],
    /// The row in the first lane.
    first_row: usize,
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

/// `acc = fma(d * s, dot, acc)` for weights of scale `d` and activations of scale `s`.
#[inline(always)]
pub(crate) fn add_scaled<L: Lanes>(
    lanes: L,
    acc: &mut L::Floats,
    d: L::Floats,
    s: f32,
    dot: L::Words,
) {
    *acc = lanes.fma(lanes.mul(d, lanes.splat(s)), lanes.to_floats(dot), *acc);
}

/// The kernel of a type in the table.
pub(crate) const fn kernel<T: Interleaved>(type_id: u32) -> WeightKernel {
    WeightKernel { type_id, form: Form::Interleaved { packed: T::PACKED, dot: dot::<T> } }
}

/// Dots of a group's 16 rows with rows `first_row ..` of `activations`, as many as `out` has.
fn dot<T: Interleaved>(
    isa: Isa,
    group: &[u8],
    activations: &Activations,
    first_row: usize,
    out: &mut [GroupDots],
) {
    lanes::run(isa, Dot::<T> { group, activations, first_row, out, weights: PhantomData });
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
                T::add_block(lanes, Block { words, scales, first_row }, &blocks, &mut acc);
            }
            for (out, acc) in out.iter_mut().zip(acc) {
                lanes.store(&mut out[first_row..], acc);
            }
        }
        R
    }
}
