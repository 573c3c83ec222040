//! Dots of interleaved weights with many rows of activations, by tile registers. Bit-equal to those of vector registers.
//!
//! A stretch of a group is unpacked once to bytes and scales, and then meets all tiles of activations: 16 rows, whose
//! sums stay in registers over the stretch. A tile register makes the integer dots of a part, which are exact; the
//! float side is [`Scaling::add`], part by part in order, as for one row.

use std::marker::PhantomData;
use std::ops::Range;

use super::interleaved::{Block, Interleaved, Parts, Quants};
use super::scaling::Scaling;
use super::{GROUP_ROWS, GroupDots};
use crate::activations::{Activations, QUANT_BLOCK, QuantBlock, TILE};
use crate::columns::Columns;
use crate::lanes::amx::{TileDots, TileWeights, Tiles};
use crate::lanes::{self, BesideTiles, Lanes, TileKernel};

/// Parts of a stretch: 20 to 28 KiB unpacked, which stay in a first-level cache beside what passes through.
const STRETCH: usize = 32;

/// Registers of scales of any type.
const SCALES_MAX: usize = 6;

/// Activation rows that meet a group at once at most.
pub(crate) const ROWS_MAX: usize = 256;

/// Bytes of activations that stay in a second-level cache while groups of weights come and go.
const ACTIVATION_BYTES: usize = 1 << 20;

/// Writes the dots of a group with rows of activations, which begin with a tile, to the group's columns.
pub(crate) type Dot = fn(&[u8], &Activations, Range<usize>, &mut TileScratch, Columns<'_>);

/// Activation rows that should meet a group at once: whole tiles.
pub(crate) fn rows_at_once(n_in: usize) -> usize {
    let row_bytes = n_in.div_ceil(QUANT_BLOCK) * size_of::<QuantBlock>();
    (ACTIVATION_BYTES / row_bytes / TILE * TILE).clamp(4 * TILE, ROWS_MAX)
}

/// What a thread needs to multiply by tiles: its registers, and the place of a stretch.
pub(crate) struct TileScratch {
    multiplier: Multiplier,
    /// Of rows that meet a group at once.
    sums: [GroupDots; ROWS_MAX],
}

/// Tile registers with what they read and write.
struct Multiplier {
    tiles: Tiles,
    stretch: Stretch,
    /// The dots of two parts that follow each other.
    dots: [PartDots; 2],
}

/// Unpacked weights.
struct Stretch {
    quants: [TileWeights; STRETCH],
    /// `[part, scale, 16]`, as many scales as the type has.
    scales: [[[f32; GROUP_ROWS]; SCALES_MAX]; STRETCH],
}

/// Dots of a part: of its first half, or of all of it, and of its second half.
type PartDots = [TileDots; 2];

impl TileScratch {
    /// For activations of `n_rows` rows.
    ///
    /// # Panics
    /// When this process may not use tiles, or there are no rows.
    pub(crate) fn new(n_rows: usize) -> Self {
        let stretch = Stretch {
            quants: [TileWeights([[0; 64]; 8]); STRETCH],
            scales: [[[0.0; GROUP_ROWS]; SCALES_MAX]; STRETCH],
        };
        let dots = [[TileDots([[0; 64]; TILE]); 2]; 2];
        let multiplier = Multiplier { tiles: Tiles::configure(n_rows), stretch, dots };
        Self { multiplier, sums: [[0.0; GROUP_ROWS]; ROWS_MAX] }
    }
}

/// The dots of a type.
pub(crate) fn dot<T: Interleaved>(
    group: &[u8],
    activations: &Activations,
    rows: Range<usize>,
    scratch: &mut TileScratch,
    columns: Columns<'_>,
) {
    const { assert!(T::Scaling::N <= SCALES_MAX) };
    let weights = PhantomData::<T>;
    lanes::run_beside_tiles(TileDot { group, activations, rows, scratch, columns, weights });
}

struct TileDot<'a, T> {
    group: &'a [u8],
    activations: &'a Activations,
    rows: Range<usize>,
    scratch: &'a mut TileScratch,
    columns: Columns<'a>,
    weights: PhantomData<T>,
}

impl<T: Interleaved> TileKernel for TileDot<'_, T> {
    #[inline(always)]
    fn run(mut self, lanes: BesideTiles) {
        let per_block = T::PACKED.values / QUANT_BLOCK;
        let n_blocks = self.activations.n_blocks() / per_block;
        let (words, scales) = T::PACKED.split(self.group, n_blocks);
        // Stretches of about the same length, since a short one costs as much around it as a long one.
        let n_stretches = (n_blocks * per_block).div_ceil(STRETCH);
        let stretch_blocks = n_blocks.div_ceil(n_stretches);
        let word_bytes = stretch_blocks * T::PACKED.group_word_bytes();
        let scale_bytes = stretch_blocks * T::PACKED.group_scale_bytes();
        let stretches = words.chunks(word_bytes).zip(scales.chunks(scale_bytes));
        let mut first_part = 0;
        for (words, scales) in stretches {
            let n_parts =
                unpack_stretch::<T>(lanes, words, scales, &mut self.scratch.multiplier.stretch);
            self.add_stretch(lanes, first_part..first_part + n_parts);
            first_part += n_parts;
        }
    }
}

impl<T: Interleaved> TileDot<'_, T> {
    /// Adds the unpacked parts to the sums of all rows, and writes these after the last part.
    #[inline(always)]
    fn add_stretch(&mut self, lanes: BesideTiles, parts: Range<usize>) {
        let Self { activations, rows, scratch, columns, .. } = self;
        let is_last = parts.end == activations.n_blocks();
        let TileScratch { multiplier, sums } = &mut **scratch;
        for (first_row, sums) in rows.clone().step_by(TILE).zip(sums.chunks_mut(TILE)) {
            let n_rows = TILE.min(rows.end - first_row);
            let sums = &mut sums[..n_rows];
            if parts.start == 0 {
                sums.fill([0.0; GROUP_ROWS]);
            }
            let tile = activations.piece(first_row..first_row + n_rows);
            let blocks = &tile[parts.start * n_rows..parts.end * n_rows];
            match sums.as_mut_array() {
                Some(sums) => {
                    let written_next = is_last.then_some((&mut *columns, first_row));
                    multiplier.add_whole::<T::Scaling>(lanes, blocks, sums, written_next);
                }
                None => multiplier.add_last::<T::Scaling>(lanes, blocks, sums),
            }
            if is_last {
                (first_row..).zip(&*sums).for_each(|(row, sums)| columns.store(row, sums));
            }
        }
    }
}

/// Unpacks whole blocks of a group, and says how many parts they are.
#[inline(always)]
fn unpack_stretch<T: Interleaved>(
    lanes: BesideTiles,
    words: &[u8],
    scales: &[u8],
    stretch: &mut Stretch,
) -> usize {
    let mut parts = Unpacked {
        quants: &mut stretch.quants,
        scales: &mut stretch.scales,
        first: 0,
        less: match T::QUANTS {
            Quants::Unsigned { less, .. } => less,
            Quants::Signed => 0,
        },
    };
    let words = words.chunks_exact(T::PACKED.group_word_bytes());
    let scales = scales.chunks_exact(T::PACKED.group_scale_bytes());
    for (words, scales) in words.zip(scales) {
        T::unpack(lanes, Block { words, scales, first_row: 0 }, &mut parts);
        parts.first += T::PACKED.values / QUANT_BLOCK;
    }
    parts.first
}

/// Takes the parts of a stretch to memory.
struct Unpacked<'a> {
    quants: &'a mut [TileWeights; STRETCH],
    scales: &'a mut [[[f32; GROUP_ROWS]; SCALES_MAX]; STRETCH],
    /// The first part of the block under way.
    first: usize,
    less: u8,
}

impl<S: Scaling> Parts<BesideTiles, S> for Unpacked<'_> {
    /// Quants have 7 bits at most, so what they mean is a signed byte.
    #[inline(always)]
    fn add(
        &mut self,
        lanes: BesideTiles,
        i: usize,
        q: &[<BesideTiles as Lanes>::Words; 8],
        scales: S::Of<BesideTiles>,
    ) {
        let part = self.first + i;
        for (to, q) in self.quants[part].0.iter_mut().zip(q) {
            let q = if self.less == 0 { *q } else { lanes.less(*q, self.less) };
            lanes.store_words(to, q);
        }
        for (to, scale) in self.scales[part].iter_mut().zip(scales.as_ref()) {
            lanes.store(to, *scale);
        }
    }
}

/// Has the tile registers make the dots of part `part` with its blocks.
#[inline(always)]
fn make_dots<S: Scaling>(
    tiles: &Tiles,
    weights: &TileWeights,
    a: &[QuantBlock],
    to: &mut PartDots,
) {
    if S::HALVES {
        tiles.half_dots(a, weights, to);
    } else {
        tiles.dots(a, weights, &mut to[0]);
    }
}

/// `acc` and what part `part` adds to row `row` of a tile.
#[inline(always)]
fn add_part<S: Scaling>(
    lanes: BesideTiles,
    scales: &S::Of<BesideTiles>,
    dots: &PartDots,
    row: usize,
    a: &QuantBlock,
    acc: <BesideTiles as Lanes>::Floats,
) -> <BesideTiles as Lanes>::Floats {
    let first = lanes.words(&dots[0].0[row], 0);
    let second = if S::HALVES { lanes.words(&dots[1].0[row], 0) } else { first };
    S::add(lanes, scales, [first, second], a, acc)
}

#[inline(always)]
fn load_scales<S: Scaling>(
    lanes: BesideTiles,
    from: &[[f32; GROUP_ROWS]; SCALES_MAX],
) -> S::Of<BesideTiles> {
    let mut scales = S::zeros(lanes);
    for (scale, from) in scales.as_mut().iter_mut().zip(from) {
        *scale = lanes.load(from);
    }
    scales
}

impl Multiplier {
    /// Adds the parts of a stretch to the sums of a tile of 16 rows with `blocks`, `[n_parts, 16]`. After the last
    /// stretch the sums are written to columns from a row on: their cache lines are asked for on the way.
    #[inline(always)]
    fn add_whole<S: Scaling>(
        &mut self,
        lanes: BesideTiles,
        blocks: &[QuantBlock],
        out: &mut [GroupDots; TILE],
        mut written_next: Option<(&mut Columns<'_>, usize)>,
    ) {
        let Self { tiles, stretch, dots } = self;
        let (blocks, _) = blocks.as_chunks::<TILE>();
        let mut acc = [lanes.splat(0.0); TILE];
        for (acc, out) in acc.iter_mut().zip(&*out) {
            *acc = lanes.load(out);
        }
        // The dots of the next part are under way while those of one part are added.
        make_dots::<S>(tiles, &stretch.quants[0], &blocks[0], &mut dots[0]);
        for (part, a) in blocks.iter().enumerate() {
            if let Some(next) = blocks.get(part + 1) {
                make_dots::<S>(tiles, &stretch.quants[part + 1], next, &mut dots[(part + 1) % 2]);
            }
            // One line at a time: more at once would wait for each other.
            if let Some((columns, first_row)) = &mut written_next
                && part < TILE
            {
                columns.fetch(*first_row + part);
            }
            let scales = load_scales::<S>(lanes, &stretch.scales[part]);
            let dots = &dots[part % 2];
            for row in 0..TILE {
                acc[row] = add_part::<S>(lanes, &scales, dots, row, &a[row], acc[row]);
            }
        }
        for (acc, out) in acc.into_iter().zip(out) {
            lanes.store(out, acc);
        }
    }

    /// As [`Multiplier::add_whole`] for the fewer rows of a last tile.
    #[inline(always)]
    fn add_last<S: Scaling>(
        &mut self,
        lanes: BesideTiles,
        blocks: &[QuantBlock],
        out: &mut [GroupDots],
    ) {
        let Self { tiles, stretch, dots: [dots, _] } = self;
        for (part, a) in blocks.chunks_exact(out.len()).enumerate() {
            make_dots::<S>(tiles, &stretch.quants[part], a, dots);
            let scales = load_scales::<S>(lanes, &stretch.scales[part]);
            for (row, (out, a)) in out.iter_mut().zip(a).enumerate() {
                let acc = lanes.load(out);
                lanes.store(out, add_part::<S>(lanes, &scales, dots, row, a, acc));
            }
        }
    }
}
