//! What can be wrong with a GGUF file. Every variant names the place; none gives advice.

use std::io;

/// Names longer than this many characters are cut in error texts, so that a hostile name stays on one line.
const NAME_CHARS_MAX: usize = 96;
/// Part numbers that an error text lists, so that a file which claims to be one of 65,535 parts fills no terminal.
const PARTS_LISTED_MAX: usize = 64;

/// A GGUF file, or a set of its parts, that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum GgufError {
    /// The first four bytes are not `GGUF`.
    #[error("not a GGUF file: it starts with {start:?}")]
    NotGguf {
        /// The first bytes of the file, as text where they are text.
        start: String,
    },
    /// The version field is that of a file written on a big-endian machine.
    #[error("the file is big-endian; only little-endian GGUF is read")]
    BigEndian,
    /// Version 1 (32-bit counts), or one this reader has not heard of.
    #[error("GGUF version {version}; versions 2 and 3 are read")]
    Version {
        /// The version field.
        version: u32,
    },
    /// The file ends inside something.
    #[error("the file ends inside {place}: {want} bytes wanted at offset {offset}, {left} left")]
    Truncated {
        /// What was being read.
        place: String,
        /// Bytes from the start of the file.
        offset: u64,
        /// Bytes that were wanted.
        want: u64,
        /// Bytes that the file still has.
        left: u64,
    },
    /// The reader failed.
    #[error("reading {place} failed: {source}")]
    Io {
        /// What was being read.
        place: String,
        /// The reader's error.
        source: io::Error,
    },
    /// A count that the rest of the file has no room for.
    #[error("{place}: a count of {count} does not fit into the {left} bytes that are left")]
    Count {
        /// What is counted.
        place: String,
        /// The count in the file.
        count: u64,
        /// Bytes that the file still has.
        left: u64,
    },
    /// A string longer than the format allows for its place.
    #[error("{place}: a string of {bytes} bytes, at most {max} are allowed")]
    StringTooLong {
        /// Whose string.
        place: String,
        /// Its length.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// A string that is not UTF-8.
    #[error("{place}: a string that is not UTF-8")]
    NotUtf8 {
        /// Whose string.
        place: String,
    },
    /// A key of no characters.
    #[error("metadata key number {index} is empty")]
    EmptyKey {
        /// Position in the file, from 0.
        index: u64,
    },
    /// Two values for one key.
    #[error("metadata key {key:?} appears twice")]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// A value type id that does not exist.
    #[error("key {key:?}: value type {type_id} does not exist")]
    ValueType {
        /// The key.
        key: String,
        /// The type id in the file.
        type_id: u32,
    },
    /// An array in an array; no loader knows a use for one.
    #[error("key {key:?}: an array inside an array")]
    NestedArray {
        /// The key.
        key: String,
    },
    /// A boolean byte that is neither 0 nor 1.
    #[error("key {key:?}: a boolean of {byte}, only 0 and 1 exist")]
    Bool {
        /// The key.
        key: String,
        /// The byte in the file.
        byte: u8,
    },
    /// A key whose value has another type than its reader needs.
    #[error("key {key:?}: {got} where {want} was expected")]
    WrongType {
        /// The key.
        key: String,
        /// What was wanted.
        want: &'static str,
        /// What the file has.
        got: &'static str,
    },
    /// An integer that does not fit the type its reader needs.
    #[error("key {key:?}: {value} does not fit {want}")]
    OutOfRange {
        /// The key.
        key: String,
        /// The value in the file.
        value: i128,
        /// What was wanted.
        want: &'static str,
    },
    /// A key that must be there.
    #[error("key {key:?} is missing")]
    MissingKey {
        /// The key.
        key: String,
    },
    /// `general.alignment` is not a u32 power of two.
    #[error("key \"general.alignment\": {got}, it must be a u32 power of two")]
    Alignment {
        /// The value or its type.
        got: String,
    },
    /// A tensor without a name.
    #[error("tensor number {index} has an empty name")]
    EmptyTensorName {
        /// Position in the file, from 0.
        index: u64,
    },
    /// Two tensors of one name, in one part or over all parts.
    #[error("tensor {tensor:?} appears twice")]
    DuplicateTensor {
        /// The name.
        tensor: String,
    },
    /// More dimensions than ggml has.
    #[error("tensor {tensor:?}: {n_dims} dimensions, at most 4 exist")]
    Dimensions {
        /// The name.
        tensor: String,
        /// The count in the file.
        n_dims: u32,
    },
    /// A dimension of zero.
    #[error("tensor {tensor:?}: dimension {dim} is 0")]
    ZeroDimension {
        /// The name.
        tensor: String,
        /// Which dimension, from 0.
        dim: usize,
    },
    /// Dimensions whose product, in values or in bytes, does not fit 63 bits.
    #[error("tensor {tensor:?}: the size of dimensions {dims:?} overflows")]
    SizeOverflow {
        /// The name.
        tensor: String,
        /// The dimensions in the file.
        dims: Vec<u64>,
    },
    /// A row that is not a whole number of quant blocks.
    #[error(
        "tensor {tensor:?}: rows of {values} values, not a multiple of the {block} values of a {type_name} block"
    )]
    PartialBlock {
        /// The name.
        tensor: String,
        /// The first dimension.
        values: u64,
        /// Values in one block of its type.
        block: u64,
        /// The type's name.
        type_name: &'static str,
    },
    /// A tensor that does not start on a multiple of the alignment.
    #[error("tensor {tensor:?}: offset {offset} is not a multiple of the alignment {alignment}")]
    Misaligned {
        /// The name.
        tensor: String,
        /// Bytes from the start of the data section.
        offset: u64,
        /// The file's alignment.
        alignment: u64,
    },
    /// A tensor that starts inside another one.
    #[error("tensor {tensor:?} at offset {offset} starts inside tensor {other:?}")]
    Overlap {
        /// The later tensor.
        tensor: String,
        /// Its offset from the start of the data section.
        offset: u64,
        /// The tensor that it overlaps.
        other: String,
    },
    /// A tensor that ends after the file: a truncated download, or a wrong offset.
    #[error(
        "tensor {tensor:?}: {want} bytes at offset {offset} of the file, which has {file_bytes} bytes"
    )]
    OutsideFile {
        /// The name.
        tensor: String,
        /// Bytes from the start of the file, u64::MAX where the sum overflows.
        offset: u64,
        /// Bytes of the tensor (1 where its type's layout is unknown).
        want: u64,
        /// Bytes of the file.
        file_bytes: u64,
    },
    /// A tensor type that was removed from the format, or is unknown, or is not read yet.
    #[error(
        "tensor {tensor:?}: type id {type_id} ({type_name}) cannot be loaded; these can: {loadable}"
    )]
    TensorType {
        /// The name.
        tensor: String,
        /// The type id in the file.
        type_id: u32,
        /// The type's name, or `unknown`.
        type_name: &'static str,
        /// Names of the types in [`crate::quant::QUANTS`].
        loadable: String,
    },
    /// No part at all was given.
    #[error("no part of a model was given")]
    NoParts,
    /// Several files, one of which is not a part of a split model.
    #[error(
        "{parts} files were given as parts of one model, but one of them says that it is a whole model"
    )]
    NotSplit {
        /// How many were given.
        parts: usize,
    },
    /// `split.no` is not below `split.count`.
    #[error("split.no is {no}, but split.count is {count}")]
    SplitNumber {
        /// `split.no`, from 0.
        no: u16,
        /// `split.count`.
        count: u16,
    },
    /// Parts that disagree about how many there are.
    #[error("split.count is {a} in one part and {b} in another")]
    SplitCount {
        /// The one.
        a: u16,
        /// The other.
        b: u16,
    },
    /// Some parts are absent; all of them are listed.
    #[error("{have} of {count} parts; missing: {}", numbers(missing))]
    MissingParts {
        /// How many different parts were given.
        have: usize,
        /// `split.count`.
        count: u16,
        /// Part numbers as in file names, from 1.
        missing: Vec<u16>,
    },
    /// One file that says it is one of several parts, and goes on long after its own tensors.
    #[error(
        "the header is that of part {part} of {count}, but {extra} bytes follow its last tensor: \
         parts joined with `cat` are not a GGUF file"
    )]
    ConcatenatedParts {
        /// Part number as in file names, from 1.
        part: u16,
        /// `split.count`.
        count: u16,
        /// Bytes after the part's own end.
        extra: u64,
    },
    /// The same part twice.
    #[error("part {part} of {count} was given twice")]
    DuplicatePart {
        /// Part number as in file names, from 1.
        part: u16,
        /// `split.count`.
        count: u16,
    },
    /// The parts together do not have the tensors that they promise.
    #[error(
        "split.tensors.count is {want} in part {part}, but all parts together have {got} tensors"
    )]
    SplitTensors {
        /// Part number as in file names, from 1.
        part: u16,
        /// `split.tensors.count`.
        want: u64,
        /// What was found.
        got: u64,
    },
}

fn numbers(list: &[u16]) -> String {
    let (listed, more) = list.split_at(list.len().min(PARTS_LISTED_MAX));
    let listed = listed.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
    if more.is_empty() { listed } else { format!("{listed} and {} more", more.len()) }
}

/// A name from the file as error texts carry it: cut to one line's length. The texts print it with `{:?}`, which also
/// escapes control characters, so that a file cannot write to the terminal.
pub(crate) fn label(name: &str) -> String {
    match name.char_indices().nth(NAME_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{label, numbers};

    #[test]
    fn a_long_list_of_parts_is_cut() {
        let parts: Vec<u16> = (1..=65_535).collect();
        assert_eq!(numbers(&parts[..3]), "1, 2, 3");
        assert!(numbers(&parts[..64]).ends_with(", 63, 64"));
        assert!(numbers(&parts).ends_with(", 63, 64 and 65471 more"));
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let name = "é".repeat(200);
        let cut = label(&name);
        assert_eq!(cut.chars().count(), 97);
        assert!(cut.ends_with("é…"));
        assert_eq!(label("token_embd.weight"), "token_embd.weight");
    }
}
