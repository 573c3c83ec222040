//! Every number of a header at the limits of its width. Never a hand-picked case: those are `headers`.

use frank_gguf::{Array, type_id};

use super::field::{Field, Role, fields};
use crate::gguf_writer::GgufWriter;

/// A file of which one number was changed to a limit. Some stay well-formed: a value may be anything.
#[derive(Debug, Clone)]
pub struct Limit {
    /// The place, what the number says there, and what it was changed to.
    pub name: String,
    /// The file.
    pub bytes: Vec<u8>,
    /// One of these stands in the error; empty where the file may also be read, as it was changed or shifted.
    pub names: Vec<String>,
}

/// Bytes of a tensor's line and of a key at least; a count times these must not wrap.
const TENSOR_BYTES_MIN: u64 = 25;
const KEY_BYTES_MIN: u64 = 14;

/// Every number of a header that has all types of values, at every limit.
pub fn limits() -> Vec<Limit> {
    let file = all_types();
    let limits = fields(&file).into_iter().flat_map(|field| {
        let was = field.value(&file);
        let changed = values(&field, was).into_iter().filter(move |&value| value != was);
        changed.map(|value| limit(&file, &field, value)).collect::<Vec<_>>()
    });
    limits.collect()
}

/// A file with a key of every type, an array of every type, and tensors of one to four dimensions.
pub fn all_types() -> Vec<u8> {
    GgufWriter::new("llama")
        .value("general.alignment", 32u32)
        .value("k.u8", 1u8)
        .value("k.i8", -1i8)
        .value("k.u16", 2u16)
        .value("k.i16", -2i16)
        .value("k.u32", 3u32)
        .value("k.i32", -3i32)
        .value("k.u64", 4u64)
        .value("k.i64", -4i64)
        .value("k.f32", 0.5f32)
        .value("k.f64", -0.5f64)
        .value("k.bool", true)
        .value("k.text", "a text")
        .value("a.u8", Array::U8(vec![1; 3]))
        .value("a.i8", Array::I8(vec![-1; 3]))
        .value("a.u16", Array::U16(vec![2; 3]))
        .value("a.i16", Array::I16(vec![-2; 3]))
        .value("a.u32", Array::U32(vec![3; 3]))
        .value("a.i32", Array::I32(vec![-3; 3]))
        .value("a.u64", Array::U64(vec![4; 3]))
        .value("a.i64", Array::I64(vec![-4; 3]))
        .value("a.f32", Array::F32(vec![0.5; 3]))
        .value("a.f64", Array::F64(vec![-0.5; 3]))
        .value("a.bool", Array::Bool(vec![true, false, true]))
        .value("a.text", Array::String(["", "one", "two"].map(str::to_owned).to_vec()))
        .f32_tensor("one.weight", &[8], &[1.0; 8])
        .tensor("two.weight", &[32, 3], type_id::Q8_0, vec![0; 3 * 34])
        .tensor("three.weight", &[4, 3, 2], type_id::F16, vec![0; 48])
        .tensor("four.weight", &[32, 1, 2, 1], type_id::Q4_1, vec![0; 40])
        .to_bytes()
}

/// The limits of a number of this width, those next to what it was, and those whose products wrap.
fn values(field: &Field, was: u64) -> Vec<u64> {
    let bits = 8 * field.width as u32;
    let max = u64::MAX >> (64 - bits);
    let mut values = vec![0, 1, was.wrapping_sub(1) & max, was.wrapping_add(1) & max];
    values.extend([max >> 1, (max >> 1) + 1, max - 1, max]);
    if bits == 64 {
        values.extend([1 << 31, 1 << 32, 1 << 40, (1 << 61) + 1, (1 << 62) + 1]);
        values.extend([TENSOR_BYTES_MIN, KEY_BYTES_MIN, 34, 8, 4].map(|each| u64::MAX / each + 1));
    }
    values.sort_unstable();
    values.dedup();
    values
}

fn limit(file: &[u8], field: &Field, value: u64) -> Limit {
    Limit {
        name: format!("{} {:?} at byte {}: {value}", field.place, field.role, field.at),
        bytes: field.put(file, value),
        names: names(file, field, value),
    }
}

/// What the error names when `value` cannot be right, whatever follows it.
fn names(file: &[u8], field: &Field, value: u64) -> Vec<String> {
    let is_beyond = value > file.len() as u64;
    let cannot_be = match field.role {
        Role::Version if value == 2 => false,
        Role::Version => return vec!["GGUF version".to_owned(), "big-endian".to_owned()],
        Role::TensorCount | Role::KeyCount | Role::Length | Role::ArrayLength => is_beyond,
        Role::ValueType => value > 12,
        Role::ElementType => value == 9 || value > 12,
        Role::Bool => value > 1,
        Role::Alignment => !value.is_power_of_two(),
        Role::DimensionCount => value > 4,
        Role::Dimension(_) => value == 0 || is_beyond,
        Role::Offset => is_beyond,
        Role::Scalar | Role::TypeId => false,
    };
    if cannot_be { vec![field.place.clone()] } else { Vec::new() }
}
