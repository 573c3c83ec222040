//! Weight matrices in their final layout: size, filling from the file's rows, single rows, dot products.

use half::f16;
use thiserror::Error;

use crate::activations::{Activations, QUANT_BLOCK, QuantRow};
use crate::cpu::Isa;
use crate::weights::packed::PackedType;
use crate::weights::{GROUP_ROWS, Lanes, TILE_ROWS, q4_1, q8_0};
use crate::weights::{f16 as f16_rows, f32 as f32_rows};

/// Types of weights that the kernels multiply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeightType {
    /// 32-bit floats.
    F32,
    /// 16-bit floats.
    F16,
    /// 4-bit blocks of 32 with scale and minimum.
    Q4_1,
    /// 8-bit blocks of 32 with a scale.
    Q8_0,
}

impl WeightType {
    /// The interleaved geometry; `None` for types that stay as they are in the file.
    fn packed(self) -> Option<PackedType> {
        match self {
            Self::F32 | Self::F16 => None,
            Self::Q4_1 => Some(q4_1::PACKED),
            Self::Q8_0 => Some(q8_0::PACKED),
        }
    }
}

/// Why a matrix cannot be laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PackError {
    /// Rows do not consist of whole blocks.
    #[error("rows of {n_in} values are not whole blocks of {block}")]
    PartialBlock {
        /// Values of a row.
        n_in: usize,
        /// Values of a block.
        block: usize,
    },
    /// A matrix without values.
    #[error("a matrix of {n_out} rows of {n_in} values holds nothing")]
    Empty {
        /// Values of a row.
        n_in: usize,
        /// Rows.
        n_out: usize,
    },
}

/// Type and shape of a weight matrix, `[n_out, n_in]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatrixShape {
    weight_type: WeightType,
    n_in: usize,
    n_out: usize,
}

impl MatrixShape {
    /// A matrix of `n_out` rows of `n_in` values.
    ///
    /// # Errors
    /// [`PackError`] when the shape is empty or a row ends inside a block.
    pub fn new(weight_type: WeightType, n_in: usize, n_out: usize) -> Result<Self, PackError> {
        if n_in == 0 || n_out == 0 {
            return Err(PackError::Empty { n_in, n_out });
        }
        if weight_type.packed().is_some() && !n_in.is_multiple_of(QUANT_BLOCK) {
            return Err(PackError::PartialBlock { n_in, block: QUANT_BLOCK });
        }
        Ok(Self { weight_type, n_in, n_out })
    }

    /// Values of a row: the input size of the product.
    #[must_use]
    pub fn n_in(&self) -> usize {
        self.n_in
    }

    /// Rows: the output size of the product.
    #[must_use]
    pub fn n_out(&self) -> usize {
        self.n_out
    }

    /// Bytes of one row in the file.
    #[must_use]
    pub fn file_row_bytes(&self) -> usize {
        match self.weight_type {
            WeightType::F32 => self.n_in * size_of::<f32>(),
            WeightType::F16 => self.n_in * size_of::<f16>(),
            WeightType::Q4_1 | WeightType::Q8_0 => {
                self.n_blocks() * self.packed_type().raw_block_bytes
            }
        }
    }

    /// Bytes of the whole matrix in its final layout, padding included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self.weight_type.packed() {
            None => self.n_out * self.file_row_bytes(),
            Some(packed) => self.n_groups() * packed.group_bytes(self.n_blocks()),
        }
    }

    /// Moves whole rows of the file, `first_row ..`, to their final place in `bytes`, which must be zeroed before
    /// the first call.
    ///
    /// # Panics
    /// When `rows` is not whole rows of this matrix, or `bytes` is not [`MatrixShape::bytes`] long.
    pub fn pack(&self, first_row: usize, rows: &[u8], bytes: &mut [u8]) {
        assert_eq!(bytes.len(), self.bytes(), "the final layout has its own size");
        let row_bytes = self.file_row_bytes();
        let n_rows = rows.len() / row_bytes;
        assert!(
            rows.len().is_multiple_of(row_bytes) && first_row + n_rows <= self.n_out,
            "rows are whole"
        );
        let Some(packed) = self.weight_type.packed() else {
            bytes[first_row * row_bytes..][..rows.len()].copy_from_slice(rows);
            return;
        };
        let group_bytes = packed.group_bytes(self.n_blocks());
        for (row, raw) in (first_row..).zip(rows.chunks_exact(row_bytes)) {
            let group = &mut bytes[row / GROUP_ROWS * group_bytes..][..group_bytes];
            packed.pack_row(raw, row % GROUP_ROWS, group);
        }
    }

    pub(crate) fn n_groups(&self) -> usize {
        self.n_out.div_ceil(GROUP_ROWS)
    }

    fn n_blocks(&self) -> usize {
        self.n_in / QUANT_BLOCK
    }

    fn packed_type(&self) -> PackedType {
        self.weight_type.packed().expect("only interleaved types ask")
    }
}

/// A weight matrix in its final layout.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    shape: MatrixShape,
    bytes: &'a [u8],
}

impl<'a> Matrix<'a> {
    /// A view of `bytes`, filled by [`MatrixShape::pack`].
    ///
    /// # Panics
    /// When `bytes` has another size, or starts where floats of the type cannot start.
    #[must_use]
    pub fn new(shape: MatrixShape, bytes: &'a [u8]) -> Self {
        assert_eq!(bytes.len(), shape.bytes(), "the final layout has its own size");
        assert!(
            bytes.as_ptr().addr().is_multiple_of(size_of::<f32>()),
            "weights start at whole floats"
        );
        Self { shape, bytes }
    }

    /// Type and shape.
    #[must_use]
    pub fn shape(&self) -> MatrixShape {
        self.shape
    }

    /// Writes the values of one row to `out`, `[n_in]`: the lookup of an embedding.
    ///
    /// # Panics
    /// When there is no such row, or `out` has another length.
    pub fn row(&self, row: usize, out: &mut [f32]) {
        let MatrixShape { n_in, n_out, .. } = self.shape;
        assert!(
            row < n_out && out.len() == n_in,
            "row {row} of {n_out}, {} values of {n_in}",
            out.len()
        );
        let range = row * n_in..(row + 1) * n_in;
        match self.shape.weight_type {
            WeightType::F32 => out.copy_from_slice(&self.f32s()[range]),
            WeightType::F16 => {
                for (out, w) in out.iter_mut().zip(&self.f16s()[range]) {
                    *out = w.to_f32();
                }
            }
            WeightType::Q4_1 => self.packed_row(row, out, q4_1::decode_block),
            WeightType::Q8_0 => self.packed_row(row, out, q8_0::decode_block),
        }
    }

    fn packed_row(&self, row: usize, out: &mut [f32], decode_block: fn(&[u8], &mut [f32])) {
        /// As long as the largest raw block.
        const RAW_BLOCK_BYTES_MAX: usize = 34;
        let (packed, group) = (self.shape.packed_type(), self.group(row / GROUP_ROWS));
        let mut raw = [0; RAW_BLOCK_BYTES_MAX];
        let raw = &mut raw[..packed.raw_block_bytes];
        for (block, out) in out.chunks_exact_mut(QUANT_BLOCK).enumerate() {
            packed.unpack_block(group, self.shape.n_blocks(), block, row % GROUP_ROWS, raw);
            decode_block(raw, out);
        }
    }

    /// Whether a product with this matrix reads quantized activations.
    pub(crate) fn reads_quants(&self) -> bool {
        self.shape.weight_type.packed().is_some()
    }

    /// Dots of group `group` with activation rows `first_row ..`, as many as `out` has.
    pub(crate) fn dot_group(
        &self,
        isa: Isa,
        group: usize,
        input: Input<'_>,
        first_row: usize,
        out: &mut [Lanes],
    ) {
        match self.shape.weight_type {
            WeightType::F32 => {
                f32_rows::dot(
                    isa,
                    self.float_group(self.f32s(), group),
                    input.rows(first_row, out.len()),
                    input.n_in,
                    out,
                );
            }
            WeightType::F16 => {
                f16_rows::dot(
                    isa,
                    self.float_group(self.f16s(), group),
                    input.rows(first_row, out.len()),
                    input.n_in,
                    out,
                );
            }
            WeightType::Q4_1 => {
                q4_1::dot(isa, self.group(group), &input.quant_rows(first_row)[..out.len()], out)
            }
            WeightType::Q8_0 => {
                q8_0::dot(isa, self.group(group), &input.quant_rows(first_row)[..out.len()], out)
            }
        }
    }

    fn group(&self, group: usize) -> &'a [u8] {
        let group_bytes = self.shape.packed_type().group_bytes(self.shape.n_blocks());
        &self.bytes[group * group_bytes..][..group_bytes]
    }

    fn float_group<T>(&self, values: &'a [T], group: usize) -> &'a [T] {
        let MatrixShape { n_in, n_out, .. } = self.shape;
        &values[group * GROUP_ROWS * n_in..((group + 1) * GROUP_ROWS).min(n_out) * n_in]
    }

    fn f32s(&self) -> &'a [f32] {
        bytemuck::cast_slice(self.bytes)
    }

    fn f16s(&self) -> &'a [f16] {
        bytemuck::cast_slice(self.bytes)
    }
}

/// Activations of a product in both forms.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a> {
    /// `[n_rows, n_in]`.
    pub(crate) x: &'a [f32],
    pub(crate) n_in: usize,
    pub(crate) quants: &'a Activations,
}

impl<'a> Input<'a> {
    fn rows(&self, first_row: usize, n_rows: usize) -> &'a [f32] {
        &self.x[first_row * self.n_in..][..n_rows * self.n_in]
    }

    /// Rows `first_row ..`, at most as many as a tile takes; the last one repeats past the end.
    fn quant_rows(&self, first_row: usize) -> [QuantRow<'a>; TILE_ROWS] {
        let last = self.quants.n_rows() - 1;
        std::array::from_fn(|i| self.quants.row((first_row + i).min(last)))
    }
}
