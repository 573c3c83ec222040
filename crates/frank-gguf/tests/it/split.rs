//! Models in several files.

use frank_gguf::{GgufError, Header, ModelHeader, SplitInfo};
use frank_testkit::gguf_writer::GgufWriter;

use crate::read;

/// Part `no` of `count`, with one tensor named after it.
fn part(no: u16, count: u16) -> GgufWriter {
    let keys = if no == 0 { GgufWriter::new("llama") } else { GgufWriter::without_keys() };
    keys.split(no, count, count.into()).f32_tensor(&format!("blk.{no}.weight"), &[2], &[1.0, 2.0])
}

fn header(writer: &GgufWriter) -> (Header, u64) {
    let bytes = writer.to_bytes();
    (read(&bytes).expect("a part by itself is well-formed"), bytes.len() as u64)
}

fn merge(parts: &[GgufWriter]) -> Result<ModelHeader, GgufError> {
    ModelHeader::merge(parts.iter().map(header).collect())
}

#[track_caller]
fn check(parts: &[GgufWriter], expected: &str) {
    assert_eq!(merge(parts).expect_err(expected).to_string(), expected);
}

#[test]
fn parts_in_any_order_make_one_model() {
    for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0], [2, 1, 0]] {
        let model = merge(&order.map(|no| part(no, 3))).unwrap();
        assert_eq!(model.architecture().unwrap(), "llama");
        assert_eq!(model.parts.len(), 3);
        for (no, tensor) in model.tensors.iter().enumerate() {
            assert_eq!(
                (tensor.part, tensor.name.as_str()),
                (no, format!("blk.{no}.weight").as_str())
            );
            assert_eq!(model.tensor(&tensor.name), Some(tensor));
        }
    }
}

#[test]
fn a_header_says_which_part_it_is() {
    let (second, _) = header(&part(1, 3));
    assert_eq!(second.split().unwrap(), SplitInfo { no: 1, count: 3, tensors_count: 3 });
    let (whole, _) = header(&GgufWriter::new("llama"));
    assert_eq!(whole.split().unwrap(), SplitInfo { no: 0, count: 1, tensors_count: 0 });
}

#[test]
fn a_file_that_was_merged_from_parts_is_a_whole_model() {
    let merged = GgufWriter::new("llama").split(0, 0, 9).f32_tensor("t", &[1], &[1.0]);
    assert_eq!(merge(&[merged]).unwrap().tensors.len(), 1);
}

#[test]
fn all_missing_parts_are_listed_at_once() {
    check(&[part(1, 3)], "1 of 3 parts; missing: 1, 3");
    check(&[part(4, 5), part(1, 5)], "2 of 5 parts; missing: 1, 3, 4");
}

#[test]
fn parts_joined_with_cat_are_named_as_such() {
    let mut bytes = part(0, 3).to_bytes();
    let more = [part(1, 3).to_bytes(), part(2, 3).to_bytes()].concat();
    bytes.extend(&more);
    let error = ModelHeader::merge(vec![(read(&bytes).unwrap(), bytes.len() as u64)])
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("the header is that of part 1 of 3, but "), "{error}");
    assert!(error.ends_with("parts joined with `cat` are not a GGUF file"), "{error}");
}

#[test]
fn parts_that_disagree_are_refused() {
    check(&[part(0, 2), part(1, 3)], "split.count is 2 in one part and 3 in another");
    check(&[part(0, 2), part(1, 2), part(1, 2)], "part 2 of 2 was given twice");
    check(&[part(0, 2), part(0, 2)], "part 1 of 2 was given twice");
    check(&[part(2, 2)], "split.no is 2, but split.count is 2");
    check(
        &[part(0, 1), part(0, 1)],
        "2 files were given as parts of one model, but one of them says that it is a whole model",
    );
    check(&[], "no part of a model was given");
}

#[test]
fn a_tensor_count_that_does_not_match_is_refused() {
    let short = part(1, 2).split(1, 2, 7);
    check(
        &[part(0, 2), short],
        "split.tensors.count is 7 in part 2, but all parts together have 2 tensors",
    );
    let extra = part(0, 2).f32_tensor("one.too.many", &[1], &[0.0]);
    check(
        &[extra, part(1, 2)],
        "split.tensors.count is 2 in part 1, but all parts together have 3 tensors",
    );
}

#[test]
fn a_tensor_in_two_parts_is_refused_by_name() {
    let copy = GgufWriter::without_keys().split(1, 2, 2).f32_tensor("blk.0.weight", &[1], &[0.0]);
    check(&[part(0, 2), copy], "tensor \"blk.0.weight\" appears twice");
}

#[test]
fn incomplete_split_keys_are_named() {
    check(&[part(0, 2).without("split.no"), part(1, 2)], "key \"split.no\" is missing");
    check(
        &[part(0, 2), part(1, 2).without("split.tensors.count")],
        "key \"split.tensors.count\" is missing",
    );
    check(
        &[part(0, 2).value("split.count", "two")],
        "key \"split.count\": a string where an integer was expected",
    );
    check(
        &[part(0, 2).value("split.count", 70_000u32)],
        "key \"split.count\": 70000 does not fit u16",
    );
    check(
        &[part(0, 2).value("split.tensors.count", -1i32)],
        "key \"split.tensors.count\": -1 does not fit u64",
    );
}
