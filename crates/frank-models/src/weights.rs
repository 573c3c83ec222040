//! A model's dense weights: which tensors, where each lies in one block of anonymous memory, and their loading.
//!
//! Tensors are read in slices of whole rows and moved at once to their final layout, so that the peak while
//! loading is the final size plus [`STAGING_BYTES`].

mod experts;
mod loading;
mod stack;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use frank_gguf::quant::QUANTS;
use frank_gguf::{ModelHeader, TensorInfo, is_removed, type_id, type_name};
use frank_hub::ModelFile;
use frank_kernels::{Matrix, MatrixShape, WeightType};
use frank_os::{AnonBuffer, IoBackend};

use crate::error::{ArchError, LoadError};
use crate::tensor_name::layer_and_part;
use experts::LayerTensors;
pub(crate) use experts::{ExpertMatrix, Experts};
pub(crate) use loading::STAGING_BYTES;
pub(crate) use stack::{StackId, StackRows};

/// Every tensor starts on a cache line.
const ALIGNMENT: usize = 64;

/// Types that a vector may have: those without blocks, since a norm or bias may end anywhere.
const VECTOR_TYPES: [u32; 3] = [type_id::F32, type_id::F16, type_id::BF16];

/// A weight matrix in a [`WeightTable`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct MatrixId(usize);

impl MatrixId {
    /// Whether both name the same matrix.
    pub(crate) fn is(self, other: Self) -> bool {
        self.0 == other.0
    }
}

/// A vector of f32 weights in a [`WeightTable`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct VectorId(usize);

#[derive(Debug)]
struct Slot {
    tensor: TensorInfo,
    kind: SlotKind,
    /// In the final layout; of one matrix of a stack.
    shape: MatrixShape,
    offset: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotKind {
    /// Rows of the file, in the layout of the type's kernel.
    Matrix,
    /// Values of the file widened to f32: it is small, and norms and sums read it as floats.
    Vector,
    /// Several matrices of the slot's shape.
    Stack(StackRows),
    /// As `Stack`, with the columns of the file for rows.
    TransposedStack(StackRows),
}

impl Slot {
    /// Bytes in the final layout; saturates.
    fn bytes(&self) -> usize {
        match self.kind {
            SlotKind::Matrix | SlotKind::Vector => self.shape.bytes(),
            SlotKind::Stack(rows) | SlotKind::TransposedStack(rows) => {
                stack::stack_bytes(&self.shape, rows.n)
            }
        }
    }
}

/// The tensors of a model, each found, checked and given its place.
#[derive(Debug)]
pub(crate) struct WeightTable<'a> {
    header: &'a ModelHeader,
    slots: Vec<Slot>,
    bytes: usize,
    /// Not among `slots` and `bytes`.
    experts: Vec<LayerTensors>,
}

impl<'a> WeightTable<'a> {
    pub(crate) fn new(header: &'a ModelHeader) -> Self {
        Self { header, slots: Vec::new(), bytes: 0, experts: Vec::new() }
    }

    /// Whether the file has a tensor of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.header.tensor(name).is_some()
    }

    /// A matrix of `n_out` rows of `n_in` values.
    pub(crate) fn matrix(
        &mut self,
        name: &str,
        n_in: usize,
        n_out: usize,
    ) -> Result<MatrixId, ArchError> {
        let tensor = self.find(name, &[n_in as u64, n_out as u64])?;
        let Some(weight_type) = WeightType::of(tensor.type_id) else {
            return Err(wrong_type(tensor, &MATRIX_TYPE_NAMES));
        };
        Ok(MatrixId(self.place(tensor, SlotKind::Matrix, weight_type, n_in, n_out)?))
    }

    /// A vector of `n` values, widened to f32: most files store norms and biases as F32, some as F16 or BF16.
    pub(crate) fn vector(&mut self, name: &str, n: usize) -> Result<VectorId, ArchError> {
        self.vectors(name, n, 1)
    }

    /// As [`WeightTable::vector`], for `n_vectors` of them in one tensor, which are read as one vector of all.
    pub(crate) fn vectors(
        &mut self,
        name: &str,
        n: usize,
        n_vectors: usize,
    ) -> Result<VectorId, ArchError> {
        let dims = [n as u64, n_vectors as u64];
        let tensor = self.find(name, if n_vectors == 1 { &dims[..1] } else { &dims })?;
        if !VECTOR_TYPES.contains(&tensor.type_id) {
            return Err(wrong_type(tensor, &VECTOR_TYPE_NAMES));
        }
        let f32s = WeightType::of(type_id::F32).expect("the kernels multiply F32");
        Ok(VectorId(self.place(tensor, SlotKind::Vector, f32s, n, n_vectors)?))
    }

    fn find(&self, name: &str, want: &[u64]) -> Result<&'a TensorInfo, ArchError> {
        let tensor = self
            .header
            .tensor(name)
            .ok_or_else(|| ArchError::MissingTensor { name: name.to_owned() })?;
        // A converter may leave out trailing dimensions of 1 or write them.
        let significant =
            tensor.dims.len() - tensor.dims.iter().rev().take_while(|&&d| d == 1).count();
        let want_significant = want.len() - want.iter().rev().take_while(|&&d| d == 1).count();
        if tensor.dims[..significant] == want[..want_significant] {
            return Ok(tensor);
        }
        Err(ArchError::TensorShape {
            name: name.to_owned(),
            got: tensor.dims.clone(),
            want: want.to_vec(),
        })
    }

    fn place(
        &mut self,
        tensor: &TensorInfo,
        kind: SlotKind,
        weight_type: WeightType,
        n_in: usize,
        n_out: usize,
    ) -> Result<usize, ArchError> {
        let shape = MatrixShape::new(weight_type, n_in, n_out)
            .map_err(|source| ArchError::Pack { name: tensor.name.clone(), source })?;
        let slot = Slot { tensor: tensor.clone(), kind, shape, offset: self.bytes };
        // A header alone may claim more than there is to address: it is planned as too much, and never loaded.
        let bytes = slot.bytes().checked_next_multiple_of(ALIGNMENT).unwrap_or(usize::MAX);
        self.bytes = self.bytes.saturating_add(bytes);
        self.slots.push(slot);
        Ok(self.slots.len() - 1)
    }

    /// Refuses a file with tensors that nobody asked for: they belong to a variant that would compute wrongly. Those of
    /// layers from `n_layers` on, which only draft further tokens, may stay unread when there are `n_drafting` of them.
    pub(crate) fn refuse_unused(
        &self,
        arch: &'static str,
        (n_layers, n_drafting): (usize, usize),
    ) -> Result<(), ArchError> {
        let dense = self.slots.iter().map(|slot| slot.tensor.name.as_str());
        let experts = self.experts.iter().flat_map(LayerTensors::names);
        let used: BTreeSet<&str> = dense.chain(experts).collect();
        let drafting = n_layers..n_layers.saturating_add(n_drafting);
        let is_drafting = |name: &str| {
            layer_and_part(name)
                .map(|(layer, _)| layer as usize)
                .is_some_and(|layer| drafting.contains(&layer))
        };
        let mut unused =
            self.header.tensors.iter().filter(|tensor| {
                !used.contains(tensor.name.as_str()) && !is_drafting(&tensor.name)
            });
        match unused.next() {
            None => Ok(()),
            Some(tensor) => Err(ArchError::UnusedTensor {
                arch,
                name: tensor.name.clone(),
                n_more: unused.count(),
            }),
        }
    }

    /// Bytes of all weights in their final layout; saturates.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Bytes of one matrix in its final layout.
    pub(crate) fn matrix_bytes(&self, id: MatrixId) -> u64 {
        self.slots[id.0].shape.bytes() as u64
    }

    /// Reads all tensors of the table from `file`, whose header the table was made from, with `n_threads` threads or
    /// fewer, in the way `io` or whichever the system has.
    pub(crate) fn load(
        self,
        file: &ModelFile,
        n_threads: usize,
        io: Option<IoBackend>,
    ) -> Result<Weights, LoadError> {
        let mut memory = AnonBuffer::new(self.bytes())?;
        loading::load(file, &self.slots, memory.as_mut_slice(), n_threads, io)?;
        Ok(Weights { memory, slots: self.slots })
    }
}

static MATRIX_TYPE_NAMES: LazyLock<String> =
    LazyLock::new(|| QUANTS.iter().map(|quant| quant.layout.name).collect::<Vec<_>>().join(", "));

static VECTOR_TYPE_NAMES: LazyLock<String> = LazyLock::new(|| {
    VECTOR_TYPES.iter().filter_map(|&id| type_name(id)).collect::<Vec<_>>().join(", ")
});

fn wrong_type(tensor: &TensorInfo, known: &'static str) -> ArchError {
    let type_name = type_name(tensor.type_id).unwrap_or("unknown");
    let removed = if is_removed(tensor.type_id) { ", removed from the format" } else { "" };
    ArchError::TensorType {
        name: tensor.name.clone(),
        type_name: format!("{type_name}{removed}"),
        type_id: tensor.type_id,
        known,
    }
}

/// All dense weights of a loaded model.
#[derive(Debug)]
pub(crate) struct Weights {
    memory: AnonBuffer,
    slots: Vec<Slot>,
}

impl Weights {
    pub(crate) fn matrix(&self, id: MatrixId) -> Matrix<'_> {
        Matrix::new(self.slots[id.0].shape, self.bytes(id.0))
    }

    pub(crate) fn vector(&self, id: VectorId) -> &[f32] {
        bytemuck::cast_slice(self.bytes(id.0))
    }

    fn bytes(&self, slot: usize) -> &[u8] {
        let slot = &self.slots[slot];
        &self.memory.as_slice()[slot.offset..][..slot.bytes()]
    }
}

#[cfg(test)]
mod tests;
