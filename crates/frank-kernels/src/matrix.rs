//! Weight matrices in their final layout: size, filling from the file's rows, single rows, dot products.

use thiserror::Error;

use crate::activations::Activations;
use crate::cpu::Isa;
use crate::weights::decoded;
#[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
use crate::weights::tiles;
use crate::weights::{Form, GROUP_ROWS, GroupDots, PackedType, WeightType};

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
        let block = weight_type.block_values();
        if !n_in.is_multiple_of(block) {
            return Err(PackError::PartialBlock { n_in, block });
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

    /// Bytes of one row in the file; saturates.
    #[must_use]
    pub fn file_row_bytes(&self) -> usize {
        self.n_blocks().saturating_mul(self.weight_type.block_bytes())
    }

    /// Bytes of the whole matrix in its final layout, padding included; saturates.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self.packed() {
            None => self.n_out.saturating_mul(self.file_row_bytes()),
            Some(packed) => self.n_groups().saturating_mul(packed.group_bytes(self.n_blocks())),
        }
    }

    /// Moves whole rows of the file, `first_row ..`, to their final place in `bytes`, which may hold anything before: when
    /// all rows are there, so is the padding. Whole groups of 16 rows are much faster than single rows.
    ///
    /// # Panics
    /// When `rows` is not whole rows of this matrix, or `bytes` is not [`MatrixShape::bytes`] long.
    pub fn pack(&self, first_row: usize, rows: &[u8], bytes: &mut [u8]) {
        self.check_rows(first_row, rows, bytes);
        let start = first_row / GROUP_ROWS * self.group_bytes();
        // There is no group after the last row, and no row to pack then.
        let groups = bytes.get_mut(start..).unwrap_or_default();
        self.pack_groups(first_row, rows, groups);
    }

    /// As [`MatrixShape::pack`], where `groups` begins with the group of `first_row`.
    pub(crate) fn pack_groups(&self, first_row: usize, rows: &[u8], groups: &mut [u8]) {
        let row_bytes = self.file_row_bytes();
        let Some(packed) = self.packed() else {
            let start = first_row % GROUP_ROWS * row_bytes;
            groups[start..][..rows.len()].copy_from_slice(rows);
            return;
        };
        let (mut row, mut rows) = (first_row, rows);
        for group in groups.chunks_exact_mut(self.group_bytes()) {
            let lane = row % GROUP_ROWS;
            let n_rows = (GROUP_ROWS - lane).min(rows.len() / row_bytes);
            let (now, later) = rows.split_at(n_rows * row_bytes);
            if n_rows == GROUP_ROWS {
                packed.pack_group(now, group);
            } else {
                let raws = now.chunks_exact(row_bytes);
                (lane..).zip(raws).for_each(|(lane, raw)| packed.pack_row(raw, lane, group));
                if row + n_rows == self.n_out || lane == 0 {
                    packed.clear_lanes(self.n_blocks(), self.lanes_at(row), group);
                }
            }
            (row, rows) = (row + n_rows, later);
            if rows.is_empty() {
                return;
            }
        }
    }

    /// Rows of the group that row `row` lies in.
    fn lanes_at(&self, row: usize) -> usize {
        (self.n_out - row / GROUP_ROWS * GROUP_ROWS).min(GROUP_ROWS)
    }

    pub(crate) fn check_rows(&self, first_row: usize, rows: &[u8], bytes: &[u8]) {
        assert_eq!(bytes.len(), self.bytes(), "the final layout has its own size");
        let row_bytes = self.file_row_bytes();
        let n_rows = rows.len() / row_bytes;
        assert!(
            rows.len().is_multiple_of(row_bytes) && first_row + n_rows <= self.n_out,
            "rows are whole"
        );
    }

    /// Bytes of 16 rows in the final layout; the last group of a type that is not interleaved may have fewer.
    pub(crate) fn group_bytes(&self) -> usize {
        match self.packed() {
            Some(packed) => packed.group_bytes(self.n_blocks()),
            None => GROUP_ROWS * self.file_row_bytes(),
        }
    }

    pub(crate) fn n_groups(&self) -> usize {
        self.n_out.div_ceil(GROUP_ROWS)
    }

    fn n_blocks(&self) -> usize {
        self.n_in / self.weight_type.block_values()
    }

    /// The interleaved geometry; `None` for types that stay as they are in the file.
    fn packed(&self) -> Option<PackedType> {
        match self.weight_type.form() {
            Form::Interleaved { packed, .. } => Some(packed),
            Form::Rows { .. } | Form::Decoded => None,
        }
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
    /// When `bytes` has another size.
    #[must_use]
    pub fn new(shape: MatrixShape, bytes: &'a [u8]) -> Self {
        assert_eq!(bytes.len(), shape.bytes(), "the final layout has its own size");
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
        let dequantize = self.shape.weight_type.quant().dequantize;
        let Some(packed) = self.shape.packed() else {
            let row_bytes = self.shape.file_row_bytes();
            return dequantize(&self.bytes[row * row_bytes..][..row_bytes], out);
        };
        let mut raw = [0; RAW_BLOCK_BYTES_MAX];
        let raw = &mut raw[..packed.raw_block_bytes()];
        let group = self.group(row / GROUP_ROWS);
        for (block, out) in out.chunks_exact_mut(packed.values).enumerate() {
            packed.unpack_block(group, self.shape.n_blocks(), block, row % GROUP_ROWS, raw);
            dequantize(raw, out);
        }
    }

    /// Whether a product with this matrix reads quantized activations.
    pub(crate) fn reads_quants(&self) -> bool {
        self.shape.packed().is_some()
    }

    /// Dots of group `group` with activation rows `first_row ..`, as many as `out` has. Quantized activations are in the
    /// order of rows.
    pub(crate) fn dot_group(
        &self,
        isa: Isa,
        group: usize,
        input: Input<'_>,
        first_row: usize,
        out: &mut [GroupDots],
    ) {
        let (weights, n_in) = (self.group(group), self.shape.n_in);
        let weight_type = self.shape.weight_type;
        match weight_type.form() {
            Form::Interleaved { dots, .. } => {
                (dots.rows)(isa, weights, input.quants, first_row, out)
            }
            Form::Rows { dot } => dot(isa, weights, input.rows(first_row, out.len()), n_in, out),
            Form::Decoded => {
                let x = input.rows(first_row, out.len());
                decoded::dot(isa, weight_type.quant(), weights, x, n_in, out);
            }
        }
    }

    /// What makes dots of a group with activations in tiles; `None` for types that do not read quantized ones.
    #[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
    pub(crate) fn tile_dot(&self) -> Option<tiles::Dot> {
        match self.shape.weight_type.form() {
            Form::Interleaved { dots, .. } => Some(dots.tiles),
            Form::Rows { .. } | Form::Decoded => None,
        }
    }

    /// The bytes of a group; the last one of a type that is not interleaved may have fewer rows.
    pub(crate) fn group(&self, group: usize) -> &'a [u8] {
        let group_bytes = self.shape.group_bytes();
        let rest = &self.bytes[group * group_bytes..];
        &rest[..group_bytes.min(rest.len())]
    }
}

/// As long as the longest raw block of an interleaved type.
const RAW_BLOCK_BYTES_MAX: usize = 256;

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
}
