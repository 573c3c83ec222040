//! Dots of float weights with f32 activations. Rows stay as they are in the file.
//!
//! Lane `l` of 16 sums the products at `l, l + 16, …` by fused multiply-add in order, the last part of a row padded
//! with zeros; then the lanes are added in halves, 8, 4, 2, 1. The same for one activation row or many.

use std::marker::PhantomData;

use super::{Form, GROUP_ROWS, GroupDots, WeightKernel};
use crate::cpu::Isa;
use crate::elementwise::{LANES, sum_lanes};
use crate::lanes::{self, Kernel, Lanes};

/// A type of which each value stands alone.
pub(crate) trait FloatValue {
    /// Bytes of a value.
    const BYTES: usize;

    /// The values at byte `offset`, widened. `#[inline(always)]`.
    fn load<L: Lanes>(lanes: L, bytes: &[u8], offset: usize) -> L::Floats;
}

/// F32 as it is in the file.
pub(crate) struct F32;
/// F16, widened exactly.
pub(crate) struct F16;
/// BF16, widened exactly.
pub(crate) struct Bf16;

impl FloatValue for F32 {
    const BYTES: usize = 4;

    #[inline(always)]
    fn load<L: Lanes>(lanes: L, bytes: &[u8], offset: usize) -> L::Floats {
        lanes.f32s(bytes, offset)
    }
}

impl FloatValue for F16 {
    const BYTES: usize = 2;

    #[inline(always)]
    fn load<L: Lanes>(lanes: L, bytes: &[u8], offset: usize) -> L::Floats {
        lanes.f16s(bytes, offset)
    }
}

impl FloatValue for Bf16 {
    const BYTES: usize = 2;

    #[inline(always)]
    fn load<L: Lanes>(lanes: L, bytes: &[u8], offset: usize) -> L::Floats {
        lanes.bf16s(bytes, offset)
    }
}

/// The kernel of a type in the table.
pub(crate) const fn kernel<V: FloatValue>(type_id: u32) -> WeightKernel {
    WeightKernel { type_id, form: Form::Rows { dot: dot::<V> } }
}

/// Values of a row that a tile of several rows takes at once: so many that its activations stay in a first-level cache.
const STRETCH: usize = 512;

/// Sums of one activation row by weight row and lane.
pub(crate) type Sums = [[f32; LANES]; GROUP_ROWS];

/// Dots of up to 16 weight rows with rows of `x`, `[out.len(), n_in]`.
fn dot<V: FloatValue>(isa: Isa, weights: &[u8], x: &[f32], n_in: usize, out: &mut [GroupDots]) {
    lanes::run(isa, Dot::<V> { weights, x, n_in, out, values: PhantomData });
}

struct Dot<'a, V> {
    weights: &'a [u8],
    x: &'a [f32],
    n_in: usize,
    out: &'a mut [GroupDots],
    values: PhantomData<V>,
}

impl<V: FloatValue> Kernel for Dot<'_, V> {
    #[inline(always)]
    fn run<L: Lanes>(mut self, lanes: L) {
        let mut done = 0;
        while done < self.out.len() {
            done += match self.out.len() - done {
                8.. => self.tile::<L, 8>(lanes, done),
                4.. => self.tile::<L, 4>(lanes, done),
                2.. => self.tile::<L, 2>(lanes, done),
                _ => self.tile::<L, 1>(lanes, done),
            };
        }
    }
}

impl<V: FloatValue> Dot<'_, V> {
    #[inline(always)]
    fn tile<L: Lanes, const R: usize>(&mut self, lanes: L, done: usize) -> usize {
        let row_bytes = self.n_in * V::BYTES;
        let tile = Tile { x: &self.x[done * self.n_in..], n_in: self.n_in };
        let mut sums = [[[0.0; LANES]; GROUP_ROWS]; R];
        let stretch = if R == 1 { self.n_in } else { STRETCH };
        for first in (0..self.n_in).step_by(stretch) {
            let n = stretch.min(self.n_in - first);
            let weights = &self.weights[first * V::BYTES..];
            tile.add_stretch::<V, L, R>(lanes, weights, row_bytes, first, n, &mut sums);
        }
        for (out, sums) in self.out[done..].iter_mut().zip(&sums) {
            finish(sums, &mut out[..self.weights.len() / row_bytes]);
        }
        R
    }
}

/// Adds the lanes of each weight row.
#[inline(always)]
pub(crate) fn finish(sums: &Sums, out: &mut [f32]) {
    for (out, lanes) in out.iter_mut().zip(sums) {
        *out = sum_lanes(*lanes);
    }
}

/// The activation rows of a tile, from its first one on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tile<'a> {
    pub(crate) x: &'a [f32],
    pub(crate) n_in: usize,
}

impl Tile<'_> {
    /// Adds to `sums` the products of values `first .. first + n` of `R` rows with as many of each weight row, which
    /// start `row_bytes` apart.
    #[inline(always)]
    pub(crate) fn add_stretch<V: FloatValue, L: Lanes, const R: usize>(
        &self,
        lanes: L,
        weights: &[u8],
        row_bytes: usize,
        first: usize,
        n: usize,
        sums: &mut [Sums; R],
    ) {
        let mut x: [&[f32]; R] = [&[]; R];
        for (x, row) in x.iter_mut().zip(self.x.chunks_exact(self.n_in)) {
            *x = &row[first..first + n];
        }
        for (i, weights) in weights.chunks(row_bytes).enumerate() {
            add_dots::<V, L, R>(lanes, &weights[..n * V::BYTES], &x, i, sums);
        }
    }
}

/// Adds the products of a stretch of weight row `i` with as long ones of activations: a weight is loaded and widened
/// once for all of them.
#[inline(always)]
fn add_dots<V: FloatValue, L: Lanes, const R: usize>(
    lanes: L,
    weights: &[u8],
    x: &[&[f32]; R],
    i: usize,
    sums: &mut [Sums; R],
) {
    let n = weights.len() / V::BYTES;
    let n_whole = n / LANES;
    let mut whole: [&[[f32; LANES]]; R] = [&[]; R];
    for (whole, x) in whole.iter_mut().zip(x) {
        *whole = &x.as_chunks().0[..n_whole];
    }
    for part in (0..LANES).step_by(L::N) {
        let mut acc = [lanes.splat(0.0); R];
        for (acc, sums) in acc.iter_mut().zip(&*sums) {
            *acc = lanes.load(&sums[i][part..]);
        }
        let steps = weights.chunks_exact(LANES * V::BYTES);
        if R == 1 {
            // One row is read as fast as memory gives it: without an index to check.
            for (w, x) in steps.zip(whole[0]) {
                let w = V::load(lanes, w, part * V::BYTES);
                acc[0] = lanes.fma(w, lanes.load(&x[part..]), acc[0]);
            }
        } else {
            for (at, w) in steps.enumerate() {
                let w = V::load(lanes, w, part * V::BYTES);
                for (acc, x) in acc.iter_mut().zip(whole) {
                    *acc = lanes.fma(w, lanes.load(&x[at][part..]), *acc);
                }
            }
        }
        if n > n_whole * LANES {
            add_tail::<V, L, R>(lanes, weights, x, n_whole * LANES, part, &mut acc);
        }
        for (acc, sums) in acc.iter().zip(&mut *sums) {
            lanes.store(&mut sums[i][part..], *acc);
        }
    }
}

/// Adds lanes `part ..` of the values `first ..`, fewer than 16, padded with zeros.
#[inline(always)]
fn add_tail<V: FloatValue, L: Lanes, const R: usize>(
    lanes: L,
    weights: &[u8],
    x: &[&[f32]; R],
    first: usize,
    part: usize,
    acc: &mut [L::Floats; R],
) {
    let mut padded = [0; LANES * size_of::<f32>()];
    let tail = &weights[first * V::BYTES..];
    padded[..tail.len()].copy_from_slice(tail);
    let w = V::load(lanes, &padded, part * V::BYTES);
    for (acc, x) in acc.iter_mut().zip(x) {
        let mut padded = [0.0; LANES];
        let tail = &x[first..];
        padded[..tail.len()].copy_from_slice(tail);
        *acc = lanes.fma(w, lanes.load(&padded[part..]), *acc);
    }
}
