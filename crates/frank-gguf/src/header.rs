//! The header of one GGUF file: version, metadata and tensor table. Never the tensor data, never other parts.
//!
//! Layout (little-endian): magic `GGUF`, u32 version, u64 tensor count, u64 metadata count, the metadata, the tensor
//! table, then the data section at the next multiple of `general.alignment`. Source: ggml's `docs/gguf.md`.

use std::io::Read;

use crate::error::{GgufError, label};
use crate::metadata::{Array, Metadata, Value};
use crate::source::{Place, Source};
use crate::split::SplitInfo;
use crate::tensor::TensorInfo;

/// Alignment of the data section and of each tensor where `general.alignment` is absent.
pub const ALIGNMENT_DEFAULT: u64 = 32;

/// Longest metadata key, from the format's specification.
const KEY_BYTES_MAX: u64 = 65_535;
/// Longest tensor name. ggml itself stores 63 bytes; forks raise that.
const TENSOR_NAME_BYTES_MAX: u64 = 255;
/// Longest string value. The longest known are chat templates, under a mebibyte.
const STRING_BYTES_MAX: u64 = 1 << 28;
/// Most dimensions of a tensor, ggml's `GGML_MAX_DIMS`.
const DIMS_MAX: u32 = 4;
/// A key of one byte, its type and a value of one byte: u64 length, byte, u32 type, byte.
const METADATA_BYTES_MIN: u64 = 8 + 1 + 4 + 1;
/// A tensor of a one-byte name and no dimension: u64 length, byte, u32 count, u32 type, u64 offset.
const TENSOR_BYTES_MIN: u64 = 8 + 1 + 4 + 4 + 8;

/// The header of one file.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// Format version, 2 or 3.
    pub version: u32,
    /// Keys and values in file order.
    pub metadata: Metadata,
    /// The tensor table in file order.
    pub tensors: Vec<TensorInfo>,
    /// Alignment of the data section and of each tensor in bytes; a power of two.
    pub alignment: u64,
    /// Bytes from the start of the file to the data section.
    pub data_start: u64,
}

/// Bytes of a header at most. The largest vocabularies take some 20 MB; a sparse file may claim a header of any size,
/// and all of it would be read into memory.
const HEADER_BYTES_MAX: u64 = 128 << 20;

impl Header {
    /// Reads a header from the start of a file of `file_bytes` bytes. The reader may be read past the header's end.
    ///
    /// Memory stays within a small multiple of the bytes that were really read, whatever the counts in them say, and a
    /// header of more than 128 MiB is refused.
    ///
    /// # Errors
    /// [`GgufError`] with the name of the key or tensor at fault.
    pub fn read(reader: &mut impl Read, file_bytes: u64) -> Result<Header, GgufError> {
        let mut source = Source::new(reader, file_bytes.min(HEADER_BYTES_MAX));
        let version = read_version(&mut source)?;
        let n_tensors = source.u64(Place::FileHeader)?;
        let n_keys = source.u64(Place::FileHeader)?;
        source.check_count(Place::FileHeader, n_tensors, TENSOR_BYTES_MIN)?;
        source.check_count(Place::FileHeader, n_keys, METADATA_BYTES_MIN)?;

        let metadata = read_metadata(&mut source, n_keys)?;
        let alignment = read_alignment(&metadata)?;
        let mut tensors = Vec::new();
        for index in 0..n_tensors {
            tensors.push(read_tensor(&mut source, index, alignment)?);
        }
        check_table(&tensors)?;
        let header_end = source.position();
        let data_start =
            header_end.checked_next_multiple_of(alignment).ok_or(GgufError::Truncated {
                place: "the data section".to_owned(),
                offset: header_end,
                want: alignment,
                left: 0,
            })?;
        Ok(Header { version, metadata, tensors, alignment, data_start })
    }

    /// Checks that every tensor lies inside a file of `file_bytes` bytes; a truncated download fails here.
    ///
    /// Of a tensor of unknown type only the first byte can be checked.
    ///
    /// # Errors
    /// [`GgufError::OutsideFile`] names the first tensor that does not.
    pub fn check_data(&self, file_bytes: u64) -> Result<(), GgufError> {
        for tensor in &self.tensors {
            let want = tensor.bytes().unwrap_or(1);
            let start = self.data_start.checked_add(tensor.offset);
            let end = start.and_then(|start| start.checked_add(want));
            if end.is_none_or(|end| end > file_bytes) {
                let offset = start.unwrap_or(u64::MAX);
                return Err(GgufError::OutsideFile {
                    tensor: label(&tensor.name),
                    offset,
                    want,
                    file_bytes,
                });
            }
        }
        Ok(())
    }

    /// Which part of how many this file is; one of one where the `split.*` keys are absent.
    ///
    /// # Errors
    /// [`GgufError::SplitNumber`], [`GgufError::MissingKey`], or a wrong type.
    pub fn split(&self) -> Result<SplitInfo, GgufError> {
        SplitInfo::read(&self.metadata, self.tensors.len() as u64)
    }

    /// Bytes that the file needs to hold every tensor; `None` when one is of an unknown type.
    #[must_use]
    pub fn end_of_data(&self) -> Option<u64> {
        self.tensors.iter().try_fold(self.data_start, |end, tensor| {
            let tensor_end =
                self.data_start.saturating_add(tensor.offset).saturating_add(tensor.bytes()?);
            Some(end.max(tensor_end))
        })
    }
}

fn read_version<R: Read>(source: &mut Source<R>) -> Result<u32, GgufError> {
    let mut magic = [0; 4];
    let n = source.left().min(4) as usize;
    for byte in &mut magic[..n] {
        [*byte] = source.array(Place::FileHeader)?;
    }
    if &magic != b"GGUF" {
        return Err(GgufError::NotGguf { start: magic[..n].escape_ascii().to_string() });
    }
    match source.u32(Place::FileHeader)? {
        version @ (2 | 3) => Ok(version),
        // A version lies in the low half of the number; in a file of the other byte order it lies in the high half.
        version if version & 0xffff == 0 && version != 0 => Err(GgufError::BigEndian),
        version => Err(GgufError::Version { version }),
    }
}

fn read_metadata<R: Read>(source: &mut Source<R>, n_keys: u64) -> Result<Metadata, GgufError> {
    let mut entries = Vec::new();
    for index in 0..n_keys {
        let key = source.string(Place::Key(index), KEY_BYTES_MAX)?;
        if key.is_empty() {
            return Err(GgufError::EmptyKey { index });
        }
        let value = read_value(source, &key)?;
        entries.push((key, value));
    }
    Metadata::new(entries)
}

/// Value types. Source: `enum gguf_type`.
pub(crate) mod value_type {
    pub(crate) const U8: u32 = 0;
    pub(crate) const I8: u32 = 1;
    pub(crate) const U16: u32 = 2;
    pub(crate) const I16: u32 = 3;
    pub(crate) const U32: u32 = 4;
    pub(crate) const I32: u32 = 5;
    pub(crate) const F32: u32 = 6;
    pub(crate) const BOOL: u32 = 7;
    pub(crate) const STRING: u32 = 8;
    pub(crate) const ARRAY: u32 = 9;
    pub(crate) const U64: u32 = 10;
    pub(crate) const I64: u32 = 11;
    pub(crate) const F64: u32 = 12;
}

fn read_value<R: Read>(source: &mut Source<R>, key: &str) -> Result<Value, GgufError> {
    let place = Place::Value(key);
    let type_id = source.u32(place)?;
    Ok(match type_id {
        value_type::U8 => Value::U8(u8::from_le_bytes(source.array(place)?)),
        value_type::I8 => Value::I8(i8::from_le_bytes(source.array(place)?)),
        value_type::U16 => Value::U16(u16::from_le_bytes(source.array(place)?)),
        value_type::I16 => Value::I16(i16::from_le_bytes(source.array(place)?)),
        value_type::U32 => Value::U32(u32::from_le_bytes(source.array(place)?)),
        value_type::I32 => Value::I32(i32::from_le_bytes(source.array(place)?)),
        value_type::U64 => Value::U64(u64::from_le_bytes(source.array(place)?)),
        value_type::I64 => Value::I64(i64::from_le_bytes(source.array(place)?)),
        value_type::F32 => Value::F32(f32::from_le_bytes(source.array(place)?)),
        value_type::F64 => Value::F64(f64::from_le_bytes(source.array(place)?)),
        value_type::BOOL => Value::Bool(read_bool(source, key)?),
        value_type::STRING => Value::String(source.string(place, STRING_BYTES_MAX)?),
        value_type::ARRAY => Value::Array(read_array(source, key)?),
        _ => return Err(GgufError::ValueType { key: label(key), type_id }),
    })
}

fn read_array<R: Read>(source: &mut Source<R>, key: &str) -> Result<Array, GgufError> {
    let place = Place::Value(key);
    let type_id = source.u32(place)?;
    let count = source.u64(place)?;
    Ok(match type_id {
        value_type::U8 => Array::U8(source.values(place, count, u8::from_le_bytes)?),
        value_type::I8 => Array::I8(source.values(place, count, i8::from_le_bytes)?),
        value_type::U16 => Array::U16(source.values(place, count, u16::from_le_bytes)?),
        value_type::I16 => Array::I16(source.values(place, count, i16::from_le_bytes)?),
        value_type::U32 => Array::U32(source.values(place, count, u32::from_le_bytes)?),
        value_type::I32 => Array::I32(source.values(place, count, i32::from_le_bytes)?),
        value_type::U64 => Array::U64(source.values(place, count, u64::from_le_bytes)?),
        value_type::I64 => Array::I64(source.values(place, count, i64::from_le_bytes)?),
        value_type::F32 => Array::F32(source.values(place, count, f32::from_le_bytes)?),
        value_type::F64 => Array::F64(source.values(place, count, f64::from_le_bytes)?),
        value_type::BOOL => {
            source.check_count(place, count, 1)?;
            Array::Bool((0..count).map(|_| read_bool(source, key)).collect::<Result<_, _>>()?)
        }
        value_type::STRING => {
            source.check_count(place, count, size_of::<u64>() as u64)?;
            let strings = (0..count).map(|_| source.string(place, STRING_BYTES_MAX));
            Array::String(strings.collect::<Result<_, _>>()?)
        }
        value_type::ARRAY => return Err(GgufError::NestedArray { key: label(key) }),
        _ => return Err(GgufError::ValueType { key: label(key), type_id }),
    })
}

fn read_bool<R: Read>(source: &mut Source<R>, key: &str) -> Result<bool, GgufError> {
    match source.array(Place::Value(key))? {
        [0] => Ok(false),
        [1] => Ok(true),
        [byte] => Err(GgufError::Bool { key: label(key), byte }),
    }
}

fn read_alignment(metadata: &Metadata) -> Result<u64, GgufError> {
    match metadata.get("general.alignment") {
        None => Ok(ALIGNMENT_DEFAULT),
        Some(&Value::U32(alignment)) if alignment.is_power_of_two() => Ok(alignment.into()),
        Some(Value::U32(alignment)) => Err(GgufError::Alignment { got: alignment.to_string() }),
        Some(other) => Err(GgufError::Alignment { got: other.type_name().to_owned() }),
    }
}

fn read_tensor<R: Read>(
    source: &mut Source<R>,
    index: u64,
    alignment: u64,
) -> Result<TensorInfo, GgufError> {
    let name = source.string(Place::TensorName(index), TENSOR_NAME_BYTES_MAX)?;
    if name.is_empty() {
        return Err(GgufError::EmptyTensorName { index });
    }
    let place = Place::Tensor(&name);
    let n_dims = source.u32(place)?;
    if n_dims > DIMS_MAX {
        return Err(GgufError::Dimensions { tensor: label(&name), n_dims });
    }
    let dims = source.values(place, n_dims.into(), u64::from_le_bytes)?;
    let type_id = source.u32(place)?;
    let offset = source.u64(place)?;
    let tensor = TensorInfo { name, dims, type_id, offset, part: 0 };
    check_shape(&tensor)?;
    if !offset.is_multiple_of(alignment) {
        return Err(GgufError::Misaligned { tensor: label(&tensor.name), offset, alignment });
    }
    Ok(tensor)
}

fn check_shape(tensor: &TensorInfo) -> Result<(), GgufError> {
    if let Some(dim) = tensor.dims.iter().position(|&dim| dim == 0) {
        return Err(GgufError::ZeroDimension { tensor: label(&tensor.name), dim });
    }
    let overflow =
        || GgufError::SizeOverflow { tensor: label(&tensor.name), dims: tensor.dims.clone() };
    let n_values = tensor
        .dims
        .iter()
        .try_fold(1u64, |product, &dim| product.checked_mul(dim))
        .ok_or_else(overflow)?;
    let Some(layout) = tensor.layout() else {
        return if i64::try_from(n_values).is_ok() { Ok(()) } else { Err(overflow()) };
    };
    let row = tensor.dims.first().copied().unwrap_or(1);
    if !row.is_multiple_of(layout.values_per_block) {
        return Err(GgufError::PartialBlock {
            tensor: label(&tensor.name),
            values: row,
            block: layout.values_per_block,
            type_name: layout.name,
        });
    }
    let bytes = (n_values / layout.values_per_block).checked_mul(layout.bytes_per_block);
    // 63 bits, because file offsets of the operating system are signed; both counts, because the reader's users
    // convert either.
    let fits = |count: u64| i64::try_from(count).is_ok();
    if fits(n_values) && bytes.is_some_and(fits) { Ok(()) } else { Err(overflow()) }
}

/// Checks what no tensor can show alone: names are unique, and none starts inside another.
fn check_table(tensors: &[TensorInfo]) -> Result<(), GgufError> {
    let mut order: Vec<&TensorInfo> = tensors.iter().collect();
    order.sort_unstable_by_key(|tensor| &tensor.name);
    for pair in order.windows(2) {
        if pair[0].name == pair[1].name {
            return Err(GgufError::DuplicateTensor { tensor: label(&pair[0].name) });
        }
    }
    order.sort_by_key(|tensor| tensor.offset);
    for pair in order.windows(2) {
        // A tensor of unknown type has at least one byte, so two of them never share an offset.
        let end = pair[0].offset.saturating_add(pair[0].bytes().unwrap_or(1));
        if pair[1].offset < end {
            return Err(GgufError::Overlap {
                tensor: label(&pair[1].name),
                offset: pair[1].offset,
                other: label(&pair[0].name),
            });
        }
    }
    Ok(())
}
