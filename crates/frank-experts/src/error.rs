//! Why an expert store cannot be opened, or cannot give an expert. Never says what to do about it.

use frank_os::OsError;

/// A table that does not fit its files, memory that is not there, or a read that failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Layers are out of order, named twice, or past the last one.
    #[error("experts of layer {layer} are out of place among {n_layers} layers")]
    Layer {
        /// The layer.
        layer: u32,
        /// Layers of the model.
        n_layers: usize,
    },
    /// A layer of the table without experts, or whose experts have no matrix.
    #[error("layer {layer} has {n_experts} experts of {n_parts} matrices")]
    NoExperts {
        /// The layer.
        layer: u32,
        /// Its experts.
        n_experts: u32,
        /// Matrices of each.
        n_parts: usize,
    },
    /// Not one place for each expert.
    #[error("part {part} of the experts of layer {layer} has {got} places, {want} expected")]
    Places {
        /// The layer.
        layer: u32,
        /// Which of the matrices.
        part: usize,
        /// Places given.
        got: usize,
        /// Experts of the layer.
        want: u32,
    },
    /// A place in a file that is not there.
    #[error("part {part} of expert {expert} of layer {layer} lies in file {file} of {n_files}")]
    File {
        /// The layer.
        layer: u32,
        /// The expert.
        expert: u32,
        /// Which of its matrices.
        part: usize,
        /// The file.
        file: usize,
        /// Files given.
        n_files: usize,
    },
    /// Rows that lie outside of their file.
    #[error(
        "part {part} of expert {expert} of layer {layer}: {bytes} bytes at offset {offset} of a file of {file_bytes}"
    )]
    PastEnd {
        /// The layer.
        layer: u32,
        /// The expert.
        expert: u32,
        /// Which of its matrices.
        part: usize,
        /// Where its rows begin.
        offset: u64,
        /// Bytes of its rows; saturated.
        bytes: u64,
        /// Bytes of the file.
        file_bytes: u64,
    },
    /// Not one tier for each expert of each layer.
    #[error("{got} tiers of {n_layers} layers with up to {n_experts} experts")]
    Tiers {
        /// Tiers given.
        got: usize,
        /// Layers of the model.
        n_layers: usize,
        /// The largest number of experts of a layer.
        n_experts: u32,
    },
    /// Experts are to be streamed and there is no slot to read one into.
    #[error("{n_streamed} experts are streamed through no slots")]
    NoSlots {
        /// Experts that are not resident.
        n_streamed: usize,
    },
    /// The memory of the store cannot be had.
    #[error("no memory for experts")]
    Memory(#[from] OsError),
    /// An expert cannot be read.
    #[error("cannot read expert {expert} of layer {layer}")]
    Read {
        /// The layer.
        layer: u32,
        /// The expert.
        expert: u32,
        /// The file, the place and the reason.
        source: OsError,
    },
    /// A file is not the one any more that was opened.
    #[error("experts of layer {layer} cannot be read")]
    Changed {
        /// The layer.
        layer: u32,
        /// The file, and what became of it.
        source: OsError,
    },
    /// A row that the staging does not hold.
    #[error(
        "part {part} of the experts of layer {layer} has rows of {row_bytes} bytes, {staging_bytes} bytes are read at most"
    )]
    LongRow {
        /// The layer.
        layer: u32,
        /// Which of the matrices.
        part: usize,
        /// Bytes of a row.
        row_bytes: u64,
        /// Bytes of the buffer between file and memory.
        staging_bytes: u64,
    },
    /// Not one count for each expert of each layer.
    #[error("{got} counts of use for {want} experts")]
    Usage {
        /// Counts given.
        got: usize,
        /// Experts of all layers.
        want: usize,
    },
}
