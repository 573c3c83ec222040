//! Tiles of quantized keys and values: 32 positions by 32 components of a head, each position with a scale of its own.
//!
//! A tile is the 32 scales in f16 by position, then 32 lines of quants. A line of keys is one component of all positions,
//! a line of values is one position: what a register holds lies together in both. A line of Q8_0 is 32 signed bytes; a
//! line of Q4_0 is 16 bytes, of which byte `i` holds quant `i` in its low bits and quant `i + 16` in its high bits, both
//! with 8 added.
//!
//! Rounding is that of the file types: Q8_0 has the scale `max |x| / 127` and quants rounded half away from zero, Q4_0 the
//! scale `x / -8` of the `x` that is largest in size, and quants `trunc(x / scale + 8.5)` of 15 at most; quants are taken
//! before the scale is rounded to f16. Source: ggml `quantize_row_q8_0_ref`, `quantize_row_q4_0_ref`. A block with a value
//! that is not finite is NaN as a whole, so that it shows.

use frank_gguf::quant::f16_to_f32;
use half::f16;

use super::{KV_BLOCK, KvType};

/// Components and positions of a tile.
pub(crate) const TILE: usize = 32;

/// Bytes of a tile's scales.
pub(crate) const SCALES: usize = TILE * size_of::<f16>();

const _: () = assert!(TILE == KV_BLOCK, "a tile has the positions of a block");

/// What a line of quants runs along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Along {
    /// Positions: keys.
    Positions,
    /// Components: values.
    Components,
}

/// A quantized form of 4 or of 8 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TileType {
    Q8_0,
    Q4_0,
}

impl TileType {
    /// The form of a type that has one.
    #[inline(always)]
    pub(crate) fn of(kv_type: KvType) -> Option<Self> {
        match kv_type {
            KvType::Q8_0 => Some(Self::Q8_0),
            KvType::Q4_0 => Some(Self::Q4_0),
            KvType::F32 | KvType::F16 => None,
        }
    }

    pub(crate) const fn line_bytes(self) -> usize {
        match self {
            Self::Q8_0 => TILE,
            Self::Q4_0 => TILE / 2,
        }
    }

    pub(crate) const fn tile_bytes(self) -> usize {
        SCALES + TILE * self.line_bytes()
    }

    /// Rounds `values`, 32 components of the position at `slot`, into their tile.
    pub(super) fn store(self, along: Along, tile: &mut [u8], slot: usize, values: &[f32; TILE]) {
        let (scale, quants) = match self {
            Self::Q8_0 => quantize_q8_0(values),
            Self::Q4_0 => quantize_q4_0(values),
        };
        let scale = if values.iter().all(|x| x.is_finite()) { scale } else { f16::NAN };
        let (scales, lines) = tile.split_at_mut(SCALES);
        scales[2 * slot..2 * slot + 2].copy_from_slice(&scale.to_le_bytes());
        for (component, quant) in quants.into_iter().enumerate() {
            let (line, lane) = match along {
                Along::Positions => (component, slot),
                Along::Components => (slot, component),
            };
            self.put(&mut lines[line * self.line_bytes()..][..self.line_bytes()], lane, quant);
        }
    }

    /// Writes one quant of a line, and leaves the others as they are.
    fn put(self, line: &mut [u8], lane: usize, quant: u8) {
        match self {
            Self::Q8_0 => line[lane] = quant,
            Self::Q4_0 => {
                let pair = &mut line[lane % (TILE / 2)];
                *pair =
                    if lane < TILE / 2 { *pair & 0xf0 | quant } else { *pair & 0x0f | quant << 4 };
            }
        }
    }

    /// The quants of a line, not yet scaled.
    #[inline(always)]
    pub(crate) fn line(self, tile: &[u8], line: usize) -> [f32; TILE] {
        let bytes = &tile[SCALES + line * self.line_bytes()..][..self.line_bytes()];
        let mut quants = [0.0; TILE];
        match self {
            Self::Q8_0 => {
                for (quant, &byte) in quants.iter_mut().zip(bytes) {
                    *quant = f32::from(byte.cast_signed());
                }
            }
            Self::Q4_0 => {
                let (low, high) = quants.split_at_mut(TILE / 2);
                for ((low, high), &byte) in low.iter_mut().zip(high).zip(bytes) {
                    *low = f32::from(byte & 0x0f) - 8.0;
                    *high = f32::from(byte >> 4) - 8.0;
                }
            }
        }
        quants
    }
}

/// The scales of a tile, by position.
#[inline(always)]
pub(crate) fn scales(tile: &[u8]) -> [f32; TILE] {
    let mut scales = [0.0; TILE];
    for (scale, bytes) in scales.iter_mut().zip(tile[..SCALES].as_chunks().0) {
        *scale = f16_to_f32(u16::from_le_bytes(*bytes));
    }
    scales
}

fn quantize_q8_0(values: &[f32; TILE]) -> (f16, [u8; TILE]) {
    let largest = values.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
    let scale = largest / 127.0;
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    (f16::from_f32(scale), values.map(|x| ((x * inverse).round() as i8).cast_unsigned()))
}

fn quantize_q4_0(values: &[f32; TILE]) -> (f16, [u8; TILE]) {
    let larger = |largest: f32, &x: &f32| if x.abs() > largest.abs() { x } else { largest };
    let scale = values.iter().fold(0.0, larger) / -8.0;
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    (f16::from_f32(scale), values.map(|x| ((x * inverse + 8.5) as u8).min(15)))
}

#[cfg(test)]
mod tests {
    use frank_gguf::quant::quant_type;
    use frank_gguf::type_id;

    use super::*;

    fn check(tile_type: TileType, type_id: u32, values: &[f32; TILE]) {
        let file_type = quant_type(type_id).expect("a known type");
        let mut bytes = Vec::new();
        (file_type.quantize.expect("it can be written"))(values, &mut bytes);
        let mut expected = [0.0; TILE];
        (file_type.dequantize)(&bytes, &mut expected);
        for slot in [0, 15, 16, 31] {
            // What the tile held before is kept, but for the position.
            let mut keys = vec![0x5a; tile_type.tile_bytes()];
            tile_type.store(Along::Positions, &mut keys, slot, values);
            let scale = scales(&keys)[slot];
            let got: Vec<f32> =
                (0..TILE).map(|line| scale * tile_type.line(&keys, line)[slot]).collect();
            assert_eq!(got, expected, "{tile_type:?} keys, {values:?}");
            let mut rest = keys.clone();
            tile_type.store(Along::Positions, &mut rest, slot, &[0.0; TILE]);
            let others = |tile: &[u8], line| {
                let mut quants = tile_type.line(tile, line);
                quants[slot] = 0.0;
                quants
            };
            assert!((0..TILE).all(|line| others(&rest, line) == others(&keys, line)));
            let mut by_row = vec![0x5a; tile_type.tile_bytes()];
            tile_type.store(Along::Components, &mut by_row, slot, values);
            let scale = scales(&by_row)[slot];
            assert_eq!(tile_type.line(&by_row, slot).map(|quant| scale * quant), expected);
        }
    }

    #[test]
    fn values_are_rounded_as_files_of_the_type_round_them() {
        let mut blocks = vec![[0.0; TILE], [1.0; TILE], [-3.5; TILE], [1e-40; TILE]];
        for seed in 0..200u32 {
            let value = |i: usize| {
                let bits = (seed * 977 + i as u32 * 7919).wrapping_mul(2_654_435_761);
                (bits >> 8) as f32 / (1 << 20) as f32 - 8.0
            };
            blocks.push(std::array::from_fn(value));
            // Halves, on which rounding shows.
            blocks.push(std::array::from_fn(|i| (2.0 * value(i)).round() / 2.0));
        }
        for block in &blocks {
            check(TileType::Q8_0, type_id::Q8_0, block);
            check(TileType::Q4_0, type_id::Q4_0, block);
        }
    }

    #[test]
    fn a_value_that_is_not_finite_makes_its_block_nan() {
        for tile_type in [TileType::Q8_0, TileType::Q4_0] {
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut values = [1.0; TILE];
                values[7] = bad;
                let mut tile = vec![0; tile_type.tile_bytes()];
                tile_type.store(Along::Components, &mut tile, 3, &values);
                assert!(scales(&tile)[3].is_nan(), "{tile_type:?} {bad}");
            }
        }
    }
}
