//! A small GGUF writer for tests: any metadata, any tensor, versions 2 and 3. Never checks what it is told to write.

use frank_gguf::{ALIGNMENT_DEFAULT, Array, Value, type_id};

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
        let mut out = Vec::new();
        out.extend(b"GGUF");
        out.extend(self.version.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.metadata.len() as u64).to_le_bytes());
        for (key, value) in &self.metadata {
            put_string(&mut out, key);
            put_value(&mut out, value);
        }
        let mut offset: u64 = 0;
        for tensor in &self.tensors {
            put_string(&mut out, &tensor.name);
            out.extend((tensor.dims.len() as u32).to_le_bytes());
            out.extend(tensor.dims.iter().flat_map(|dim| dim.to_le_bytes()));
            out.extend(tensor.type_id.to_le_bytes());
            out.extend(offset.to_le_bytes());
            offset = (offset + tensor.n_bytes).next_multiple_of(self.alignment() as u64);
        }
        out
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

fn put_string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

/// Appends the type id and the bytes of a value.
fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::U8(number) => put_typed(out, 0, &number.to_le_bytes()),
        Value::I8(number) => put_typed(out, 1, &number.to_le_bytes()),
        Value::U16(number) => put_typed(out, 2, &number.to_le_bytes()),
        Value::I16(number) => put_typed(out, 3, &number.to_le_bytes()),
        Value::U32(number) => put_typed(out, 4, &number.to_le_bytes()),
        Value::I32(number) => put_typed(out, 5, &number.to_le_bytes()),
        Value::F32(number) => put_typed(out, 6, &number.to_le_bytes()),
        Value::Bool(flag) => put_typed(out, 7, &[u8::from(*flag)]),
        Value::String(text) => {
            put_typed(out, 8, &[]);
            put_string(out, text);
        }
        Value::Array(array) => {
            put_typed(out, 9, &[]);
            put_array(out, array);
        }
        Value::U64(number) => put_typed(out, 10, &number.to_le_bytes()),
        Value::I64(number) => put_typed(out, 11, &number.to_le_bytes()),
        Value::F64(number) => put_typed(out, 12, &number.to_le_bytes()),
    }
}

fn put_typed(out: &mut Vec<u8>, type_id: u32, bytes: &[u8]) {
    out.extend(type_id.to_le_bytes());
    out.extend(bytes);
}

/// Appends the element type, the count and the elements.
fn put_array(out: &mut Vec<u8>, array: &Array) {
    fn put<T: Copy, const N: usize>(
        out: &mut Vec<u8>,
        type_id: u32,
        list: &[T],
        encode: fn(T) -> [u8; N],
    ) {
        put_typed(out, type_id, &(list.len() as u64).to_le_bytes());
        out.extend(list.iter().flat_map(|&value| encode(value)));
    }
    match array {
        Array::U8(list) => put(out, 0, list, u8::to_le_bytes),
        Array::I8(list) => put(out, 1, list, i8::to_le_bytes),
        Array::U16(list) => put(out, 2, list, u16::to_le_bytes),
        Array::I16(list) => put(out, 3, list, i16::to_le_bytes),
        Array::U32(list) => put(out, 4, list, u32::to_le_bytes),
        Array::I32(list) => put(out, 5, list, i32::to_le_bytes),
        Array::F32(list) => put(out, 6, list, f32::to_le_bytes),
        Array::Bool(list) => put(out, 7, list, |flag| [u8::from(flag)]),
        Array::String(list) => {
            put_typed(out, 8, &(list.len() as u64).to_le_bytes());
            for text in list {
                put_string(out, text);
            }
        }
        Array::U64(list) => put(out, 10, list, u64::to_le_bytes),
        Array::I64(list) => put(out, 11, list, i64::to_le_bytes),
        Array::F64(list) => put(out, 12, list, f64::to_le_bytes),
    }
}
