//! Tensor type ids and the size of their blocks. Never the values inside: those are `quant`.

/// How a tensor type is stored: blocks of `bytes_per_block` bytes that each hold `values_per_block` values of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypeLayout {
    /// The name in ggml, for example `Q4_K`.
    pub name: &'static str,
    /// Values of one block; 1 for the types that are not quantized.
    pub values_per_block: u64,
    /// Bytes of one block.
    pub bytes_per_block: u64,
}

/// Ids of the tensor types that code names. Source: `enum ggml_type`.
pub mod type_id {
    /// 32-bit float.
    pub const F32: u32 = 0;
    /// 16-bit float (IEEE half).
    pub const F16: u32 = 1;
    /// 32 values: f16 scale, f16 minimum, 4-bit values.
    pub const Q4_1: u32 = 3;
    /// 32 values: f16 scale, 8-bit values.
    pub const Q8_0: u32 = 8;
}

/// Every type that has a layout: id, name, values and bytes of a block.
///
/// Source: ggml's `type_traits`. Q8_1 has 36 bytes there (two f16), against 40 in the python package. Ids 4, 5, 31-33
/// and 36-38 were removed from the format; forks use ids from 100 up.
const LAYOUTS: &[(u32, &str, u64, u64)] = &[
    (0, "F32", 1, 4),
    (1, "F16", 1, 2),
    (2, "Q4_0", 32, 18),
    (3, "Q4_1", 32, 20),
    (6, "Q5_0", 32, 22),
    (7, "Q5_1", 32, 24),
    (8, "Q8_0", 32, 34),
    (9, "Q8_1", 32, 36),
    (10, "Q2_K", 256, 84),
    (11, "Q3_K", 256, 110),
    (12, "Q4_K", 256, 144),
    (13, "Q5_K", 256, 176),
    (14, "Q6_K", 256, 210),
    (15, "Q8_K", 256, 292),
    (16, "IQ2_XXS", 256, 66),
    (17, "IQ2_XS", 256, 74),
    (18, "IQ3_XXS", 256, 98),
    (19, "IQ1_S", 256, 50),
    (20, "IQ4_NL", 32, 18),
    (21, "IQ3_S", 256, 110),
    (22, "IQ2_S", 256, 82),
    (23, "IQ4_XS", 256, 136),
    (24, "I8", 1, 1),
    (25, "I16", 1, 2),
    (26, "I32", 1, 4),
    (27, "I64", 1, 8),
    (28, "F64", 1, 8),
    (29, "IQ1_M", 256, 56),
    (30, "BF16", 1, 2),
    (34, "TQ1_0", 256, 54),
    (35, "TQ2_0", 256, 66),
    (39, "MXFP4", 32, 17),
    (40, "NVFP4", 64, 36),
    (41, "Q1_0", 128, 18),
];

/// The layout of a tensor type; `None` for removed and unknown ids, whose tensors can be planned from their offsets but
/// not read.
#[must_use]
pub fn type_layout(id: u32) -> Option<TypeLayout> {
    let &(_, name, values_per_block, bytes_per_block) = LAYOUTS.iter().find(|row| row.0 == id)?;
    Some(TypeLayout { name, values_per_block, bytes_per_block })
}

#[cfg(test)]
mod tests {
    use super::{LAYOUTS, type_layout};

    #[test]
    fn removed_and_unknown_types_have_no_layout() {
        for id in [4, 5, 31, 32, 33, 36, 37, 38, 42, 43, 104, 250, u32::MAX] {
            assert_eq!(type_layout(id), None, "id {id}");
        }
    }

    #[test]
    fn every_layout_has_a_nonzero_block_and_its_own_id() {
        for (place, row) in LAYOUTS.iter().enumerate() {
            assert!(row.2 > 0 && row.3 > 0, "{row:?}");
            assert!(
                LAYOUTS[..place].iter().all(|other| other.0 < row.0),
                "{row:?} is out of order"
            );
        }
        assert_eq!(LAYOUTS.len(), 42 - 8, "ids 0..=41 without the eight removed ones");
    }
}
