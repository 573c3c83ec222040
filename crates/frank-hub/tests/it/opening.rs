//! Opening model files: whole ones, split ones given by any part, and all that is not a model.

use std::fs;
use std::path::{Path, PathBuf};

use frank_gguf::TensorInfo;
use frank_hub::{FailureKind, ModelFile, OpenError};
use frank_testkit::gguf_writer::GgufWriter;
use tempfile::TempDir;

/// The values of tensor `no` in [`part`].
fn values(no: u16) -> [f32; 8] {
    std::array::from_fn(|i| f32::from(no) * 100.0 + i as f32)
}

/// Part `no` of `count`, with one tensor `t<no>` of 8 values, like llama.cpp's splitter writes them.
fn part(no: u16, count: u16) -> Vec<u8> {
    let writer = if no == 0 { GgufWriter::new("llama") } else { GgufWriter::without_keys() };
    let writer = writer.split(no, count, i32::from(count));
    writer.f32_tensor(&format!("t{no}"), &[8], &values(no)).to_bytes()
}

/// A folder with the parts of a model in three files, named as published.
fn three_parts() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for no in 0..3 {
        fs::write(named(dir.path(), no), part(no, 3)).unwrap();
    }
    dir
}

fn named(folder: &Path, no: u16) -> PathBuf {
    folder.join(frank_gguf::part_name("m", no, 3))
}

fn read_values(model: &ModelFile, tensor: &TensorInfo) -> Vec<f32> {
    let mut bytes = [0; 32];
    model.read(tensor, 0, &mut bytes).unwrap();
    bytes.chunks(4).map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap())).collect()
}

fn check_whole(path: &Path) {
    let model = ModelFile::open(path).unwrap();
    assert_eq!(model.paths().len(), 3);
    assert_eq!(model.header.architecture().unwrap(), "llama");
    for no in 0..3 {
        let tensor = model.header.tensor(&format!("t{no}")).unwrap();
        assert_eq!(read_values(&model, tensor), values(no), "{} part {no}", path.display());
    }
}

fn refused(path: &Path) -> OpenError {
    let error = ModelFile::open(path).unwrap_err();
    assert_eq!(error.kind(), FailureKind::Input);
    error
}

/// The text of the error, with the folder it names replaced.
fn refusal(path: &Path) -> String {
    refused(path).to_string().replace(path.parent().unwrap().to_str().unwrap(), "DIR")
}

fn file(name: &str, content: &[u8]) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, content).unwrap();
    (dir, path)
}

#[test]
fn a_part_of_a_tensor_is_read_from_its_offset() {
    let bytes = GgufWriter::new("llama").f32_tensor("t0", &[8], &values(0)).to_bytes();
    let (_dir, path) = file("m.gguf", &bytes);
    let model = ModelFile::open(&path).unwrap();
    assert_eq!(model.paths(), [path]);
    let mut one = [0; 4];
    model.read(model.header.tensor("t0").unwrap(), 12, &mut one).unwrap();
    assert_eq!(f32::from_le_bytes(one), 3.0);
}

#[test]
fn a_real_model_opens_with_all_its_tensors() {
    let model = ModelFile::open(&frank_testkit::assets::smollm2()).unwrap();
    assert_eq!(model.header.architecture().unwrap(), "llama");
    assert_eq!(model.header.tensors.len(), 272);
    let norm = model.header.tensor("output_norm.weight").unwrap();
    let mut bytes = vec![0; 576 * 4];
    model.read(norm, 0, &mut bytes).unwrap();
    let values = bytes.chunks(4).map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap()));
    assert!(values.into_iter().all(|value| value.is_finite() && value != 0.0));
}

#[test]
fn any_part_of_a_split_model_opens_the_whole() {
    let dir = three_parts();
    (0..3).for_each(|no| check_whole(&named(dir.path(), no)));
}

#[test]
fn other_models_in_the_folder_do_not_disturb_a_named_one() {
    let dir = three_parts();
    fs::write(dir.path().join("m2-00002-of-00003.gguf"), part(1, 3)).unwrap();
    fs::write(dir.path().join("m-00002-of-00004.gguf"), b"junk").unwrap();
    fs::write(dir.path().join("notes.gguf"), b"junk").unwrap();
    check_whole(&named(dir.path(), 0));
}

#[test]
fn headers_are_trusted_over_names() {
    let dir = three_parts();
    fs::rename(named(dir.path(), 1), dir.path().join("x")).unwrap();
    fs::rename(named(dir.path(), 2), named(dir.path(), 1)).unwrap();
    fs::rename(dir.path().join("x"), named(dir.path(), 2)).unwrap();
    (0..3).for_each(|no| check_whole(&named(dir.path(), no)));
}

#[test]
fn a_part_that_was_renamed_finds_the_others_by_their_headers() {
    for no in 0..3 {
        let dir = three_parts();
        let renamed = dir.path().join("renamed.gguf");
        fs::rename(named(dir.path(), no), &renamed).unwrap();
        fs::write(dir.path().join("other.gguf"), part(0, 4)).unwrap();
        fs::write(dir.path().join("broken.gguf"), b"GGUF").unwrap();
        check_whole(&renamed);
    }
}

#[test]
fn a_renamed_part_between_two_models_is_refused_and_not_guessed() {
    let dir = three_parts();
    let renamed = dir.path().join("renamed.gguf");
    fs::rename(named(dir.path(), 0), &renamed).unwrap();
    fs::write(dir.path().join("n-00003-of-00003.gguf"), part(2, 3)).unwrap();
    assert_eq!(
        refusal(&renamed),
        "part 3 of 3 is there twice: DIR/m-00003-of-00003.gguf and DIR/n-00003-of-00003.gguf"
    );
}

#[test]
fn all_missing_parts_are_listed_at_once() {
    let dir = three_parts();
    fs::remove_file(named(dir.path(), 0)).unwrap();
    fs::rename(named(dir.path(), 2), dir.path().join("third.gguf")).unwrap();
    assert_eq!(
        refusal(&named(dir.path(), 1)),
        "DIR lacks 2 of 3 parts: m-00001-of-00003.gguf, m-00003-of-00003.gguf"
    );
    let (_dir, alone) = file("alone.gguf", &part(1, 3));
    assert_eq!(refusal(&alone), "DIR lacks 2 of 3 parts: part 1, part 3");
}

#[test]
fn of_thousands_of_missing_parts_the_first_are_listed_and_the_rest_counted() {
    let (_dir, alone) = file("alone.gguf", &part(0, 65_535));
    let refusal = refusal(&alone);
    assert!(refusal.starts_with("DIR lacks 65534 of 65535 parts: part 2, part 3, "), "{refusal}");
    assert!(refusal.ends_with(", part 65 and 65470 more"), "{refusal}");
}

#[test]
fn a_part_whose_header_is_of_another_model_is_missing() {
    let dir = three_parts();
    fs::write(named(dir.path(), 1), part(1, 4)).unwrap();
    assert_eq!(refusal(&named(dir.path(), 0)), "DIR lacks 1 of 3 parts: m-00002-of-00003.gguf");
}

#[test]
fn parts_that_were_joined_with_cat_are_refused() {
    let joined: Vec<u8> = (0..3).flat_map(|no| part(no, 3)).collect();
    let extra = joined.len() - part(0, 3).len();
    let expected = format!(
        "DIR/m.gguf: the header is that of part 1 of 3, but {extra} bytes follow its last tensor: \
         parts that were joined with `cat` are not a model"
    );
    let (_dir, alone) = file("m.gguf", &joined);
    assert_eq!(refusal(&alone), expected);
    let beside_the_parts = three_parts();
    let path = beside_the_parts.path().join("m.gguf");
    fs::write(&path, &joined).unwrap();
    assert_eq!(refusal(&path), expected);
    check_whole(&named(beside_the_parts.path(), 0));
}

#[test]
fn a_truncated_file_says_the_tensor_and_the_missing_bytes() {
    let whole = GgufWriter::new("llama")
        .f32_tensor("first", &[8], &values(0))
        .f32_tensor("second", &[8], &values(1))
        .f32_tensor("third", &[8], &values(2));
    let whole = whole.to_bytes();
    let (_dir, path) = file("m.gguf", &whole[..whole.len() - 40]);
    assert_eq!(
        refusal(&path),
        "DIR/m.gguf: the file is cut off: 40 bytes are missing, from tensor \"second\" on"
    );
    let model = ModelFile::open_header(&path).unwrap();
    assert_eq!(model.header.tensors.len(), 3);
    let mut buf = [0; 32];
    let error = model.read(model.header.tensor("third").unwrap(), 0, &mut buf).unwrap_err();
    assert_eq!(error.kind(), FailureKind::Failed);
}

#[test]
fn a_part_that_is_truncated_is_named() {
    let dir = three_parts();
    let path = named(dir.path(), 2);
    fs::write(&path, &part(2, 3)[..part(2, 3).len() - 1]).unwrap();
    let error = refused(&named(dir.path(), 0));
    let OpenError::Truncated { path: at_fault, missing_bytes: 1, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(at_fault, path);
}

#[test]
fn what_is_no_model_is_said_for_what_it_is() {
    let (dir, path) = file("m.gguf", b"<html>401 Unauthorized</html>");
    assert_eq!(
        refusal(&path),
        "DIR/m.gguf: not a GGUF file: it starts with \"<html>401 Unauthorized</html>\""
    );
    let missing = dir.path().join("none.gguf");
    assert_eq!(refusal(&missing), "DIR/none.gguf: no such file");
    assert!(refused(dir.path()).to_string().ends_with("is a directory, not a file"));
    let (_dir, header_only) = file("m.gguf", &part(0, 1)[..40]);
    assert!(matches!(refused(&header_only), OpenError::Header { .. }));
    let (_dir, empty) = file("m.gguf", b"");
    assert!(matches!(refused(&empty), OpenError::NotGguf { .. }));
}
