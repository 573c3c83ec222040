//! A model's dense weights: which tensors, where each lies in one block of anonymous memory, and their loading.
//!
//! Tensors are read in slices of whole rows and moved at once to their final layout, so that the peak while
//! loading is the final size plus one slice for each thread that loads.

use std::collections::BTreeSet;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;

use frank_gguf::quant::{QUANTS, quant_type};
use frank_gguf::{ModelHeader, TensorInfo, is_removed, type_id, type_name};
use frank_hub::ModelFile;
use frank_kernels::{Matrix, MatrixShape, WeightType};
use frank_os::AnonBuffer;

use crate::error::{ArchError, LoadError};

/// Bytes of a file that are in flight at once while loading; a single longer row takes its own length.
pub(crate) const STAGING_BYTES: usize = 4 << 20;

/// Threads that load at most. A drive is read faster with some requests in flight, and moving bytes to their places
/// takes as long as reading them; more than these wait for memory.
const LOADERS_MAX: usize = 4;

/// Bytes that one of them reads at once.
const SLICE_BYTES: usize = STAGING_BYTES / LOADERS_MAX;

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
    /// In the final layout.
    shape: MatrixShape,
    offset: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotKind {
    /// Rows of the file, in the layout of the type's kernel.
    Matrix,
    /// Values of the file widened to f32: it is small, and norms and sums read it as floats.
    Vector,
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
        let Some(weight_type) = WeightType::of(tensor.type_id) else {
            return Err(wrong_type(tensor, &MATRIX_TYPE_NAMES));
        };
        Ok(MatrixId(self.place(tensor, SlotKind::Matrix, weight_type, n_in, n_out)?))
    }

    /// A vector of `n` values, widened to f32: most files store norms and biases as F32, some as F16 or BF16.
    pub(crate) fn vector(&mut self, name: &str, n: usize) -> Result<VectorId, ArchError> {
        let tensor = self.find(name, &[n as u64])?;
        if !VECTOR_TYPES.contains(&tensor.type_id) {
            return Err(wrong_type(tensor, &VECTOR_TYPE_NAMES));
        }
        let f32s = WeightType::of(type_id::F32).expect("the kernels multiply F32");
        Ok(VectorId(self.place(tensor, SlotKind::Vector, f32s, n, 1)?))
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
        let offset = self.bytes;
        // A header alone may claim more than there is to address: it is planned as too much, and never loaded.
        let bytes = shape.bytes().checked_next_multiple_of(ALIGNMENT).unwrap_or(usize::MAX);
        self.bytes = offset.saturating_add(bytes);
        self.slots.push(Slot { tensor: tensor.clone(), kind, shape, offset });
        Ok(self.slots.len() - 1)
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

    /// Reads all tensors of the table from `file`, whose header the table was made from, with `n_threads` threads or
    /// fewer.
    pub(crate) fn load(self, file: &ModelFile, n_threads: usize) -> Result<Weights, LoadError> {
        let mut memory = AnonBuffer::new(self.bytes())?;
        memory.populate()?;
        let jobs = Jobs::new(&self.slots, memory.as_mut_slice());
        thread::scope(|scope| {
            let n_loaders = n_threads.clamp(1, LOADERS_MAX);
            let loaders: Vec<_> =
                (0..n_loaders).map(|_| scope.spawn(|| jobs.load_all(file))).collect();
            let ended =
                loaders.into_iter().map(|loader| loader.join().expect("reading is checked"));
            ended.fold(Ok(()), Result::and)
        })?;
        Ok(Weights { memory, slots: self.slots })
    }
}

/// Tensors that still have to be loaded, with their places; the largest last, since the last is taken first.
struct Jobs<'a>(Mutex<Vec<(&'a Slot, &'a mut [u8])>>);

impl<'a> Jobs<'a> {
    fn new(slots: &'a [Slot], mut memory: &'a mut [u8]) -> Self {
        let mut jobs = Vec::with_capacity(slots.len());
        let mut start = 0;
        for slot in slots {
            let (_, rest) = memory.split_at_mut(slot.offset - start);
            let (place, rest) = rest.split_at_mut(slot.shape.bytes());
            start = slot.offset + place.len();
            jobs.push((slot, place));
            memory = rest;
        }
        jobs.sort_by_key(|(_, place)| place.len());
        Self(Mutex::new(jobs))
    }

    /// Loads tensors until none is left. After an error the others stop as well.
    fn load_all(&self, file: &ModelFile) -> Result<(), LoadError> {
        let mut staging = Vec::new();
        while let Some((slot, place)) = self.next() {
            let loaded = match slot.kind {
                SlotKind::Matrix => load_matrix(file, slot, &mut staging, place),
                SlotKind::Vector => load_vector(file, &slot.tensor, &mut staging, place),
            };
            if let Err(error) = loaded {
                self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
                return Err(error);
            }
        }
        Ok(())
    }

    fn next(&self) -> Option<(&'a Slot, &'a mut [u8])> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}

fn load_matrix(
    file: &ModelFile,
    slot: &Slot,
    staging: &mut Vec<u8>,
    place: &mut [u8],
) -> Result<(), LoadError> {
    let row_bytes = slot.shape.file_row_bytes();
    let rows_at_once = (SLICE_BYTES / row_bytes).max(1);
    for first_row in (0..slot.shape.n_out()).step_by(rows_at_once) {
        let n_rows = rows_at_once.min(slot.shape.n_out() - first_row);
        staging.resize(n_rows * row_bytes, 0);
        file.read(&slot.tensor, (first_row * row_bytes) as u64, staging)?;
        slot.shape.pack(first_row, staging, place);
    }
    Ok(())
}

fn load_vector(
    file: &ModelFile,
    tensor: &TensorInfo,
    staging: &mut Vec<u8>,
    place: &mut [u8],
) -> Result<(), LoadError> {
    let quant = quant_type(tensor.type_id).expect("types of vectors can be decoded");
    let values: &mut [f32] = bytemuck::cast_slice_mut(place);
    staging.resize(values.len() * quant.layout.bytes_per_block as usize, 0);
    file.read(tensor, 0, staging)?;
    (quant.dequantize)(staging, values);
    Ok(())
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
        let Slot { shape, offset, .. } = &self.slots[slot];
        &self.memory.as_slice()[*offset..][..shape.bytes()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frank_testkit::gguf_writer::GgufWriter;

    fn open(file: &GgufWriter) -> (ModelFile, tempfile::TempDir) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("model.gguf");
        std::fs::write(&path, file.to_bytes()).expect("a new file");
        (ModelFile::open(&path).expect("the file opens"), folder)
    }

    #[test]
    fn matrices_of_every_type_are_loaded_and_read_back() {
        const N_OUT: usize = 19;
        for quant in QUANTS {
            let n_in = 2 * (quant.layout.values_per_block as usize).max(8);
            let n_bytes = quant.layout.bytes_per_block as usize * n_in
                / quant.layout.values_per_block as usize;
            // Small bytes make small scales in every type: no value is infinite.
            let bytes: Vec<u8> = (0..N_OUT * n_bytes).map(|i| (i * 7 % 61) as u8).collect();
            let dims = [n_in as u64, N_OUT as u64];
            let (file, _folder) =
                open(&GgufWriter::new("x").tensor("w", &dims, quant.id, bytes.clone()));
            let mut table = WeightTable::new(&file.header);
            let id = table.matrix("w", n_in, N_OUT).expect(quant.layout.name);
            let weights = table.load(&file, 2).expect(quant.layout.name);
            let (mut got, mut expected) = (vec![0.0; n_in], vec![0.0; n_in]);
            for (row, bytes) in bytes.chunks(n_bytes).enumerate() {
                weights.matrix(id).row(row, &mut got);
                (quant.dequantize)(bytes, &mut expected);
                assert_eq!(got, expected, "row {row} of {}", quant.layout.name);
            }
        }
    }

    #[test]
    fn a_matrix_of_several_slices_is_read_back_row_by_row() {
        // Seven rows of 147,456 bytes are in flight at once, so the last slice is a part of one.
        let (n_in, n_out, row_bytes) = (1 << 18, 17, 18 << 13);
        assert_eq!(SLICE_BYTES / row_bytes, 7);
        let bytes: Vec<u8> = (0..n_out * row_bytes).map(|i| (i * 7 % 61) as u8).collect();
        let dims = [n_in as u64, n_out as u64];
        let (file, _folder) =
            open(&GgufWriter::new("x").tensor("w", &dims, type_id::Q4_0, bytes.clone()));
        let mut table = WeightTable::new(&file.header);
        let id = table.matrix("w", n_in, n_out).expect("whole blocks");
        let weights = table.load(&file, 2).expect("it is loaded");
        let quant = quant_type(type_id::Q4_0).expect("a known type");
        let (mut got, mut expected) = (vec![0.0; n_in], vec![0.0; n_in]);
        for (row, bytes) in bytes.chunks(row_bytes).enumerate() {
            weights.matrix(id).row(row, &mut got);
            (quant.dequantize)(bytes, &mut expected);
            assert!(got == expected, "row {row}");
        }
    }

    #[test]
    fn vectors_of_every_float_type_become_f32() {
        let f16: [u8; 4] = [0x00, 0x3c, 0x00, 0xc0];
        let bf16: [u8; 4] = [0x80, 0x3f, 0x00, 0xc0];
        let f32: [u8; 8] = [0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0];
        let (file, _folder) = open(
            &GgufWriter::new("x")
                .tensor("a", &[2], type_id::F32, f32.to_vec())
                .tensor("b", &[2], type_id::F16, f16.to_vec())
                .tensor("c", &[2], type_id::BF16, bf16.to_vec()),
        );
        let mut table = WeightTable::new(&file.header);
        let ids = ["a", "b", "c"].map(|name| table.vector(name, 2).expect(name));
        let weights = table.load(&file, 2).expect("it is loaded");
        for id in ids {
            assert_eq!(weights.vector(id), [1.0, -2.0]);
        }
    }

    #[test]
    fn a_type_that_cannot_be_computed_with_is_refused_by_name() {
        let file = GgufWriter::new("x")
            .tensor("w", &[32, 2], 36, vec![0; 64])
            .tensor("v", &[32], type_id::Q8_0, vec![0; 34])
            .tensor("i", &[32], 26, vec![0; 128]);
        let (file, _folder) = open(&file);
        let mut table = WeightTable::new(&file.header);
        let removed = table.matrix("w", 32, 2).expect_err("removed").to_string();
        assert!(
            removed.starts_with(
                "tensor w has type IQ4_NL_4_4, removed from the format (id 36), one of F32, F16, "
            ),
            "{removed}"
        );
        for quant in QUANTS {
            assert!(removed.contains(quant.layout.name), "{removed}");
        }
        let quantized = table.vector("v", 32).expect_err("blocks").to_string();
        assert_eq!(quantized, "tensor v has type Q8_0 (id 8), one of F32, F16, BF16 expected");
        let integers = table.matrix("i", 32, 1).expect_err("integers").to_string();
        assert!(integers.starts_with("tensor i has type I32 (id 26), one of "), "{integers}");
    }
}
