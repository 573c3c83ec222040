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

/// Ids of the tensor types that can be loaded. Source: `enum ggml_type`.
pub mod type_id {
    /// 32-bit float.
    pub const F32: u32 = 0;
    /// 16-bit float (IEEE half).
    pub const F16: u32 = 1;
    /// 32 values: f16 scale, 4-bit values around 8.
    pub const Q4_0: u32 = 2;
    /// 32 values: f16 scale, f16 minimum, 4-bit values.
    pub const Q4_1: u32 = 3;
    /// 32 values: f16 scale, 5-bit values around 16.
    pub const Q5_0: u32 = 6;
    /// 32 values: f16 scale, f16 minimum, 5-bit values.
    pub const Q5_1: u32 = 7;
    /// 32 values: f16 scale, 8-bit values.
    pub const Q8_0: u32 = 8;
    /// 256 values: 16 groups with 4-bit scale and minimum, 2-bit values.
    pub const Q2_K: u32 = 10;
    /// 256 values: 16 groups with 6-bit scale, 3-bit values.
    pub const Q3_K: u32 = 11;
    /// 256 values: 8 groups with 6-bit scale and minimum, 4-bit values.
    pub const Q4_K: u32 = 12;
    /// 256 values: 8 groups with 6-bit scale and minimum, 5-bit values.
    pub const Q5_K: u32 = 13;
    /// 256 values: 16 groups with 8-bit scale, 6-bit values.
    pub const Q6_K: u32 = 14;
    /// 256 values: points of a grid in eight dimensions, 2.06 bits per value.
    pub const IQ2_XXS: u32 = 16;
    /// 256 values: points of a grid in eight dimensions, 2.31 bits per value.
    pub const IQ2_XS: u32 = 17;
    /// 256 values: points of a grid in four dimensions, 3.06 bits per value.
    pub const IQ3_XXS: u32 = 18;
    /// 256 values: points of a ternary grid in eight dimensions, 1.56 bits per value.
    pub const IQ1_S: u32 = 19;
    /// 32 values: f16 scale, 4-bit indices of 16 uneven steps.
    pub const IQ4_NL: u32 = 20;
    /// 256 values: points of a grid in four dimensions, 3.44 bits per value.
    pub const IQ3_S: u32 = 21;
    /// 256 values: points of a grid in eight dimensions, 2.56 bits per value.
    pub const IQ2_S: u32 = 22;
    /// 256 values: 8 groups with 6-bit scale, 4-bit indices of 16 uneven steps.
    pub const IQ4_XS: u32 = 23;
    /// 256 values: points of a ternary grid in eight dimensions, 1.75 bits per value.
    pub const IQ1_M: u32 = 29;
    /// 16-bit float with the exponent of a 32-bit one (bfloat16).
    pub const BF16: u32 = 30;
    /// 256 values: f16 scale, ternary values, five in a byte.
    pub const TQ1_0: u32 = 34;
    /// 256 values: f16 scale, ternary values, four in a byte.
    pub const TQ2_0: u32 = 35;
    /// 32 values: a power of two as scale (E8M0), 4-bit floats (E2M1).
    pub const MXFP4: u32 = 39;
    /// 64 values: 4 groups with 8-bit float scale (UE4M3), 4-bit floats (E2M1).
    pub const NVFP4: u32 = 40;
}

/// Every type that has a layout: id, name, values and bytes of a block.
///
/// Source: ggml's `type_traits`. Q8_1 has 36 bytes there (two f16), against 40 in the python package. Forks use ids
/// from 100 up.
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

/// Types that were removed from the format: id, name. Old files may hold them, and no reader of today decodes them.
///
/// Source: the gaps of `enum ggml_type`. The last six are repacked forms of Q4_0 and IQ4_NL, which ggml now makes while
/// it loads.
const REMOVED: &[(u32, &str)] = &[
    (4, "Q4_2"),
    (5, "Q4_3"),
    (31, "Q4_0_4_4"),
    (32, "Q4_0_4_8"),
    (33, "Q4_0_8_8"),
    (36, "IQ4_NL_4_4"),
    (37, "IQ4_NL_4_8"),
    (38, "IQ4_NL_8_8"),
];

/// The layout of a tensor type; `None` for removed and unknown ids, whose tensors can be planned from their offsets but
/// not read.
#[must_use]
pub fn type_layout(id: u32) -> Option<TypeLayout> {
    let &(_, name, values_per_block, bytes_per_block) = LAYOUTS.iter().find(|row| row.0 == id)?;
    Some(TypeLayout { name, values_per_block, bytes_per_block })
}

/// The name of a tensor type, also of a removed one and of one that can be planned but not loaded; `None` when the id
/// is unknown.
#[must_use]
pub fn type_name(id: u32) -> Option<&'static str> {
    let removed = || REMOVED.iter().find(|row| row.0 == id).map(|row| row.1);
    type_layout(id).map(|layout| layout.name).or_else(removed)
}

/// Whether a type was removed from the format: [`type_name`] names it, and nothing decodes it.
#[must_use]
pub fn is_removed(id: u32) -> bool {
    REMOVED.iter().any(|row| row.0 == id)
}

#[cfg(test)]
mod tests {
    use super::{LAYOUTS, REMOVED, is_removed, type_layout, type_name};

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
        assert_eq!(LAYOUTS.len() + REMOVED.len(), 42, "ids 0..=41 have a layout or were removed");
    }

    #[test]
    fn every_id_of_the_format_has_a_name_and_no_other_has() {
        assert!((0..=41).all(|id| type_name(id).is_some()));
        assert!([42, 104, 250, u32::MAX].iter().all(|&id| type_name(id).is_none()));
        assert_eq!(type_name(15), Some("Q8_K"));
        assert_eq!(type_name(31), Some("Q4_0_4_4"));
    }

    #[test]
    fn removed_types_are_told_from_unknown_ones() {
        assert!([4, 5, 31, 32, 33, 36, 37, 38].iter().all(|&id| is_removed(id)));
        assert!([0, 2, 30, 34, 39, 42, 250].iter().all(|&id| !is_removed(id)));
    }
}
