//! Headers that are written: what reads back.

use frank_gguf::{Array, Header, Metadata, TensorInfo, Value, encode_header, lay_out, type_id};

use crate::read;

fn one_of_each() -> Metadata {
    let values: [(&str, Value); 14] = [
        ("general.alignment", 4096u32.into()),
        ("u8", 200u8.into()),
        ("i8", (-7i8).into()),
        ("u16", 60_000u16.into()),
        ("i16", (-300i16).into()),
        ("i32", (-70_000i32).into()),
        ("u64", u64::MAX.into()),
        ("i64", i64::MIN.into()),
        ("f32", 1.5f32.into()),
        ("f64", (-2.25f64).into()),
        ("bool", true.into()),
        ("string", "Grüße, 世界 🦀".into()),
        ("strings", Array::String(vec![String::new(), "x".to_owned()]).into()),
        ("bools", Array::Bool(vec![true, false]).into()),
    ];
    let numbers: [Array; 10] = [
        Array::U8(vec![1]),
        Array::I8(vec![-1]),
        Array::U16(vec![]),
        Array::I16(vec![-2, 2]),
        Array::U32(vec![u32::MAX]),
        Array::I32(vec![i32::MIN]),
        Array::U64(vec![u64::MAX]),
        Array::I64(vec![i64::MIN]),
        Array::F32(vec![0.5]),
        Array::F64(vec![-0.5]),
    ];
    let arrays = numbers.into_iter().enumerate();
    let arrays = arrays.map(|(index, array)| (format!("array.{index}"), array.into()));
    let values = values.into_iter().map(|(key, value)| (key.to_owned(), value));
    Metadata::new(values.chain(arrays).collect()).expect("no key twice")
}

fn tensor(name: &str, dims: &[u64], type_id: u32) -> TensorInfo {
    TensorInfo { name: name.to_owned(), dims: dims.to_vec(), type_id, offset: 0, part: 0 }
}

#[test]
fn a_written_header_reads_back_with_every_type_and_tensors_on_their_alignment() {
    let metadata = one_of_each();
    let mut tensors = vec![
        tensor("big.weight", &[64, 2], type_id::Q8_0),
        tensor("norm.weight", &[3], type_id::F32),
        tensor("scalar", &[], type_id::F32),
    ];
    let data_bytes = lay_out(&mut tensors, 4096).unwrap();
    assert_eq!(tensors.iter().map(|tensor| tensor.offset).collect::<Vec<_>>(), [0, 4096, 8192]);
    assert_eq!(data_bytes, 8196);
    let mut bytes = encode_header(&metadata, &tensors);
    assert!(bytes.len().is_multiple_of(4096), "{}", bytes.len());
    let data_start = bytes.len() as u64;
    bytes.resize(bytes.len() + data_bytes as usize, 0);
    let header = read(&bytes).unwrap();
    assert_eq!(header, Header { version: 3, metadata, tensors, alignment: 4096, data_start });
}

#[test]
fn tensors_that_have_no_size_or_too_many_bytes_have_no_place() {
    assert_eq!(lay_out(&mut [], 32), Some(0));
    assert_eq!(lay_out(&mut [tensor("odd", &[1], 250)], 32), None);
    let long = tensor("long", &[u64::MAX / 4], type_id::F32);
    assert_eq!(lay_out(&mut [long.clone(), long], 32), None);
}
