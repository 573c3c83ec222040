//! A model's dense weights: which tensors, where each lies in one block of anonymous memory, and their loading.
//!
//! Tensors are read in slices of whole rows and moved at once to their final layout, so that the peak while
//! loading is the final size plus one slice.

use std::collections::BTreeSet;

use frank_gguf::{ModelHeader, TensorInfo, type_id};
use frank_hub::ModelFile;
use frank_kernels::{Matrix, MatrixShape, WeightType};
use frank_os::AnonBuffer;

use crate::error::{ArchError, LoadError};

/// Bytes of a file that are in flight at once while loading; a single longer row takes its own length.
pub(crate) const STAGING_BYTES: usize = 4 << 20;

/// Every tensor starts on a cache line.
const ALIGNMENT: usize = 64;

const MATRIX_TYPES: &str = "F32, F16, Q4_1, Q8_0";

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
    shape: MatrixShape,
    offset: usize,
}

/// The tensors of a model, each found, checked and given its place.
#[derive(Debug)]
pub(crate) struct WeightTable<'a> {
    header: &'a ModelHeader,
    slots: Vec<Slot>,
    bytes: usize,
}

impl<'a> WeightTable<'a> {
    pub(crate) fn new(header: &'a ModelHeader) -> Self {
        Self { header, slots: Vec::new(), bytes: 0 }
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
        let Some(weight_type) = weight_type(tensor.type_id) else {
            return Err(wrong_type(tensor, MATRIX_TYPES));
        };
        let shape = MatrixShape::new(weight_type, n_in, n_out)
            .map_err(|source| ArchError::Pack { name: name.to_owned(), source })?;
        Ok(MatrixId(self.place(tensor.clone(), shape)))
    }

    /// A vector of `n` f32 values: norms and biases are stored so in every file.
    pub(crate) fn vector(&mut self, name: &str, n: usize) -> Result<VectorId, ArchError> {
        let tensor = self.find(name, &[n as u64])?;
        if tensor.type_id != type_id::F32 {
            return Err(wrong_type(tensor, "F32"));
        }
        let shape = MatrixShape::new(WeightType::F32, n, 1)
            .map_err(|source| ArchError::Pack { name: name.to_owned(), source })?;
        Ok(VectorId(self.place(tensor.clone(), shape)))
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

    fn place(&mut self, tensor: TensorInfo, shape: MatrixShape) -> usize {
        let offset = self.bytes;
        // A header alone may claim more than there is to address: it is planned as too much, and never loaded.
        self.bytes = offset.saturating_add(shape.bytes().next_multiple_of(ALIGNMENT));
        self.slots.push(Slot { tensor, shape, offset });
        self.slots.len() - 1
    }

    /// Refuses a file with tensors that nobody asked for: they belong to a variant that would compute wrongly.
    pub(crate) fn refuse_unused(&self, arch: &'static str) -> Result<(), ArchError> {
        let used: BTreeSet<&str> =
            self.slots.iter().map(|slot| slot.tensor.name.as_str()).collect();
        let mut unused =
            self.header.tensors.iter().filter(|tensor| !used.contains(tensor.name.as_str()));
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

    /// Reads all tensors of the table from `file`, whose header the table was made from.
    pub(crate) fn load(self, file: &ModelFile) -> Result<Weights, LoadError> {
        let mut memory = AnonBuffer::new(self.bytes())?;
        memory.populate()?;
        let mut staging = Vec::new();
        for slot in &self.slots {
            let place = &mut memory.as_mut_slice()[slot.offset..][..slot.shape.bytes()];
            load_tensor(file, slot, &mut staging, place)?;
        }
        Ok(Weights { memory, slots: self.slots })
    }
}

fn load_tensor(
    file: &ModelFile,
    slot: &Slot,
    staging: &mut Vec<u8>,
    place: &mut [u8],
) -> Result<(), LoadError> {
    let row_bytes = slot.shape.file_row_bytes();
    let rows_at_once = (STAGING_BYTES / row_bytes).max(1);
    for first_row in (0..slot.shape.n_out()).step_by(rows_at_once) {
        let n_rows = rows_at_once.min(slot.shape.n_out() - first_row);
        staging.resize(n_rows * row_bytes, 0);
        file.read(&slot.tensor, (first_row * row_bytes) as u64, staging)?;
        slot.shape.pack(first_row, staging, place);
    }
    Ok(())
}

fn weight_type(id: u32) -> Option<WeightType> {
    match id {
        type_id::F32 => Some(WeightType::F32),
        type_id::F16 => Some(WeightType::F16),
        type_id::Q4_1 => Some(WeightType::Q4_1),
        type_id::Q8_0 => Some(WeightType::Q8_0),
        _ => None,
    }
}

fn wrong_type(tensor: &TensorInfo, known: &'static str) -> ArchError {
    let type_name = tensor.layout().map_or("unknown", |layout| layout.name);
    ArchError::TensorType { name: tensor.name.clone(), type_name, type_id: tensor.type_id, known }
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
        let Slot { shape, offset, .. } = &self.slots[slot];
        &self.memory.as_slice()[*offset..][..shape.bytes()]
    }
}
