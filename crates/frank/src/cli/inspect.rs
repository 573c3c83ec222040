//! `frank inspect`: what a model file says and holds. Never reads a weight, and never judges whether it can be loaded.

mod layers;
mod text;

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::Args;
use frank_gguf::{Array, ModelHeader, TensorInfo, Value, type_layout, type_name};
use frank_hub::ModelFile;
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use self::layers::{LayerFacts, layers};
use crate::model::{cut_off, open_header};
use crate::report::print;

/// Longer arrays are shown by their first [`ARRAY_SHOWN`] values: a vocabulary would hide everything else.
const ARRAY_WHOLE_MAX: usize = 16;

/// Values shown of an array that is not shown whole.
const ARRAY_SHOWN: usize = 8;

const EXAMPLES: &str = "\
Examples:
  frank inspect model.gguf
  frank inspect model-00002-of-00003.gguf       any part; all of them are read
  frank inspect --json model.gguf | jq .totals
  frank inspect --json moe.gguf | jq '.layers[0].expert_bytes_each'

Only headers are read: sparse and cut files, unknown architectures and unknown tensor types can be inspected too.";

/// Show the metadata, tensors and bytes for each layer and expert of a model file
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Inspect {
    /// Path of a .gguf file (any part of a split model), a name that `frank list` shows, or a reference
    #[arg(value_name = "MODEL")]
    model: OsString,

    /// Print one JSON object; strings are whole there
    #[arg(long)]
    json: bool,
}

impl Inspect {
    /// Prints the facts to stdout.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let file = open_header(&self.model)?;
        let facts = Facts::of(&file);
        if self.json {
            print(&(serde_json::to_string_pretty(&facts)? + "\n"))
        } else {
            print(&text::of(&facts))
        }
    }
}

/// Everything that is shown of a model file.
#[derive(Serialize)]
struct Facts<'a> {
    /// `general.architecture`, where the file has one.
    arch: Option<&'a str>,
    file_bytes: u64,
    parts: Vec<PartFacts>,
    metadata: MetadataFacts<'a>,
    tensors: Vec<TensorFacts<'a>>,
    layers: Vec<LayerFacts>,
    totals: Totals,
    /// Each a sentence.
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct PartFacts {
    path: String,
    version: u32,
    alignment: u64,
    /// Bytes before the data section.
    data_start: u64,
    file_bytes: u64,
}

#[derive(Serialize)]
struct TensorFacts<'a> {
    name: &'a str,
    /// `None` for a type that is not known.
    #[serde(rename = "type")]
    type_name: Option<&'static str>,
    type_id: u32,
    /// In ggml order, the row length first.
    dims: &'a [u64],
    bytes: u64,
    /// Bytes from the start of the part's data section.
    offset: u64,
    /// Number of the part as in file names, from 1.
    part: usize,
}

#[derive(Serialize)]
struct Totals {
    tensors: usize,
    values: u64,
    bytes: u64,
    /// Bytes of tensors that belong to no layer.
    bytes_outside_layers: u64,
    /// Routed experts of all layers together.
    experts: u64,
    /// Bytes of the routed experts.
    expert_bytes: u64,
    /// Bytes of all else.
    dense_bytes: u64,
    types: Vec<TypeFacts>,
}

#[derive(Serialize)]
struct TypeFacts {
    #[serde(rename = "type")]
    type_name: Option<&'static str>,
    type_id: u32,
    tensors: usize,
    values: u64,
    bytes: u64,
}

impl<'a> Facts<'a> {
    fn of(file: &'a ModelFile) -> Self {
        let header = &file.header;
        let tensors = header.tensors.iter().enumerate().map(|(index, tensor)| TensorFacts {
            name: &tensor.name,
            type_name: type_name(tensor.type_id),
            type_id: tensor.type_id,
            dims: &tensor.dims,
            bytes: header.stored_bytes(index),
            offset: tensor.offset,
            part: tensor.part + 1,
        });
        let tensors: Vec<TensorFacts<'_>> = tensors.collect();
        let (layers, bytes_outside_layers) = layers(&tensors);
        let bytes = sum(tensors.iter().map(|tensor| tensor.bytes));
        let expert_bytes = sum(layers.iter().map(LayerFacts::expert_bytes));
        let totals = Totals {
            tensors: tensors.len(),
            values: sum(header.tensors.iter().map(TensorInfo::n_values)),
            bytes,
            bytes_outside_layers,
            experts: sum(layers.iter().map(|layer| layer.experts)),
            expert_bytes,
            dense_bytes: bytes.saturating_sub(expert_bytes),
            types: types(header),
        };
        let parts = parts(file);
        let warnings = warnings(file, &totals);
        Self {
            arch: header.architecture().ok(),
            file_bytes: header.file_bytes(),
            parts,
            metadata: MetadataFacts(header),
            tensors,
            layers,
            totals,
            warnings,
        }
    }
}

fn parts(file: &ModelFile) -> Vec<PartFacts> {
    let parts = file.paths().iter().zip(&file.header.parts).map(|(path, part)| PartFacts {
        path: path.display().to_string(),
        version: part.version,
        alignment: part.alignment,
        data_start: part.data_start,
        file_bytes: part.file_bytes,
    });
    parts.collect()
}

fn types(header: &ModelHeader) -> Vec<TypeFacts> {
    let mut types: BTreeMap<u32, TypeFacts> = BTreeMap::new();
    for (index, tensor) in header.tensors.iter().enumerate() {
        let type_id = tensor.type_id;
        let facts = types.entry(type_id).or_insert(TypeFacts {
            type_name: type_name(type_id),
            type_id,
            tensors: 0,
            values: 0,
            bytes: 0,
        });
        facts.tensors += 1;
        facts.values = facts.values.saturating_add(tensor.n_values());
        facts.bytes = facts.bytes.saturating_add(header.stored_bytes(index));
    }
    types.into_values().collect()
}

fn warnings(file: &ModelFile, totals: &Totals) -> Vec<String> {
    let unsized_types = totals.types.iter().filter(|facts| type_layout(facts.type_id).is_none());
    let unknown = unsized_types.map(|facts| {
        let TypeFacts { type_id, tensors, .. } = facts;
        let what = match facts.type_name {
            Some(name) => format!("{type_id} ({name}) was removed from the format"),
            None => format!("{type_id} is not known"),
        };
        format!(
            "tensor type {what}: the bytes of its {tensors} tensors are counted from their offsets"
        )
    });
    unknown.chain(cut_off(file)).collect()
}

fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

/// The metadata as one JSON object in file order.
struct MetadataFacts<'a>(&'a ModelHeader);

impl Serialize for MetadataFacts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.metadata.iter().map(|(key, value)| (key, ValueFacts(value))))
    }
}

/// A value as JSON; a long array as `{"array_of", "count", "first"}`.
struct ValueFacts<'a>(&'a Value);

impl Serialize for ValueFacts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::U8(number) => serializer.serialize_u8(*number),
            Value::I8(number) => serializer.serialize_i8(*number),
            Value::U16(number) => serializer.serialize_u16(*number),
            Value::I16(number) => serializer.serialize_i16(*number),
            Value::U32(number) => serializer.serialize_u32(*number),
            Value::I32(number) => serializer.serialize_i32(*number),
            Value::U64(number) => serializer.serialize_u64(*number),
            Value::I64(number) => serializer.serialize_i64(*number),
            Value::F32(number) => serializer.serialize_f32(*number),
            Value::F64(number) => serializer.serialize_f64(*number),
            Value::Bool(flag) => serializer.serialize_bool(*flag),
            Value::String(text) => serializer.serialize_str(text),
            Value::Array(array) if array.len() > ARRAY_WHOLE_MAX => {
                let mut map = serializer.serialize_map(Some(3))?;
                map.serialize_entry("array_of", element_name(array))?;
                map.serialize_entry("count", &array.len())?;
                map.serialize_entry("first", &First(array, ARRAY_SHOWN))?;
                map.end()
            }
            Value::Array(array) => First(array, array.len()).serialize(serializer),
        }
    }
}

/// The first values of an array as a JSON array.
struct First<'a>(&'a Array, usize);

impl Serialize for First<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fn first<T: Serialize, S: Serializer>(
            list: &[T],
            count: usize,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            let mut seq = serializer.serialize_seq(Some(count.min(list.len())))?;
            for value in list.iter().take(count) {
                seq.serialize_element(value)?;
            }
            seq.end()
        }
        match self.0 {
            Array::U8(list) => first(list, self.1, serializer),
            Array::I8(list) => first(list, self.1, serializer),
            Array::U16(list) => first(list, self.1, serializer),
            Array::I16(list) => first(list, self.1, serializer),
            Array::U32(list) => first(list, self.1, serializer),
            Array::I32(list) => first(list, self.1, serializer),
            Array::U64(list) => first(list, self.1, serializer),
            Array::I64(list) => first(list, self.1, serializer),
            Array::F32(list) => first(list, self.1, serializer),
            Array::F64(list) => first(list, self.1, serializer),
            Array::Bool(list) => first(list, self.1, serializer),
            Array::String(list) => first(list, self.1, serializer),
        }
    }
}

/// What an array is of, like `strings`.
fn element_name(array: &Array) -> &'static str {
    let name = array.type_name();
    name.strip_prefix("an array of ").unwrap_or(name)
}
