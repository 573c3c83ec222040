//! The header of one GGUF file as bytes: what [`Header::read`] reads back. Never the tensor data.

use crate::header::{ALIGNMENT_DEFAULT, value_type};
use crate::metadata::{Array, Metadata, Value};
use crate::tensor::TensorInfo;

/// Version of the files that are written.
const VERSION: u32 = 3;

/// Gives each tensor its place in a data section: in the order given, each on a multiple of `alignment`, as every reader
/// of the format expects. Returns the bytes of the section, without padding at its end; `None` when they are too many, or
/// a tensor is of a type without a layout.
pub fn lay_out(tensors: &mut [TensorInfo], alignment: u64) -> Option<u64> {
    let mut end: u64 = 0;
    for tensor in tensors {
        tensor.offset = end.checked_next_multiple_of(alignment)?;
        end = tensor.offset.checked_add(tensor.bytes()?)?;
    }
    Some(end)
}

/// The bytes before the data section, its padding included: version 3, little-endian.
///
/// `metadata` says the alignment (`general.alignment`), and `tensors` lie where [`lay_out`] put them for it. Nothing is
/// checked; a header that breaks a rule is refused by its reader.
#[must_use]
pub fn encode_header(metadata: &Metadata, tensors: &[TensorInfo]) -> Vec<u8> {
    let mut out = encode_unpadded(VERSION, metadata.iter(), tensors);
    out.resize(out.len().next_multiple_of(alignment(metadata)), 0);
    out
}

/// The bytes of a header as it is told, of any version, with any keys and in any place, without padding: for files that a
/// reader should refuse too. [`encode_header`] makes those that it should take.
#[must_use]
pub fn encode_unpadded<'a>(
    version: u32,
    metadata: impl ExactSizeIterator<Item = (&'a str, &'a Value)>,
    tensors: &[TensorInfo],
) -> Vec<u8> {
    let mut out = b"GGUF".to_vec();
    out.extend(version.to_le_bytes());
    out.extend((tensors.len() as u64).to_le_bytes());
    out.extend((metadata.len() as u64).to_le_bytes());
    for (key, value) in metadata {
        put_string(&mut out, key);
        put_value(&mut out, value);
    }
    for tensor in tensors {
        put_string(&mut out, &tensor.name);
        // A reader takes four dimensions at most, so their number is never cut.
        out.extend((tensor.dims.len() as u32).to_le_bytes());
        out.extend(tensor.dims.iter().flat_map(|dim| dim.to_le_bytes()));
        out.extend(tensor.type_id.to_le_bytes());
        out.extend(tensor.offset.to_le_bytes());
    }
    out
}

fn alignment(metadata: &Metadata) -> usize {
    match metadata.get("general.alignment") {
        Some(&Value::U32(alignment)) => alignment.max(1) as usize,
        _ => ALIGNMENT_DEFAULT as usize,
    }
}

fn put_string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::U8(number) => put_typed(out, value_type::U8, &number.to_le_bytes()),
        Value::I8(number) => put_typed(out, value_type::I8, &number.to_le_bytes()),
        Value::U16(number) => put_typed(out, value_type::U16, &number.to_le_bytes()),
        Value::I16(number) => put_typed(out, value_type::I16, &number.to_le_bytes()),
        Value::U32(number) => put_typed(out, value_type::U32, &number.to_le_bytes()),
        Value::I32(number) => put_typed(out, value_type::I32, &number.to_le_bytes()),
        Value::U64(number) => put_typed(out, value_type::U64, &number.to_le_bytes()),
        Value::I64(number) => put_typed(out, value_type::I64, &number.to_le_bytes()),
        Value::F32(number) => put_typed(out, value_type::F32, &number.to_le_bytes()),
        Value::F64(number) => put_typed(out, value_type::F64, &number.to_le_bytes()),
        Value::Bool(flag) => put_typed(out, value_type::BOOL, &[u8::from(*flag)]),
        Value::String(text) => {
            put_typed(out, value_type::STRING, &[]);
            put_string(out, text);
        }
        Value::Array(array) => {
            put_typed(out, value_type::ARRAY, &[]);
            put_array(out, array);
        }
    }
}

fn put_typed(out: &mut Vec<u8>, type_id: u32, bytes: &[u8]) {
    out.extend(type_id.to_le_bytes());
    out.extend(bytes);
}

fn put_array(out: &mut Vec<u8>, array: &Array) {
    match array {
        Array::U8(list) => put_list(out, value_type::U8, list, u8::to_le_bytes),
        Array::I8(list) => put_list(out, value_type::I8, list, i8::to_le_bytes),
        Array::U16(list) => put_list(out, value_type::U16, list, u16::to_le_bytes),
        Array::I16(list) => put_list(out, value_type::I16, list, i16::to_le_bytes),
        Array::U32(list) => put_list(out, value_type::U32, list, u32::to_le_bytes),
        Array::I32(list) => put_list(out, value_type::I32, list, i32::to_le_bytes),
        Array::U64(list) => put_list(out, value_type::U64, list, u64::to_le_bytes),
        Array::I64(list) => put_list(out, value_type::I64, list, i64::to_le_bytes),
        Array::F32(list) => put_list(out, value_type::F32, list, f32::to_le_bytes),
        Array::F64(list) => put_list(out, value_type::F64, list, f64::to_le_bytes),
        Array::Bool(list) => put_list(out, value_type::BOOL, list, |flag| [u8::from(flag)]),
        Array::String(list) => {
            put_typed(out, value_type::STRING, &(list.len() as u64).to_le_bytes());
            for text in list {
                put_string(out, text);
            }
        }
    }
}

/// Appends the type of the elements, their number and the elements.
fn put_list<T: Copy, const N: usize>(
    out: &mut Vec<u8>,
    type_id: u32,
    list: &[T],
    encode: fn(T) -> [u8; N],
) {
    put_typed(out, type_id, &(list.len() as u64).to_le_bytes());
    out.extend(list.iter().flat_map(|&value| encode(value)));
}
