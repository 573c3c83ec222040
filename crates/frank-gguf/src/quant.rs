//! Quant types that can be loaded: the scalar reference that every kernel is tested against. Never fast.
//!
//! One file for each type and one line in [`QUANTS`]. Rounding is ggml's, so that files made here and there are equal:
//! except for blocks below about 2^-120, where ggml casts infinities and negative exponents as the C compiler likes, and
//! these routines clamp.

mod bf16;
mod f16;
mod f32;
mod grids;
mod iq1_m;
mod iq1_s;
mod iq2_s;
mod iq2_xs;
mod iq2_xxs;
mod iq3_s;
mod iq3_xxs;
mod iq4_nl;
mod iq4_xs;
mod mxfp4;
mod nvfp4;
mod q2_k;
mod q3_k;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
mod q8_0;
mod tq1_0;
mod tq2_0;

pub use f16::f16_to_f32;

use crate::layout::TypeLayout;

/// Writes the values of whole blocks: `(blocks, values)`. Asserts that the lengths agree.
pub type Dequantize = fn(&[u8], &mut [f32]);

/// Appends the blocks of whole blocks of values: `(values, blocks)`. Asserts that the length is a multiple of the block.
pub type Quantize = fn(&[f32], &mut Vec<u8>);

/// A tensor type with its reference routines.
#[derive(Debug, Clone, Copy)]
pub struct QuantType {
    /// The type's id in the tensor table.
    pub id: u32,
    /// Its name and block size.
    pub layout: TypeLayout,
    /// From blocks to values.
    pub dequantize: Dequantize,
    /// From values to blocks; `None` where making the type needs more than the values.
    pub quantize: Option<Quantize>,
}

/// Every type that can be loaded.
pub static QUANTS: &[QuantType] = &[
    f32::QUANT,
    f16::QUANT,
    bf16::QUANT,
    q4_0::QUANT,
    q4_1::QUANT,
    q5_0::QUANT,
    q5_1::QUANT,
    q8_0::QUANT,
    q2_k::QUANT,
    q3_k::QUANT,
    q4_k::QUANT,
    q5_k::QUANT,
    q6_k::QUANT,
    iq1_s::QUANT,
    iq1_m::QUANT,
    iq2_xxs::QUANT,
    iq2_xs::QUANT,
    iq2_s::QUANT,
    iq3_xxs::QUANT,
    iq3_s::QUANT,
    iq4_nl::QUANT,
    iq4_xs::QUANT,
    tq1_0::QUANT,
    tq2_0::QUANT,
    mxfp4::QUANT,
    nvfp4::QUANT,
];

/// The entry of a type id in [`QUANTS`].
#[must_use]
pub fn quant_type(id: u32) -> Option<&'static QuantType> {
    QUANTS.iter().find(|quant| quant.id == id)
}

/// Pairs of one block's bytes and its values. Asserts that there are as many of one as of the other.
fn blocks<'a, const BYTES: usize, const VALUES: usize>(
    bytes: &'a [u8],
    values: &'a mut [f32],
) -> impl Iterator<Item = (&'a [u8; BYTES], &'a mut [f32; VALUES])> {
    let (blocks, bytes_rest) = bytes.as_chunks::<BYTES>();
    let (rows, values_rest) = values.as_chunks_mut::<VALUES>();
    assert!(
        bytes_rest.is_empty() && values_rest.is_empty(),
        "whole blocks of {BYTES} bytes and {VALUES} values"
    );
    assert_eq!(blocks.len(), rows.len(), "as many blocks as rows of {VALUES} values");
    blocks.iter().zip(rows)
}

/// The values of each block. Asserts that no value is left over.
fn rows<const VALUES: usize>(values: &[f32]) -> &[[f32; VALUES]] {
    let (rows, rest) = values.as_chunks::<VALUES>();
    assert!(rest.is_empty(), "{} values are not a multiple of {VALUES}", values.len());
    rows
}

/// The f16 in two bytes, as f32.
fn f16_at(low: u8, high: u8) -> f32 {
    f16_to_f32(u16::from_le_bytes([low, high]))
}

/// The value furthest from zero; the first of equal ones.
fn largest_with_sign(values: &[f32]) -> f32 {
    let larger = |a: f32, b: &f32| if b.abs() > a.abs() { *b } else { a };
    values.iter().fold(0.0, larger)
}

/// The f16 scale and `t + 1` of each value as a multiple of -1, 0 or 1 of the largest: TQ1_0 and TQ2_0.
fn ternary<const VALUES: usize>(values: &[f32; VALUES]) -> ([u8; 2], [u8; VALUES]) {
    let scale = largest_with_sign(values).abs();
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    let digits = values.map(|value| ((value * inverse).round() + 1.0) as u8);
    (half::f16::from_f32(scale).to_le_bytes(), digits)
}
