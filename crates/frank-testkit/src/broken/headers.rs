//! Headers that cannot be, parts that do not make a model, and data that is not there.

use frank_gguf::{Array, Header, Value, type_id};

use super::field::{Role, fields};
use super::limits::all_types;
use super::{Broken, Refused};
use crate::gguf_writer::GgufWriter;

pub(super) fn kinds() -> Vec<Broken> {
    let groups = [
        starts(),
        cuts(),
        texts(),
        twice(),
        value_types(),
        alignments(),
        shapes(),
        places(),
        parts(),
        missing_data(),
    ];
    groups.concat()
}

/// A header with one tensor and room behind it, so that nothing but the tensor can be wrong.
fn one_tensor(dims: &[u64], type_id: u32, name: &str) -> Vec<u8> {
    GgufWriter::new("llama").tensor(name, dims, type_id, vec![0; 8192]).to_bytes()
}

/// A file put together from a count of keys and raw bytes.
fn raw(n_tensors: u64, n_keys: u64, rest: &[&[u8]]) -> Vec<u8> {
    let counts = [n_tensors.to_le_bytes(), n_keys.to_le_bytes()].concat();
    [b"GGUF\x03\0\0\0", &counts[..], &rest.concat(), &[0; 4096]].concat()
}

fn raw_text(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u64).to_le_bytes()[..], bytes].concat()
}

fn header(name: impl Into<String>, bytes: Vec<u8>, names: &[&str]) -> Broken {
    Broken::new(Refused::Header, name, bytes, names)
}

fn starts() -> Vec<Broken> {
    let rest = all_types()[8..].to_vec();
    let version = |bytes: [u8; 4]| [b"GGUF", &bytes[..], &rest].concat();
    let mut kinds = vec![header("an empty file", Vec::new(), &["not a GGUF file"])];
    for start in ["G", "GG", "GGU", "GGML", "gguf", "FUGG", "\0\0\0\0", "PK\u{3}\u{4}", "\u{1b}[2J"]
    {
        let bytes = [start.as_bytes(), &rest].concat();
        kinds.push(header(
            format!("a file that starts with {start:?}"),
            bytes,
            &["not a GGUF file"],
        ));
    }
    for number in [0, 1, 4, u32::MAX] {
        let bytes = version(number.to_le_bytes());
        kinds.push(header(format!("version {number}"), bytes, &["GGUF version", "big-endian"]));
    }
    kinds.push(header("a big-endian file", version(3u32.to_be_bytes()), &["big-endian"]));
    kinds
}

/// The file ends where a number of the header begins, and one byte later.
fn cuts() -> Vec<Broken> {
    let file = all_types();
    let cuts = fields(&file)
        .into_iter()
        .flat_map(|field| [field.at, field.at + 1].map(|end| (end, field.place.clone())));
    let broken = cuts.map(|(end, place)| {
        // The counts come first, and may already be more than the rest has room for.
        let names = [place.as_str(), "a count of", "the file ends inside"];
        header(
            format!("the header is cut at byte {end}, inside {place}"),
            file[..end].to_vec(),
            &names,
        )
    });
    broken.collect()
}

fn texts() -> Vec<Broken> {
    let u8_value = [0u32.to_le_bytes().as_slice(), &[1]].concat();
    let huge = (1u64 << 63).to_le_bytes();
    let key = |name: &[u8], value: &[u8]| raw(0, 1, &[&raw_text(name), value]);
    let value = |type_id: u32, bytes: &[u8]| key(b"k", &[&type_id.to_le_bytes(), bytes].concat());
    let list = [8u32.to_le_bytes().as_slice(), &1u64.to_le_bytes()].concat();
    vec![
        header("an empty key", key(b"", &u8_value), &["metadata key number 0 is empty"]),
        header("a key that is not UTF-8", key(b"\xff\xfe", &u8_value), &["metadata key number 0"]),
        header("a key of 65536 bytes", key(&[b'k'; 65_536], &u8_value), &["metadata key number 0"]),
        header("a key of 2^63 bytes", raw(0, 1, &[&huge]), &["metadata key number 0"]),
        header("2^40 keys", raw(0, 1 << 40, &[]), &["the file header"]),
        header("2^40 tensors", raw(1 << 40, 0, &[]), &["the file header"]),
        header("2^64 - 1 keys and tensors", raw(u64::MAX, u64::MAX, &[]), &["the file header"]),
        header("a text that is not UTF-8", value(8, &raw_text(b"ab\xc3")), &["key \"k\""]),
        header("a text of surrogates", value(8, &raw_text(b"\xed\xa0\x80")), &["key \"k\""]),
        header("a text of 2^63 bytes", value(8, &huge), &["key \"k\""]),
        header(
            "a list with a text that is not UTF-8",
            value(9, &[&list[..], &raw_text(b"\xf0\x9f")].concat()),
            &["key \"k\""],
        ),
        header(
            "a list with a text of 2^63 bytes",
            value(9, &[&list[..], &huge].concat()),
            &["key \"k\""],
        ),
        header(
            "a tensor without a name",
            one_tensor(&[32], type_id::F32, ""),
            &["tensor number 0 has an empty name"],
        ),
        header(
            "a tensor's name that is not UTF-8",
            raw(1, 0, &[&raw_text(b"\xf0\x9f")]),
            &["tensor number 0"],
        ),
        header(
            "a tensor's name of 256 bytes",
            one_tensor(&[32], type_id::F32, &"t".repeat(256)),
            &["tensor number 0"],
        ),
        header("a tensor's name of 2^63 bytes", raw(1, 0, &[&huge]), &["tensor number 0"]),
        header(
            "a tensor's name that clears the terminal",
            one_tensor(&[0], type_id::F32, "\u{1b}[2J"),
            &["tensor \"\\u{1b}[2J\""],
        ),
    ]
}

fn twice() -> Vec<Broken> {
    let key = [&raw_text(b"k.twice")[..], &0u32.to_le_bytes(), &[1]].concat();
    let other = [&raw_text(b"k.other")[..], &0u32.to_le_bytes(), &[1]].concat();
    let tensor = |writer: GgufWriter, name| writer.f32_tensor(name, &[1], &[1.0]);
    let writer =
        ["t.twice", "t.other", "t.twice"].into_iter().fold(GgufWriter::new("llama"), tensor);
    vec![
        header("a key twice", raw(0, 3, &[&key, &other, &key]), &["key \"k.twice\" appears twice"]),
        header("a tensor twice", writer.to_bytes(), &["tensor \"t.twice\" appears twice"]),
    ]
}

fn value_types() -> Vec<Broken> {
    let key = |rest: &[u8]| raw(0, 1, &[&raw_text(b"k.value"), rest]);
    let list = |element: u32, rest: &[u8]| {
        let start = [9u32.to_le_bytes(), element.to_le_bytes()].concat();
        key(&[&start[..], &1u64.to_le_bytes(), rest].concat())
    };
    let nested = [9u32.to_le_bytes().as_slice(), &1u64.to_le_bytes()].concat().repeat(100);
    let names = ["key \"k.value\""];
    let mut kinds = vec![
        header("an array in an array", list(9, &nested), &names),
        header("a boolean of 2", key(&[&7u32.to_le_bytes()[..], &[2]].concat()), &names),
        header("a list with a boolean of 255", list(7, &[255]), &names),
    ];
    for type_id in [13, 14, 255, 1 << 31, u32::MAX] {
        kinds.push(header(
            format!("a value of type {type_id}"),
            key(&type_id.to_le_bytes()),
            &names,
        ));
        kinds.push(header(format!("a list of type {type_id}"), list(type_id, &[]), &names));
    }
    kinds
}

fn alignments() -> Vec<Broken> {
    let values = [
        Value::from(0u32),
        Value::from(3u32),
        Value::from(33u32),
        Value::from(u32::MAX),
        Value::from(32u64),
        Value::from(32i32),
        Value::from(32u16),
        Value::from(32u8),
        Value::from(32.0f32),
        Value::from(true),
        Value::from("32"),
        Value::from(Array::U32(vec![32])),
    ];
    let broken = values.into_iter().map(|value| {
        let name = format!("an alignment of {value:?}");
        let file = GgufWriter::new("llama").f32_tensor("t", &[1], &[1.0]);
        header(name, file.value("general.alignment", value).to_bytes(), &["\"general.alignment\""])
    });
    broken.collect()
}

fn shapes() -> Vec<Broken> {
    const UNKNOWN: u32 = 250;
    let mut kinds = Vec::new();
    let mut shape = |dims: &[u64], type_id: u32| {
        let name = format!("a tensor of dimensions {dims:?} and type {type_id}");
        kinds.push(header(name, one_tensor(dims, type_id, "t.shape"), &["tensor \"t.shape\""]));
    };
    for type_id in [type_id::F32, type_id::Q8_0, UNKNOWN] {
        for at in 0..4 {
            let mut dims = [32; 4];
            dims[at] = 0;
            shape(&dims[..=at], type_id);
            shape(&dims, type_id);
        }
        // Products of values, or of bytes, that wrap to something small or to nothing.
        shape(&[1 << 22, (1 << 42) + 1], type_id);
        shape(&[1 << 32, 1 << 32], type_id);
        shape(&[1 << 63, 2], type_id);
        shape(&[1 << 63], type_id);
        shape(&[!255; 4], type_id);
        shape(&[32; 5], type_id);
        shape(&[1; 9], type_id);
    }
    shape(&[1 << 62], type_id::F32);
    shape(&[(1 << 61) + 1], type_id::F32);
    // Rows that are no whole number of blocks, for every type that has blocks.
    for type_id in (0..64).filter(|&id| block(id) > 1) {
        shape(&[block(type_id) - 1], type_id);
        shape(&[block(type_id) + 1, 4], type_id);
        shape(&[], type_id);
    }
    kinds
}

fn block(type_id: u32) -> u64 {
    frank_gguf::type_layout(type_id).map_or(0, |layout| layout.values_per_block)
}

fn places() -> Vec<Broken> {
    let file = all_types();
    let offsets: Vec<_> =
        fields(&file).into_iter().filter(|field| field.role == Role::Offset).collect();
    let mut kinds = Vec::new();
    for field in &offsets {
        let was = field.value(&file);
        let mut put = |refused, value: u64, what: &str| {
            let name = format!("{} at offset {value}, {what}", field.place);
            kinds.push(Broken::new(
                refused,
                name,
                field.put(&file, value),
                &[&field.place, "tensor \""],
            ));
        };
        put(Refused::Header, was + 1, "which is no multiple of the alignment");
        put(Refused::Header, was + 16, "which is no multiple of the alignment");
        put(Refused::Header, u64::MAX, "which is no multiple of the alignment");
        put(Refused::Data, 1 << 20, "behind the end of the file");
        put(Refused::Data, 1 << 62, "behind the end of the file");
        put(Refused::Data, u64::MAX - 31, "where the end wraps");
    }
    let last = offsets.last().expect("the file has tensors");
    let first = offsets.first().expect("the file has tensors");
    let to_start = last.put(&file, first.value(&file));
    kinds.push(header("two tensors in one place", to_start, &["starts inside tensor"]));
    kinds
}

/// Files that say that they are one of several parts, alone in their folder.
fn parts() -> Vec<Broken> {
    let part = |no, count, tensors| {
        let writer = if no == 0 { GgufWriter::new("llama") } else { GgufWriter::without_keys() };
        writer.split(no, count, tensors).f32_tensor("t", &[8], &[1.0; 8])
    };
    let refused = |name: &str, writer: &GgufWriter, names: &[&str]| {
        Broken::new(Refused::Parts, name, writer.to_bytes(), names)
    };
    let first = |name: &str, count, names: &str| {
        Broken::new(Refused::OtherParts, name, part(0, count, 3).to_bytes(), &[names])
    };
    let mut joined = part(0, 3, 3).to_bytes();
    joined.extend(part(1, 3, 3).to_bytes());
    joined.extend(part(2, 3, 3).to_bytes());
    let mut kinds = vec![
        first("part 1 of 3 alone", 3, "2 of 3 parts: part 2, part 3"),
        refused("part 2 of 3 alone", &part(1, 3, 3), &["2 of 3 parts: part 1, part 3"]),
        refused("part 3 of 3 alone", &part(2, 3, 3), &["2 of 3 parts: part 1, part 2"]),
        first("part 1 of 65535 alone", u16::MAX, "65534 of 65535 parts"),
        refused("part 4 of 3", &part(3, 3, 3), &["split.no is 3, but split.count is 3"]),
        refused("part 65536 of 3", &part(u16::MAX, 3, 3), &["split.no is 65535"]),
        refused("a part of -1 tensors", &part(0, 3, -1), &["\"split.tensors.count\": -1"]),
        Broken::new(Refused::Parts, "three parts joined by cat", joined, &["part 1 of 3"]),
    ];
    for key in ["split.no", "split.tensors.count"] {
        let name = format!("a part without {key}");
        kinds.push(refused(&name, &part(0, 3, 3).without(key), &[&format!("{key:?} is missing")]));
    }
    for key in ["split.no", "split.count", "split.tensors.count"] {
        for value in wrong_counts() {
            let name = format!("a part whose {key} is {value:?}");
            kinds.push(refused(&name, &part(0, 3, 3).value(key, value), &[key]));
        }
    }
    kinds
}

/// Values that no 16-bit count can have.
fn wrong_counts() -> Vec<Value> {
    vec![
        Value::from(-1i32),
        Value::from(i64::MIN),
        Value::from(1.0f32),
        Value::from(true),
        Value::from("1"),
        Value::from(Array::U16(vec![1])),
    ]
}

/// The file ends inside a tensor's data.
fn missing_data() -> Vec<Broken> {
    let file = all_types();
    let header = Header::read(&mut &file[..], file.len() as u64).expect("a well-formed file");
    let cuts = header.tensors.iter().flat_map(|tensor| {
        let start = header.data_start + tensor.offset;
        let end = start + tensor.bytes().expect("a known type");
        [start, start + 1, end - 1].map(|cut| (cut as usize, format!("tensor {:?}", tensor.name)))
    });
    let broken = cuts.map(|(cut, tensor)| {
        let name = format!("the file is cut at byte {cut}, inside {tensor}");
        Broken::new(Refused::Data, name, file[..cut].to_vec(), &[&tensor])
    });
    broken.collect()
}
