//! The experts of a model: the shape of each of their matrices, and where its rows lie in the files. Never reads one.

use std::ops::Range;

use frank_kernels::MatrixShape;

/// Every part of an expert starts on a cache line of its slot.
const ALIGNMENT: usize = 64;

/// Every expert of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpertTable {
    /// Layers of the model, with experts or without.
    pub n_layers: usize,
    /// The layers that have experts, ascending by [`LayerExperts::layer`].
    pub layers: Vec<LayerExperts>,
}

impl ExpertTable {
    /// Bytes of the longest row that any part has in the file; 0 without experts.
    #[must_use]
    pub fn row_bytes_max(&self) -> u64 {
        let parts = self.layers.iter().flat_map(|layer| &layer.parts);
        parts.map(|part| part.shape.file_row_bytes() as u64).max().unwrap_or(0)
    }
}

/// The experts of one layer. All of them have the same parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerExperts {
    /// The layer's number in the file, `N` of `blk.N`.
    pub layer: u32,
    /// Experts of the layer.
    pub n_experts: u32,
    /// The matrices of an expert, in the order in which they lie in its slot.
    pub parts: Vec<ExpertPart>,
}

/// One matrix of each expert of a layer, the gate for example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpertPart {
    /// Type and shape of one expert's matrix.
    pub shape: MatrixShape,
    /// Where each expert's rows begin, `[n_experts]`.
    pub places: Vec<FilePlace>,
}

/// A place in one of the files of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilePlace {
    /// Which of the files that the store was opened with.
    pub file: usize,
    /// Byte in that file.
    pub offset: u64,
}

impl LayerExperts {
    /// Bytes of one expert in memory, all parts in their final layout; saturates.
    #[must_use]
    pub fn slot_bytes(&self) -> usize {
        self.parts.iter().fold(0, |bytes, part| aligned(part.end(bytes)))
    }

    /// Where part `part` lies in the bytes of an expert. It starts on a border of 64 bytes.
    ///
    /// # Panics
    /// When the layer has no such part.
    #[must_use]
    pub fn part_range(&self, part: usize) -> Range<usize> {
        let start = self.parts[..part].iter().fold(0, |bytes, part| aligned(part.end(bytes)));
        start..self.parts[part].end(start)
    }

    /// Bytes of one expert in the files; saturates.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        let parts = self.parts.iter().map(|part| part.file_bytes().unwrap_or(u64::MAX));
        parts.fold(0, u64::saturating_add)
    }
}

impl ExpertPart {
    /// Bytes of one expert's rows in the file; `None` when there is no such number.
    pub(crate) fn file_bytes(&self) -> Option<u64> {
        let n_rows = self.shape.n_out() as u64;
        n_rows.checked_mul(self.shape.file_row_bytes() as u64)
    }

    /// Where a part that begins at `start` ends; saturates.
    fn end(&self, start: usize) -> usize {
        start.saturating_add(self.shape.bytes())
    }
}

/// The next border of a cache line; saturates at the last one.
fn aligned(bytes: usize) -> usize {
    bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(usize::MAX - usize::MAX % ALIGNMENT)
}
