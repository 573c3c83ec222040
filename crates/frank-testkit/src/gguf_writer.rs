//! A small GGUF writer for tests: any metadata, any tensor, versions 2 and 3. Never checks what it is told to write.

use frank_gguf::{ALIGNMENT_DEFAULT, TensorInfo, Value, encode_unpadded, type_id};

/// A GGUF file in the making.
///
/// Tensors are laid out in the order given, each on a multiple of `general.alignment`. Nothing is checked, so that
/// tests can also write what a reader must refuse.
#[derive(Debug, Clone)]
pub struct GgufWriter {
    version: u32,
    metadata: Vec<(String, Value)>,
    tensors: Vec<Tensor>,
}

#[derive(Debug, Clone)]
struct Tensor {
    name: String,
    dims: Vec<u64>,
    type_id: u32,
    bytes: Vec<u8>,
    /// Bytes in the file; those past the end of `bytes` are zeros.
    n_bytes: u64,
}

impl GgufWriter {
    /// A version 3 file with `general.architecture` and nothing else.
    pub fn new(architecture: &str) -> GgufWriter {
        GgufWriter { version: 3, metadata: Vec::new(), tensors: Vec::new() }
            .value("general.architecture", architecture)
    }

    /// A version 3 file without any key, as the later parts of a split model start out.
    pub fn without_keys() -> GgufWriter {
        GgufWriter { version: 3, metadata: Vec::new(), tensors: Vec::new() }
    }

    /// Sets the version field.
    #[must_use]
    pub fn version(mut self, version: u32) -> GgufWriter {
        self.version = version;
        self
    }

    /// Adds a key, or replaces its value.
    #[must_use]
    pub fn value(mut self, key: &str, value: impl Into<Value>) -> GgufWriter {
        let value = value.into();
        match self.metadata.iter_mut().find(|entry| entry.0 == key) {
            Some(entry) => entry.1 = value,
            None => self.metadata.push((key.to_owned(), value)),
        }
        self
    }

    /// Adds the three keys of part `no` (from 0) of `count`.
    #[must_use]
    pub fn split(self, no: u16, count: u16, tensors_count: i32) -> GgufWriter {
        self.value("split.no", no)
            .value("split.count", count)
            .value("split.tensors.count", tensors_count)
    }

    /// Removes a key.
    #[must_use]
    pub fn without(mut self, key: &str) -> GgufWriter {
        self.metadata.retain(|entry| entry.0 != key);
        self
    }

    /// Adds a tensor: dimensions in ggml order (row length first) and its bytes as they lie in the file.
    #[must_use]
    pub fn tensor(self, name: &str, dims: &[u64], type_id: u32, bytes: Vec<u8>) -> GgufWriter {
        let n_bytes = bytes.len() as u64;
        self.push(Tensor { name: name.to_owned(), dims: dims.to_vec(), type_id, bytes, n_bytes })
    }

    /// Adds a tensor of `n_bytes` zeros, which take no memory here: for headers of models larger than that, and for data
    /// that the caller writes behind [`GgufWriter::header_bytes`].
    #[must_use]
    pub fn hole(self, name: &str, dims: &[u64], type_id: u32, n_bytes: u64) -> GgufWriter {
        let bytes = Vec::new();
        self.push(Tensor { name: name.to_owned(), dims: dims.to_vec(), type_id, bytes, n_bytes })
    }

    fn push(mut self, tensor: Tensor) -> GgufWriter {
        self.tensors.push(tensor);
        self
    }

    /// Removes a tensor.
    #[must_use]
    pub fn without_tensor(mut self, name: &str) -> GgufWriter {
        self.tensors.retain(|tensor| tensor.name != name);
        self
    }

    /// Adds an F32 tensor: dimensions in ggml order and the values, rows one after the other.
    #[must_use]
    pub fn f32_tensor(self, name: &str, dims: &[u64], values: &[f32]) -> GgufWriter {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.tensor(name, dims, type_id::F32, bytes)
    }

    /// The bytes of the header: everything before the padding of the data section.
    pub fn header_bytes(&self) -> Vec<u8> {
        let mut offset: u64 = 0;
        let placed = self.tensors.iter().map(|Tensor { name, dims, type_id, n_bytes, .. }| {
            let (name, dims) = (name.clone(), dims.clone());
            let placed = TensorInfo { name, dims, type_id: *type_id, offset, part: 0 };
            offset = (offset + n_bytes).next_multiple_of(self.alignment() as u64);
            placed
        });
        let placed: Vec<TensorInfo> = placed.collect();
        let metadata = self.metadata.iter().map(|(key, value)| (key.as_str(), value));
        encode_unpadded(self.version, metadata, &placed)
    }

    /// The bytes of the whole file. Ends with the last tensor, without padding after it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = self.header_bytes();
        for tensor in &self.tensors {
            out.resize(out.len().next_multiple_of(self.alignment()), 0);
            let end = out.len() + tensor.n_bytes as usize;
            out.extend(&tensor.bytes);
            out.resize(end, 0);
        }
        out
    }

    fn alignment(&self) -> usize {
        let stated = self.metadata.iter().find(|entry| entry.0 == "general.alignment");
        match stated {
            Some((_, Value::U32(alignment))) if alignment.is_power_of_two() => *alignment as usize,
            _ => ALIGNMENT_DEFAULT as usize,
        }
    }
}
