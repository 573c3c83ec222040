//! Well-formed files.

use std::fs::File;

use frank_gguf::{Array, Header, ModelHeader, Value, type_id};
use frank_testkit::assets;
use frank_testkit::gguf_writer::GgufWriter;

use crate::read;

fn one_of_each() -> GgufWriter {
    GgufWriter::new("llama")
        .value("a.u8", 200u8)
        .value("a.i8", -7i8)
        .value("a.u16", 60_000u16)
        .value("a.i16", -300i16)
        .value("a.u32", 4_000_000_000u32)
        .value("a.i32", -70_000i32)
        .value("a.u64", u64::MAX)
        .value("a.i64", i64::MIN)
        .value("a.f32", 1.5f32)
        .value("a.f64", -2.25f64)
        .value("a.bool", true)
        .value("a.string", "Grüße, 世界 🦀")
        .value("a.list.empty", Array::I16(Vec::new()))
        .value("a.list.bool", Array::Bool(vec![true, false]))
        .value("a.list.f64", Array::F64(vec![0.5, -0.5]))
        .value("a.list.string", Array::String(vec![String::new(), "x".to_owned()]))
        .f32_tensor("norm.weight", &[3], &[1.0, 2.0, 3.0])
        .tensor("big.weight", &[64, 2], type_id::Q8_0, vec![7; 4 * 34])
}

#[test]
fn every_value_type_reads_back_in_file_order_in_both_versions() {
    for version in [2, 3] {
        let header = read(&one_of_each().version(version).to_bytes()).unwrap();
        assert_eq!(header.version, version);
        let metadata = &header.metadata;
        let keys: Vec<&str> = metadata.iter().map(|(key, _)| key).collect();
        assert_eq!(keys[..3], ["general.architecture", "a.u8", "a.i8"]);
        assert_eq!(keys.len(), 17);
        assert_eq!(metadata.get("a.u8"), Some(&Value::U8(200)));
        assert_eq!(metadata.get("a.i64"), Some(&Value::I64(i64::MIN)));
        assert_eq!(metadata.u64("a.u64").unwrap(), Some(u64::MAX));
        assert_eq!(metadata.f32("a.f64").unwrap(), Some(-2.25));
        assert_eq!(metadata.bool("a.bool").unwrap(), Some(true));
        assert_eq!(metadata.str("a.string").unwrap(), Some("Grüße, 世界 🦀"));
        assert_eq!(metadata.get("a.list.empty"), Some(&Value::Array(Array::I16(Vec::new()))));
        assert_eq!(
            metadata.get("a.list.bool"),
            Some(&Value::Array(Array::Bool(vec![true, false])))
        );
        assert_eq!(metadata.f32s("a.list.f64").unwrap(), Some(vec![0.5, -0.5]));
        assert_eq!(
            metadata.strings("a.list.string").unwrap(),
            Some(&[String::new(), "x".to_owned()][..])
        );
        assert_eq!(metadata.get("absent"), None);
    }
}

#[test]
fn tensors_lie_where_the_writer_put_them() {
    let bytes = one_of_each().to_bytes();
    let header = read(&bytes).unwrap();
    let [norm, big] = &header.tensors[..] else { panic!("{:?}", header.tensors) };
    assert_eq!((norm.n_values(), norm.bytes(), norm.offset), (3, Some(12), 0));
    assert_eq!((big.n_values(), big.bytes(), big.offset), (128, Some(136), 32));
    assert!(header.data_start.is_multiple_of(32));
    let start = (header.data_start + big.offset) as usize;
    assert_eq!(bytes[start..], [7; 136]);
    assert_eq!(header.end_of_data(), Some(bytes.len() as u64));
}

#[test]
fn the_stated_alignment_places_the_data() {
    for alignment in [1u32, 8, 256, 4096] {
        let bytes = one_of_each().value("general.alignment", alignment).to_bytes();
        let header = read(&bytes).unwrap();
        assert_eq!(header.alignment, u64::from(alignment));
        let start = (header.data_start + header.tensors[1].offset) as usize;
        assert_eq!(bytes[start..], [7; 136], "alignment {alignment}");
    }
}

#[test]
fn a_tensor_without_dimensions_is_one_value() {
    let header =
        read(&GgufWriter::new("llama").f32_tensor("scale", &[], &[1.0]).to_bytes()).unwrap();
    assert_eq!(header.tensors[0].bytes(), Some(4));
}

#[test]
fn an_unknown_type_is_planned_from_its_offsets_and_refused_by_name_when_loaded() {
    for (type_id, name) in [(9, "Q8_1"), (36, "IQ4_NL_4_4"), (43, "unknown"), (250, "unknown")] {
        let bytes = GgufWriter::new("llama")
            .tensor("odd.weight", &[32], type_id, vec![1; 160])
            .f32_tensor("norm.weight", &[1], &[1.0])
            .to_bytes();
        let file_bytes = bytes.len() as u64;
        let header = read(&bytes).unwrap();
        let error = header.tensors[0].quant().unwrap_err();
        let expected = format!(
            "tensor \"odd.weight\": type id {type_id} ({name}) cannot be loaded; these can: F32, F16, BF16, "
        );
        assert!(error.to_string().starts_with(&expected), "{error}");
        let model = ModelHeader::merge(vec![(header, file_bytes)]).unwrap();
        assert_eq!(model.stored_bytes(0), if name == "Q8_1" { 36 } else { 160 });
        assert_eq!(model.stored_bytes(1), 4);
    }
}

#[test]
fn a_sparse_header_is_read_without_its_data_and_the_data_check_names_the_tensor() {
    let bytes = one_of_each().header_bytes();
    let header = Header::read(&mut &bytes[..], bytes.len() as u64).unwrap();
    let error = header.check_data(bytes.len() as u64).unwrap_err().to_string();
    assert!(error.starts_with("tensor \"norm.weight\": 12 bytes at offset "), "{error}");
    header.check_data(1 << 40).unwrap();
}

#[test]
fn the_tiny_model_file_is_read() {
    let path = assets::tiny("llama.gguf");
    let mut file = File::open(&path).unwrap();
    let file_bytes = file.metadata().unwrap().len();
    let header = Header::read(&mut file, file_bytes).unwrap();
    header.check_data(file_bytes).unwrap();
    let model = ModelHeader::merge(vec![(header, file_bytes)]).unwrap();
    assert_eq!(model.architecture().unwrap(), "llama");
    assert_eq!(model.metadata.u32("llama.block_count").unwrap(), Some(3));
    assert_eq!(
        model.metadata.strings("tokenizer.ggml.tokens").unwrap().map(<[String]>::len),
        Some(300)
    );
    assert_eq!(model.tensors.len(), 30);
    assert_eq!(model.tensor("token_embd.weight").unwrap().dims, [64, 300]);
    assert_eq!(model.tensor("no.such.tensor"), None);
    assert_eq!(model.file_bytes(), file_bytes);
}

#[test]
fn a_model_without_an_architecture_says_so() {
    let bytes = GgufWriter::without_keys().to_bytes();
    let model = ModelHeader::merge(vec![(read(&bytes).unwrap(), bytes.len() as u64)]).unwrap();
    assert_eq!(
        model.architecture().unwrap_err().to_string(),
        "key \"general.architecture\" is missing"
    );
}
