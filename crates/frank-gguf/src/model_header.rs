//! The headers of all parts of a model as one. Never trusts the order or the names in which they came.

use std::collections::HashMap;

use crate::error::{GgufError, label};
use crate::header::Header;
use crate::metadata::Metadata;
use crate::split::SplitInfo;
use crate::tensor::TensorInfo;

/// What a part's data section needs to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartHeader {
    /// Bytes from the start of the file to the data section.
    pub data_start: u64,
    /// Bytes of the whole file.
    pub file_bytes: u64,
    /// Alignment of its tensors in bytes.
    pub alignment: u64,
    /// Format version, 2 or 3.
    pub version: u32,
}

/// A model: the metadata of its first part and the tensors of all parts that were given.
#[derive(Debug, Clone)]
pub struct ModelHeader {
    /// Metadata of the first part, which alone has the model's keys.
    pub metadata: Metadata,
    /// Tensors of all parts, in part order and then file order.
    pub tensors: Vec<TensorInfo>,
    /// The parts by `split.no`; [`TensorInfo::part`] is an index into this.
    pub parts: Vec<PartHeader>,
    /// Tensors of parts that were not given, see [`ModelHeader::merge_found`]. Their number is all that is known.
    pub n_tensors_missing: u64,
    by_name: HashMap<String, usize>,
    stored_bytes: Vec<u64>,
}

impl ModelHeader {
    /// Makes one header of all parts, given in any order, each with the bytes of its file.
    ///
    /// `parts[i]` of the result is the part whose `split.no` is `i`; a caller that keeps the files sorts them by
    /// [`Header::split`]. The data is not checked: that is [`Header::check_data`], part by part.
    ///
    /// # Errors
    /// [`GgufError`] when parts are missing (all are listed), given twice, or disagree with each other.
    pub fn merge(parts: Vec<(Header, u64)>) -> Result<ModelHeader, GgufError> {
        let parts = sort_parts(parts)?;
        if parts.len() < usize::from(parts[0].split.count) {
            return Err(missing_parts(&parts));
        }
        let n_tensors = n_tensors(&parts);
        match parts.iter().find(|part| part.split.tensors_count != n_tensors) {
            Some(part) => Err(wrong_count(part, n_tensors)),
            None => Self::of_sorted(parts),
        }
    }

    /// As [`ModelHeader::merge`], of the parts that are there: the first, which has the model's keys, and any others.
    ///
    /// # Errors
    /// As [`ModelHeader::merge`], but for missing parts only when the first is one of them.
    pub fn merge_found(parts: Vec<(Header, u64)>) -> Result<ModelHeader, GgufError> {
        let parts = sort_parts(parts)?;
        if parts[0].split.no != 0 {
            return Err(missing_parts(&parts));
        }
        let n_tensors = n_tensors(&parts);
        let is_whole = parts.len() == usize::from(parts[0].split.count);
        let wrong = |part: &&Part| {
            let want = part.split.tensors_count;
            if is_whole { want != n_tensors } else { want < n_tensors }
        };
        if let Some(part) = parts.iter().find(wrong) {
            return Err(wrong_count(part, n_tensors));
        }
        let n_tensors_missing = parts[0].split.tensors_count - n_tensors;
        Ok(Self { n_tensors_missing, ..Self::of_sorted(parts)? })
    }

    /// The same model with tensors that no given part lists, each with the bytes that it is assumed to take in a file.
    ///
    /// # Errors
    /// [`GgufError::DuplicateTensor`] when one of them is there already.
    pub fn with_assumed(
        &self,
        tensors: impl IntoIterator<Item = (TensorInfo, u64)>,
    ) -> Result<ModelHeader, GgufError> {
        let mut model = self.clone();
        for (tensor, bytes) in tensors {
            model.push_tensor(tensor)?;
            model.stored_bytes.push(bytes);
        }
        Ok(model)
    }

    fn of_sorted(parts: Vec<Part>) -> Result<ModelHeader, GgufError> {
        let stored_bytes =
            parts.iter().flat_map(|part| stored_bytes(&part.header, part.file_bytes)).collect();
        let mut model = ModelHeader {
            metadata: Metadata::default(),
            tensors: Vec::new(),
            parts: Vec::new(),
            n_tensors_missing: 0,
            by_name: HashMap::new(),
            stored_bytes,
        };
        for (index, Part { header, file_bytes, .. }) in parts.into_iter().enumerate() {
            let Header { version, metadata, tensors, alignment, data_start } = header;
            if index == 0 {
                model.metadata = metadata;
            }
            model.parts.push(PartHeader { data_start, file_bytes, alignment, version });
            for tensor in tensors {
                model.push_tensor(TensorInfo { part: index, ..tensor })?;
            }
        }
        Ok(model)
    }

    fn push_tensor(&mut self, tensor: TensorInfo) -> Result<(), GgufError> {
        if self.by_name.insert(tensor.name.clone(), self.tensors.len()).is_some() {
            return Err(GgufError::DuplicateTensor { tensor: label(&tensor.name) });
        }
        self.tensors.push(tensor);
        Ok(())
    }

    /// The tensor of this name, in O(1).
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.by_name.get(name).map(|&index| &self.tensors[index])
    }

    /// `general.architecture`.
    ///
    /// # Errors
    /// [`GgufError::MissingKey`], or a wrong type.
    pub fn architecture(&self) -> Result<&str, GgufError> {
        let key = "general.architecture";
        self.metadata.str(key)?.ok_or_else(|| GgufError::MissingKey { key: key.to_owned() })
    }

    /// Bytes of all files together.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.file_bytes))
    }

    /// Bytes that a tensor takes in its file, by its index in `tensors`.
    ///
    /// Exact for a type with a layout. For the others it is what lies between the tensor and the next one, or the end
    /// of the file: an upper bound that includes padding.
    ///
    /// # Panics
    /// When the index is not below `tensors.len()`.
    #[must_use]
    pub fn stored_bytes(&self, index: usize) -> u64 {
        self.stored_bytes[index]
    }
}

struct Part {
    header: Header,
    file_bytes: u64,
    split: SplitInfo,
}

fn n_tensors(parts: &[Part]) -> u64 {
    parts.iter().map(|part| part.header.tensors.len() as u64).sum()
}

fn wrong_count(part: &Part, got: u64) -> GgufError {
    GgufError::SplitTensors { part: part.split.no + 1, want: part.split.tensors_count, got }
}

/// The parts in the order of `split.no`, each at most once. There is at least one.
fn sort_parts(given: Vec<(Header, u64)>) -> Result<Vec<Part>, GgufError> {
    let mut parts = Vec::with_capacity(given.len());
    for (header, file_bytes) in given {
        let split = header.split()?;
        parts.push(Part { header, file_bytes, split });
    }
    parts.sort_by_key(|part| part.split.no);
    let count = parts.first().ok_or(GgufError::NoParts)?.split.count;
    if let Some(other) = parts.iter().find(|part| part.split.count != count) {
        return Err(GgufError::SplitCount { a: count, b: other.split.count });
    }
    if count == 1 && parts.len() > 1 {
        return Err(GgufError::NotSplit { parts: parts.len() });
    }
    for pair in parts.windows(2) {
        if pair[0].split.no == pair[1].split.no {
            return Err(GgufError::DuplicatePart { part: pair[0].split.no + 1, count });
        }
    }
    Ok(parts)
}

fn missing_parts(parts: &[Part]) -> GgufError {
    let count = parts[0].split.count;
    if let [only] = parts
        && let Some(extra) = bytes_after_data(only)
    {
        return GgufError::ConcatenatedParts { part: only.split.no + 1, count, extra };
    }
    let missing = (0..count)
        .filter(|&no| parts.iter().all(|part| part.split.no != no))
        .map(|no| no + 1)
        .collect();
    GgufError::MissingParts { have: parts.len(), count, missing }
}

/// Bytes that follow the last tensor of a part and are more than padding.
fn bytes_after_data(part: &Part) -> Option<u64> {
    let end = part.header.end_of_data()?.checked_next_multiple_of(part.header.alignment)?;
    part.file_bytes.checked_sub(end).filter(|&extra| extra > 0)
}

/// For each tensor of a part, the bytes it takes in the file.
fn stored_bytes(header: &Header, file_bytes: u64) -> Vec<u64> {
    let mut offsets: Vec<u64> = header.tensors.iter().map(|tensor| tensor.offset).collect();
    offsets.sort_unstable();
    let data_end = file_bytes.saturating_sub(header.data_start);
    let gap = |offset: u64| {
        let next = offsets.partition_point(|&other| other <= offset);
        offsets.get(next).copied().unwrap_or(data_end).saturating_sub(offset)
    };
    header
        .tensors
        .iter()
        .map(|tensor| tensor.bytes().unwrap_or_else(|| gap(tensor.offset)))
        .collect()
}
