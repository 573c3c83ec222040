//! Layouts of weight matrices in memory and the dot products that read them, in one table.
//!
//! Most quantized types are interleaved: 16 rows form a group, and each 32-bit lane of a register belongs to one row. A
//! group is the words of all its blocks, then the scales of all its blocks, padded to 64 bytes: the bytes of the file in
//! another order. Float types, and types that have no kernel of their own, stay as in the file, row after row.

pub(crate) mod decoded;
mod interleaved;
mod iq4_nl;
mod iq4_xs;
mod mxfp4;
mod packed;
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
mod rows;
mod scaling;
#[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
pub(crate) mod tiles;
mod transpose;

use frank_gguf::quant::{QuantType, quant_type};
use frank_gguf::type_id;

use crate::cpu::Isa;
use interleaved::InterleavedDots;
pub(crate) use packed::PackedType;

/// Rows of a group: one per 32-bit lane of a 512-bit register. Rows that are laid out in whole groups cost least.
pub const GROUP_ROWS: usize = 16;

/// Activation rows that meet a group together at most: as many as make the decoding of a weight row small beside them.
pub(crate) const TILE_ROWS: usize = 32;

/// Results of a group for one activation row: one value per row of the group.
pub(crate) type GroupDots = [f32; GROUP_ROWS];

/// A type with a kernel.
pub(crate) struct WeightKernel {
    type_id: u32,
    form: Form,
}

/// How the rows of a type lie in memory, and what multiplies them.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    /// Interleaved in groups of 16; multiplies rows of 8-bit activations.
    Interleaved { packed: PackedType, dots: InterleavedDots },
    /// As in the file; multiplies rows of f32, `[n_rows, n_in]`.
    Rows { dot: fn(Isa, &[u8], &[f32], usize, &mut [GroupDots]) },
    /// As in the file; decoded by the scalar reference and multiplied as f32.
    Decoded,
}

/// Every type that has a kernel of its own.
static KERNELS: &[WeightKernel] = &[
    rows::kernel::<rows::F32>(type_id::F32),
    rows::kernel::<rows::F16>(type_id::F16),
    rows::kernel::<rows::Bf16>(type_id::BF16),
    q4_0::KERNEL,
    q4_1::KERNEL,
    q5_0::KERNEL,
    q5_1::KERNEL,
    q8_0::KERNEL,
    q2_k::KERNEL,
    q3_k::KERNEL,
    q4_k::KERNEL,
    q5_k::KERNEL,
    q6_k::KERNEL,
    iq4_nl::KERNEL,
    iq4_xs::KERNEL,
    mxfp4::KERNEL,
];

/// A tensor type that can be multiplied: one of [`frank_gguf::quant::QUANTS`].
#[derive(Debug, Clone, Copy)]
pub struct WeightType {
    quant: &'static QuantType,
    form: Form,
}

impl WeightType {
    /// The type with this id in the tensor table; `None` when it cannot be loaded.
    #[must_use]
    pub fn of(type_id: u32) -> Option<Self> {
        let kernel = KERNELS.iter().find(|kernel| kernel.type_id == type_id);
        let form = kernel.map_or(Form::Decoded, |kernel| kernel.form);
        Some(Self { quant: quant_type(type_id)?, form })
    }

    /// The name in ggml, for example `Q4_K`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.quant.layout.name
    }

    /// Layout and reference routines.
    pub(crate) fn quant(&self) -> &'static QuantType {
        self.quant
    }

    pub(crate) fn form(&self) -> Form {
        self.form
    }

    /// Values of a block; 1 for the types that are not quantized.
    pub(crate) fn block_values(&self) -> usize {
        self.quant.layout.values_per_block as usize
    }

    /// Bytes of a block in the file.
    pub(crate) fn block_bytes(&self) -> usize {
        self.quant.layout.bytes_per_block as usize
    }
}

impl PartialEq for WeightType {
    fn eq(&self, other: &Self) -> bool {
        self.quant.id == other.quant.id
    }
}

impl Eq for WeightType {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn geometries_are_those_of_the_file_format() {
        for kernel in KERNELS {
            let weight_type = WeightType::of(kernel.type_id).expect("a type of the reference");
            let Form::Interleaved { packed, .. } = kernel.form else { continue };
            let file = (weight_type.block_values(), weight_type.block_bytes());
            assert_eq!((packed.values, packed.raw_block_bytes()), file, "{}", weight_type.name());
        }
    }
}
