//! Dots of weights that have no kernel of their own: rows stay as they are in the file, and a stretch of a row is decoded
//! to f32 by the scalar reference of its type before it meets the activations. The order of sums is that of `rows`.

use frank_gguf::quant::QuantType;

use super::rows::{F32, Sums, Tile, finish};
use super::{GROUP_ROWS, GroupDots, TILE_ROWS};
use crate::cpu::Isa;
use crate::elementwise::LANES;
use crate::lanes::{self, Kernel, Lanes};

/// Values that are decoded at once: whole blocks of every type.
const STRETCH: usize = 256;

/// Dots of up to 16 weight rows of type `quant` with rows of `x`, `[out.len(), n_in]`.
pub(crate) fn dot(
    isa: Isa,
    quant: &QuantType,
    weights: &[u8],
    x: &[f32],
    n_in: usize,
    out: &mut [GroupDots],
) {
    lanes::run(isa, Dot { quant, weights, x, n_in, out });
}

struct Dot<'a> {
    quant: &'a QuantType,
    weights: &'a [u8],
    x: &'a [f32],
    n_in: usize,
    out: &'a mut [GroupDots],
}

impl Kernel for Dot<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { quant, weights, x, n_in, out } = self;
        let bytes_of = |n_values: usize| {
            let layout = quant.layout;
            n_values / layout.values_per_block as usize * layout.bytes_per_block as usize
        };
        let n_rows = weights.len() / bytes_of(n_in);
        let mut decoded = [[0.0; STRETCH]; GROUP_ROWS];
        let mut sums: [Sums; TILE_ROWS] = [[[0.0; LANES]; GROUP_ROWS]; TILE_ROWS];
        for first in (0..n_in).step_by(STRETCH) {
            let n = STRETCH.min(n_in - first);
            let rows = weights.chunks_exact(bytes_of(n_in));
            for (row, decoded) in rows.zip(&mut decoded) {
                let blocks = &row[bytes_of(first)..][..bytes_of(n)];
                (quant.dequantize)(blocks, &mut decoded[..n]);
            }
            let decoded = decoded[..n_rows].as_flattened();
            let mut stretch = Stretch { decoded, x, n_in, first, n, sums: &mut sums };
            let mut done = 0;
            while done < out.len() {
                done += match out.len() - done {
                    8.. => stretch.add_tile::<L, 8>(lanes, done),
                    4.. => stretch.add_tile::<L, 4>(lanes, done),
                    2.. => stretch.add_tile::<L, 2>(lanes, done),
                    _ => stretch.add_tile::<L, 1>(lanes, done),
                };
            }
        }
        for (out, sums) in out.iter_mut().zip(&sums) {
            finish(sums, &mut out[..n_rows]);
        }
    }
}

/// A decoded stretch of a group that meets all activation rows.
struct Stretch<'a> {
    /// `[n_rows, STRETCH]`.
    decoded: &'a [f32],
    x: &'a [f32],
    n_in: usize,
    /// Its place in the rows.
    first: usize,
    n: usize,
    sums: &'a mut [Sums; TILE_ROWS],
}

impl Stretch<'_> {
    #[inline(always)]
    fn add_tile<L: Lanes, const R: usize>(&mut self, lanes: L, done: usize) -> usize {
        const ROW_BYTES: usize = STRETCH * size_of::<f32>();
        let tile = Tile { x: &self.x[done * self.n_in..], n_in: self.n_in };
        let sums = self.sums[done..].first_chunk_mut().expect("a sum for each row");
        let weights = bytemuck::cast_slice(self.decoded);
        tile.add_stretch::<F32, L, R>(lanes, weights, ROW_BYTES, self.first, self.n, sums);
        R
    }
}
