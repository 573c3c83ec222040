//! Stacks: matrices of one shape that lie in one tensor, one for each head. Each has a place of its own, so that a
//! product can take any of them.

use std::ops::Range;

use frank_gguf::TensorInfo;
use frank_gguf::quant::QuantType;
use frank_kernels::{Matrix, MatrixShape, WeightType};

use super::{
    ALIGNMENT, MATRIX_TYPE_NAMES, Slot, SlotKind, VECTOR_TYPES, WeightTable, Weights, wrong_type,
};
use crate::error::ArchError;

/// A stack of matrices in a [`WeightTable`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct StackId(usize);

/// Where the matrices of a stack lie among the rows of their tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StackRows {
    /// Matrices.
    pub(crate) n: usize,
    /// Rows from the first of a matrix to the first of the next.
    pub(crate) period: usize,
    /// Rows of a period before the matrix.
    pub(crate) first: usize,
}

impl StackRows {
    /// The first row of matrix `i`.
    pub(super) fn start(&self, i: usize) -> usize {
        i * self.period + self.first
    }
}

impl WeightTable<'_> {
    /// `n` matrices of `n_out` rows of `n_in` values, in a tensor `[n_in, n_out, n]`.
    pub(crate) fn stack(
        &mut self,
        name: &str,
        (n_in, n_out): (usize, usize),
        n: usize,
    ) -> Result<StackId, ArchError> {
        let tensor = self.find(name, &[n_in as u64, n_out as u64, n as u64])?;
        let rows = StackRows { n, period: n_out, first: 0 };
        self.place_stack(tensor, SlotKind::Stack(rows), tensor.type_id, (n_in, n_out))
    }

    /// Matrices of `n_out` rows of `n_in` values, which are `rows` of a tensor of two dimensions.
    pub(crate) fn stack_of_rows(
        &mut self,
        name: &str,
        (n_in, n_out): (usize, usize),
        rows: StackRows,
    ) -> Result<StackId, ArchError> {
        let tensor = self.find(name, &[n_in as u64, total_rows(rows)])?;
        self.place_stack(tensor, SlotKind::Stack(rows), tensor.type_id, (n_in, n_out))
    }

    /// As [`WeightTable::stack_of_rows`], with columns for rows: the tensor has `n_in` rows of `n_out` values for each
    /// matrix.
    ///
    /// Blocks of a quantized type do not survive that. Such a tensor is widened to F32, where it takes more memory than
    /// in the file and computes with its exact values.
    pub(crate) fn transposed_stack(
        &mut self,
        name: &str,
        (n_in, n_out): (usize, usize),
        rows: StackRows,
    ) -> Result<StackId, ArchError> {
        let tensor = self.find(name, &[n_out as u64, total_rows(rows)])?;
        let is_float = VECTOR_TYPES.contains(&tensor.type_id);
        let type_id = if is_float { tensor.type_id } else { frank_gguf::type_id::F32 };
        self.place_stack(tensor, SlotKind::TransposedStack(rows), type_id, (n_in, n_out))
    }

    /// Bytes of all stacks that were transposed and therefore widened to F32; saturates.
    pub(crate) fn widened_bytes(&self) -> u64 {
        let is_widened = |slot: &&Slot| {
            matches!(slot.kind, SlotKind::TransposedStack(_))
                && !VECTOR_TYPES.contains(&slot.tensor.type_id)
        };
        let widened = self.slots.iter().filter(is_widened);
        widened.map(|slot| slot.bytes() as u64).fold(0, u64::saturating_add)
    }

    fn place_stack(
        &mut self,
        tensor: &TensorInfo,
        kind: SlotKind,
        type_id: u32,
        (n_in, n_out): (usize, usize),
    ) -> Result<StackId, ArchError> {
        let (Some(_), Some(weight_type)) =
            (WeightType::of(tensor.type_id), WeightType::of(type_id))
        else {
            return Err(wrong_type(tensor, &MATRIX_TYPE_NAMES));
        };
        Ok(StackId(self.place(tensor, kind, weight_type, n_in, n_out)?))
    }
}

/// Rows of the whole tensor. A header may claim any count, so this saturates, and no tensor has so many.
fn total_rows(rows: StackRows) -> u64 {
    (rows.n as u64).saturating_mul(rows.period as u64)
}

impl Weights {
    /// Matrix `i` of a stack.
    ///
    /// # Panics
    /// When the stack has no such matrix.
    pub(crate) fn stacked(&self, id: StackId, i: usize) -> Matrix<'_> {
        let slot = &self.slots[id.0];
        let place = place_of(&slot.shape, i);
        Matrix::new(slot.shape, &self.bytes(id.0)[place])
    }
}

/// Bytes of a stack of `n` matrices, each on a cache line; saturates.
pub(super) fn stack_bytes(shape: &MatrixShape, n: usize) -> usize {
    stride(shape).saturating_mul(n)
}

fn stride(shape: &MatrixShape) -> usize {
    shape.bytes().checked_next_multiple_of(ALIGNMENT).unwrap_or(usize::MAX)
}

/// Where matrix `i` lies in the bytes of its stack.
pub(super) fn place_of(shape: &MatrixShape, i: usize) -> Range<usize> {
    let start = i * stride(shape);
    start..start + shape.bytes()
}

/// Makes the rows of `raw`, `n_values` values of the file's type each, columns of `place`, the transposed matrix of `shape`,
/// from column `first` on.
pub(super) fn transpose(
    quant: &QuantType,
    raw: &[u8],
    shape: &MatrixShape,
    first: usize,
    place: &mut [u8],
) {
    let (n_columns, n_values) = (shape.n_in(), shape.n_out());
    let value_bytes = shape.file_row_bytes() / n_columns;
    if VECTOR_TYPES.contains(&quant.id) {
        return scatter(raw, value_bytes, (first, n_columns), n_values, place);
    }
    let blocks_per_row = n_values / quant.layout.values_per_block as usize;
    let row_bytes = blocks_per_row * quant.layout.bytes_per_block as usize;
    // One row at a time: what is widened is many times as long.
    let mut widened = vec![0.0f32; n_values];
    for (column, row) in (first..).zip(raw.chunks_exact(row_bytes)) {
        (quant.dequantize)(row, &mut widened);
        let row = bytemuck::cast_slice(&widened);
        scatter(row, value_bytes, (column, n_columns), n_values, place);
    }
}

/// Makes rows of `n_values` values columns of `out`, from column `first` of its `n_columns` on.
fn scatter(
    rows: &[u8],
    value_bytes: usize,
    (first, n_columns): (usize, usize),
    n_values: usize,
    out: &mut [u8],
) {
    for (column, row) in (first..).zip(rows.chunks_exact(n_values * value_bytes)) {
        let targets = out.chunks_exact_mut(n_columns * value_bytes);
        for (value, target) in row.chunks_exact(value_bytes).zip(targets) {
            target[column * value_bytes..][..value_bytes].copy_from_slice(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use frank_gguf::quant::{QUANTS, quant_type};
    use frank_gguf::type_id;
    use frank_testkit::gguf_writer::GgufWriter;

    use super::*;
    use crate::weights::loading::SLICE_BYTES;
    use crate::weights::tests::open;

    const N: usize = 3;
    const ROWS: StackRows = StackRows { n: N, period: 40, first: 7 };

    /// A tensor of 120 rows of `n_in` values, and its values.
    fn rows_of(quant: &QuantType, n_in: usize) -> (GgufWriter, Vec<f32>) {
        let n_bytes =
            quant.layout.bytes_per_block as usize * n_in / quant.layout.values_per_block as usize;
        let n_rows = N * ROWS.period;
        // Small bytes make small scales in every type: no value is infinite.
        let bytes: Vec<u8> = (0..n_rows * n_bytes).map(|i| (i * 7 % 61) as u8).collect();
        let mut values = vec![0.0; n_rows * n_in];
        (quant.dequantize)(&bytes, &mut values);
        let dims = [n_in as u64, n_rows as u64];
        (GgufWriter::new("x").tensor("w", &dims, quant.id, bytes), values)
    }

    #[test]
    fn matrices_of_every_type_are_read_back_from_rows_between_others() {
        const N_OUT: usize = 19;
        for quant in QUANTS {
            let n_in = (quant.layout.values_per_block as usize).max(16);
            let (file, values) = rows_of(quant, n_in);
            let (file, _folder) = open(&file);
            let mut table = WeightTable::new(&file.header);
            let id = table.stack_of_rows("w", (n_in, N_OUT), ROWS).expect(quant.layout.name);
            let weights = table.load(&file, 2, None).expect(quant.layout.name);
            let mut got = vec![0.0; n_in];
            for i in 0..N {
                for row in 0..N_OUT {
                    weights.stacked(id, i).row(row, &mut got);
                    let expected = &values[(i * ROWS.period + ROWS.first + row) * n_in..][..n_in];
                    assert_eq!(got, expected, "row {row} of {i}, {}", quant.layout.name);
                }
            }
        }
    }

    #[test]
    fn transposed_matrices_of_every_type_have_the_exact_values() {
        const N_IN: usize = 32;
        for quant in QUANTS {
            let n_out = (quant.layout.values_per_block as usize).max(16);
            let (file, values) = rows_of(quant, n_out);
            let (file, _folder) = open(&file);
            let mut table = WeightTable::new(&file.header);
            let id = table.transposed_stack("w", (N_IN, n_out), ROWS).expect(quant.layout.name);
            let weights = table.load(&file, 2, None).expect(quant.layout.name);
            let mut got = vec![0.0; N_IN];
            for i in 0..N {
                for row in 0..n_out {
                    weights.stacked(id, i).row(row, &mut got);
                    let first = i * ROWS.period + ROWS.first;
                    let expected: Vec<f32> =
                        (first..first + N_IN).map(|column| values[column * n_out + row]).collect();
                    assert_eq!(got, expected, "row {row} of {i}, {}", quant.layout.name);
                }
            }
        }
    }

    #[test]
    fn a_transposed_matrix_of_several_slices_is_whole() {
        // A slice holds 32 of the 100 rows.
        let (n_in, n_out) = (100, SLICE_BYTES / 32 / 4);
        let values: Vec<f32> =
            (0u16..).map(f32::from).take(97).cycle().take(n_in * n_out).collect();
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let dims = [n_out as u64, n_in as u64];
        let (file, _folder) = open(&GgufWriter::new("x").tensor("w", &dims, type_id::F32, bytes));
        let mut table = WeightTable::new(&file.header);
        let rows = StackRows { n: 1, period: n_in, first: 0 };
        let id = table.transposed_stack("w", (n_in, n_out), rows).expect("it is placed");
        let weights = table.load(&file, 2, None).expect("it is loaded");
        let mut got = vec![0.0; n_in];
        for row in [0, 1, 777, n_out - 1] {
            weights.stacked(id, 0).row(row, &mut got);
            let expected: Vec<f32> = (0..n_in).map(|column| values[column * n_out + row]).collect();
            assert_eq!(got, expected, "row {row}");
        }
    }

    #[test]
    fn what_a_quantized_tensor_takes_transposed_is_counted() {
        let quant = quant_type(type_id::Q8_0).expect("a known type");
        let (file, _) = rows_of(quant, 32);
        let (file, _folder) = open(&file);
        let bytes = |place: &dyn Fn(&mut WeightTable<'_>)| {
            let mut table = WeightTable::new(&file.header);
            place(&mut table);
            table.bytes()
        };
        let rows = bytes(&|table| {
            table.stack_of_rows("w", (32, 33), ROWS).expect("placed");
        });
        let transposed = bytes(&|table| {
            table.transposed_stack("w", (33, 32), ROWS).expect("placed");
        });
        // Three groups of 16 rows of one block for each of three matrices.
        assert_eq!(rows, 3 * 3 * (16 * 34u64).next_multiple_of(64));
        assert_eq!(transposed, 3 * 4 * 32 * 33);
    }

    #[test]
    fn a_stack_of_other_dimensions_is_refused_by_name() {
        let (file, _) = rows_of(quant_type(type_id::F32).expect("a known type"), 16);
        let (file, _folder) = open(&file);
        let mut table = WeightTable::new(&file.header);
        let refused = |rows, n_in| {
            let mut table = WeightTable::new(&file.header);
            let error = table.stack_of_rows("w", (n_in, 4), rows).expect_err("another shape");
            error.to_string()
        };
        assert!(refused(ROWS, 32).contains("w has shape [16, 120], [32, 120] expected"));
        let many = StackRows { n: usize::MAX, ..ROWS };
        assert!(refused(many, 16).contains("[16, 18446744073709551615] expected"));
        assert!(table.stack("w", (16, 40), 3).is_err(), "a tensor of two dimensions is no stack");
    }
}
