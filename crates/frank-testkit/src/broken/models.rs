//! Well-formed files that are no model of their family: keys at their limits or of a wrong type, tensors that do not fit.

use std::collections::BTreeSet;
use std::fs;

use frank_gguf::{Array, Header, Value, type_id};

use super::{Broken, Limit, Refused};
use crate::assets;
use crate::gguf_writer::GgufWriter;

/// Types that were removed from the format, that no weight has, that are not known, and that forks use.
const TYPES_WITHOUT_KERNELS: &[u32] =
    &[4, 5, 9, 24, 25, 27, 28, 31, 32, 33, 36, 37, 38, 43, 100, 250, u32::MAX];

/// A type that no weight has.
const I32: u32 = 26;

/// Keys that every family has to have.
const REQUIRED: &[&str] = &[
    "block_count",
    "embedding_length",
    "feed_forward_length",
    "attention.head_count",
    "attention.layer_norm_rms_epsilon",
];

/// Ends of keys whose 0 means that there is none of it.
const NONE_AT_ZERO: &[&str] = &["softcapping", "expert_weights_scale", "yarn_log_multiplier"];

/// Tensors that are there together or not at all: without the first the other may be what is named.
const TOGETHER: &[(&str, &str)] = &[("attn_q_norm", "attn_k_norm"), ("attn_kv_b", "attn_k_b")];

/// The tiny models of this repository, some for each family, as (name of the file, bytes), sorted.
///
/// # Panics
/// When one cannot be read.
pub fn families() -> Vec<(String, Vec<u8>)> {
    let folder = assets::tiny("llama.gguf");
    let folder = fs::read_dir(folder.parent().expect("a file lies in a folder"));
    let paths = folder.expect("the folder is there").map(|entry| entry.expect("an entry").path());
    let mut models: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|it| it == "gguf")).collect();
    models.sort();
    let model = |path: &std::path::PathBuf| {
        let name = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
        (name, fs::read(path).expect("a readable file"))
    };
    models.iter().map(model).collect()
}

/// The unbroken file that the models and the tokenizers were broken from: it loads and answers.
pub fn valid() -> Vec<u8> {
    writer().to_bytes()
}

/// [`valid`], ready to be changed.
pub(super) fn writer() -> GgufWriter {
    let file = fs::read(assets::tiny("llama.gguf")).expect("the tiny llama model");
    writer_of(&file)
}

/// A well-formed file, ready to be changed.
fn writer_of(file: &[u8]) -> GgufWriter {
    let header = read(file);
    let mut writer = GgufWriter::without_keys();
    for (key, value) in header.metadata.iter() {
        writer = writer.value(key, value.clone());
    }
    for tensor in &header.tensors {
        let start = (header.data_start + tensor.offset) as usize;
        let bytes = &file[start..][..tensor.bytes().expect("a known type") as usize];
        writer = writer.tensor(&tensor.name, &tensor.dims, tensor.type_id, bytes.to_vec());
    }
    writer
}

fn read(file: &[u8]) -> Header {
    Header::read(&mut &file[..], file.len() as u64).expect("a well-formed file")
}

fn model(name: impl Into<String>, writer: &GgufWriter, names: &[&str]) -> Broken {
    Broken::new(Refused::Model, name, writer.to_bytes(), names)
}

/// Of each tiny model in turn, so that not all broken files are held at once. What one model of a family has was broken
/// there and is left alone in the next.
pub(super) fn kinds() -> impl Iterator<Item = Broken> {
    let mut seen = BTreeSet::new();
    let of_family = move |(_, file): (String, Vec<u8>)| {
        let mut kinds = keys(&file);
        kinds.extend(tensors(&file));
        kinds.retain(|kind| seen.insert(without_sizes(&kind.name)));
        kinds
    };
    architectures().into_iter().chain(families().into_iter().flat_map(of_family))
}

/// The name of a breakage without numbers of layers and dimensions, in which models of one family differ.
fn without_sizes(name: &str) -> String {
    let name = name.split(" of [").next().unwrap_or(name);
    let Some((start, rest)) = name.split_once("blk.") else { return name.to_owned() };
    format!("{start}blk.{}", rest.trim_start_matches(|digit: char| digit.is_ascii_digit()))
}

fn architectures() -> Vec<Broken> {
    const KEY: &str = "general.architecture";
    let mut kinds = vec![model("no architecture", &writer().without(KEY), &[KEY])];
    for (value, names) in [
        (Value::from("rwkv99"), "\"rwkv99\" is not known"),
        (Value::from(""), "architecture \"\" is not known"),
        (Value::from("LLAMA"), "\"LLAMA\" is not known"),
        (Value::from("\u{1b}[2J"), "architecture \"\\u{1b}[2J\""),
        (Value::from(7u32), KEY),
        (Value::from(Array::String(vec!["llama".to_owned()])), KEY),
    ] {
        let name = format!("an architecture of {value:?}");
        kinds.push(model(name, &writer().value(KEY, value), &[names]));
    }
    kinds
}

/// Every key that the family has, missing, at its limits and of other types.
fn keys(file: &[u8]) -> Vec<Broken> {
    let (header, writer) = (read(file), writer_of(file));
    let arch = header.metadata.str("general.architecture").expect("a text").expect("a family");
    let prefix = format!("{arch}.");
    let mut kinds = Vec::new();
    for key in REQUIRED.iter().map(|key| format!("{prefix}{key}")) {
        kinds.push(model(format!("no {key}"), &writer.clone().without(&key), &[&key]));
    }
    for (key, value) in header.metadata.iter().filter(|(key, _)| key.starts_with(&prefix)) {
        let short = &key[prefix.len()..];
        let types = wrong_types(value).into_iter().map(|value| (value, vec![key]));
        // Where experts have a width of their own, that of dense layers may be read by nobody.
        let is_read = short != "feed_forward_length" || !has_expert_width(&header, arch);
        let limits = wrong_values(short, value).into_iter().filter(|_| is_read);
        // A value in the range of its type may only be seen to be wrong beside another key or a tensor.
        let limits = limits.map(|value| (value, vec![prefix.as_str(), "tensor "]));
        for (value, names) in types.chain(limits) {
            let name = format!("{key} of {value:?}");
            kinds.push(model(name, &writer.clone().value(key, value), &names));
        }
    }
    kinds
}

fn has_expert_width(header: &Header, arch: &str) -> bool {
    header.metadata.get(&format!("{arch}.expert_feed_forward_length")).is_some()
}

/// Values of types that the reader of a value like `value` cannot take.
fn wrong_types(value: &Value) -> Vec<Value> {
    let mut wrong = vec![Value::from(Array::String(vec!["1".to_owned()]))];
    match value {
        Value::F32(_) => wrong.extend([Value::from(1u32), Value::from("1.0"), Value::from(true)]),
        Value::String(_) => wrong.extend([Value::from(1u32), Value::from(1.0f32)]),
        Value::Bool(_) => wrong.extend([Value::from(1u32), Value::from("true")]),
        Value::Array(_) => wrong.extend([Value::from("1"), Value::from(1.0f32)]),
        _ => wrong.extend([
            Value::from("1"),
            Value::from(1.0f32),
            Value::from(true),
            Value::from(-1i32),
            Value::from(u64::MAX),
            Value::from(Array::F32(vec![1.0; 3])),
            Value::from(Array::U32(Vec::new())),
        ]),
    }
    wrong
}

/// Values of the right type that cannot be.
fn wrong_values(short_key: &str, value: &Value) -> Vec<Value> {
    match value {
        Value::U32(_) if REQUIRED.contains(&short_key) => [0, u32::MAX].map(Value::from).to_vec(),
        // A cap or a scale of 0 is none.
        Value::F32(_) if NONE_AT_ZERO.iter().any(|end| short_key.ends_with(end)) => {
            [-1.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY].map(Value::from).to_vec()
        }
        Value::F32(_) => {
            [0.0, -1.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY].map(Value::from).to_vec()
        }
        _ => Vec::new(),
    }
}

/// Every number that a family reads at the limits of its type: a model that answers nonsense, or none.
pub(super) fn limits() -> impl Iterator<Item = Limit> {
    let mut seen = BTreeSet::new();
    let of_family = move |(_, file): (String, Vec<u8>)| {
        let (header, writer) = (read(&file), writer_of(&file));
        let arch = header.metadata.str("general.architecture").expect("a text").expect("a family");
        let mut limits = Vec::new();
        for (key, value) in header.metadata.iter().filter(|(key, _)| key.starts_with(arch)) {
            for value in limit_values(value) {
                let name = format!("{key} of {value:?}");
                if seen.insert(name.clone()) {
                    let bytes = writer.clone().value(key, value).to_bytes();
                    limits.push(Limit { name, bytes, names: Vec::new() });
                }
            }
        }
        limits
    };
    families().into_iter().flat_map(of_family)
}

fn limit_values(value: &Value) -> Vec<Value> {
    match value {
        Value::U32(_) => {
            [0, 1, 2, 3, 1 << 16, 1 << 31, u32::MAX - 1, u32::MAX].map(Value::from).to_vec()
        }
        Value::F32(_) => {
            [-0.0, f32::MIN_POSITIVE, 1e-45, f32::MAX, f32::MIN].map(Value::from).to_vec()
        }
        Value::Array(array) => {
            let of = |value| Value::from(Array::U32(vec![value; array.len()]));
            [0, 1, 3, u32::MAX].map(of).to_vec()
        }
        _ => Vec::new(),
    }
}

/// Each tensor outside the layers and each of the last layer: missing, of another shape, of another type.
fn tensors(file: &[u8]) -> Vec<Broken> {
    let (header, writer) = (read(file), writer_of(file));
    let arch = header.metadata.str("general.architecture").expect("a text").expect("a family");
    let key = |key: &str| header.metadata.u32(&format!("{arch}.{key}")).expect("a count");
    // Layers that draft further tokens stand at the end, and nobody loads them.
    let n_loaded = key("block_count").unwrap_or(0) - key("nextn_predict_layers").unwrap_or(0);
    let last = n_loaded.checked_sub(1);
    let chosen = header.tensors.iter().filter(|it| layer(&it.name).is_none_or(|n| Some(n) == last));
    let mut kinds = Vec::new();
    for tensor in chosen {
        let (name, dims) = (&tensor.name, &tensor.dims);
        let without = writer.clone().without_tensor(name);
        let replaced =
            |dims: &[u64], type_id| without.clone().tensor(name, dims, type_id, room(dims));
        if !is_optional(name) {
            let other = TOGETHER.iter().find(|(first, _)| name.contains(first));
            let other = other.map_or_else(|| name.clone(), |(first, it)| name.replace(first, it));
            kinds.push(model(format!("{arch} without tensor {name}"), &without, &[name, &other]));
        }
        let mut longer = dims.clone();
        *longer.first_mut().expect("a dimension") += 1;
        let what = format!("{arch} with tensor {name} of {longer:?}");
        kinds.push(model(what, &replaced(&longer, type_id::F32), &[name]));
        let what = format!("{arch} with tensor {name} of I32");
        kinds.push(model(what, &replaced(dims, I32), &[name]));
        if name == "token_embd.weight" {
            kinds.extend(TYPES_WITHOUT_KERNELS.iter().map(|&type_id| {
                let what = format!("{arch} with an embedding of type {type_id}");
                model(what, &replaced(dims, type_id), &[&format!("(id {type_id})")])
            }));
        }
    }
    let extra = writer.f32_tensor("blk.0.extra.weight", &[4], &[0.0; 4]);
    kinds.push(model(format!("{arch} with a tensor too many"), &extra, &["blk.0.extra.weight"]));
    kinds
}

/// Whether a family can do without a tensor: the head may be tied to the embedding, positions need no factors, and
/// where there is no bias there is none.
fn is_optional(tensor: &str) -> bool {
    matches!(tensor, "output.weight" | "rope_freqs.weight") || tensor.ends_with(".bias")
}

/// Zeros for a tensor of these dimensions, whatever its type.
fn room(dims: &[u64]) -> Vec<u8> {
    vec![0; 8 * dims.iter().product::<u64>() as usize]
}

/// The number in `blk.{number}.…`.
fn layer(tensor: &str) -> Option<u32> {
    tensor.strip_prefix("blk.")?.split_once('.')?.0.parse().ok()
}
