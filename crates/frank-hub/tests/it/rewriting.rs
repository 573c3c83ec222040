//! Models written anew: the same bytes under other names, or nothing at all.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use frank_gguf::type_id;
use frank_hub::{FailureKind, ModelFile, RewriteError, RewriteStage, TensorCopy, rewrite};
use frank_testkit::gguf_writer::GgufWriter;
use tempfile::TempDir;

const ALIGNMENT: u32 = 4096;

/// More than one chunk of bytes that do not repeat in it.
fn long_tensor() -> Vec<u8> {
    (0..5_000_000u32).map(|i| (i % 251) as u8).collect()
}

/// A folder with a model of two parts: two tensors, and keys of which one cannot be compared.
fn two_parts() -> (TempDir, ModelFile) {
    let dir = tempfile::tempdir().unwrap();
    let first = GgufWriter::new("llama").value("a.nan", f32::NAN).value("general.alignment", 64u32);
    let first = first.split(0, 2, 2).f32_tensor("t0", &[4, 2], &[1.0; 8]);
    let second = GgufWriter::without_keys().split(1, 2, 2);
    let second = second.tensor("long", &[5_000_000], type_id_of_bytes(), long_tensor());
    for (no, part) in (0..).zip([first, second]) {
        fs::write(dir.path().join(frank_gguf::part_name("m", no, 2)), part.to_bytes()).unwrap();
    }
    let model = ModelFile::open(&dir.path().join(frank_gguf::part_name("m", 1, 2))).unwrap();
    (dir, model)
}

/// A type of one byte for each value.
fn type_id_of_bytes() -> u32 {
    let id = (0..64).find(|&id| frank_gguf::type_name(id) == Some("I8"));
    id.expect("the format has bytes")
}

/// The long tensor first and in two, then the other.
fn copies(model: &ModelFile) -> Vec<TensorCopy> {
    let half = |name: &str, offset, bytes| TensorCopy {
        name: name.to_owned(),
        dims: vec![bytes],
        source: 1,
        offset,
        bytes,
    };
    let halves = [half("tail", 4_500_000, 500_000), half("head", 0, 4_500_000)];
    halves.into_iter().chain([TensorCopy::whole(&model.header, 0)]).collect()
}

fn check_nothing_is_left(dir: &TempDir) {
    let mut names: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"]);
}

#[test]
fn parts_become_one_file_with_the_same_bytes_on_their_alignment() {
    let (dir, model) = two_parts();
    let path = dir.path().join("new.gguf");
    let bytes =
        rewrite(&model, &copies(&model), ALIGNMENT, &path, &|_| ControlFlow::Continue(())).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), bytes);
    let new = ModelFile::open(&path).unwrap();
    let keys: Vec<&str> = new.header.metadata.iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["general.architecture", "a.nan", "general.alignment"]);
    assert_eq!(new.header.parts[0].alignment, 4096);
    let read = |name: &str| {
        let tensor = new.header.tensor(name).unwrap();
        assert!((new.header.parts[0].data_start + tensor.offset).is_multiple_of(4096));
        let mut bytes = vec![0; tensor.bytes().unwrap() as usize];
        new.read(tensor, 0, &mut bytes).unwrap();
        bytes
    };
    assert_eq!(read("t0"), 1f32.to_le_bytes().repeat(8));
    assert_eq!(new.header.tensor("t0").unwrap().type_id, type_id::F32);
    let (long, head) = (long_tensor(), read("head"));
    assert!(head == long[..4_500_000] && read("tail") == long[4_500_000..]);
}

#[test]
fn what_exists_is_never_replaced_not_even_by_the_model_itself() {
    let (dir, model) = two_parts();
    let refused = |path: &Path| {
        let before = fs::read(path).ok();
        let error =
            rewrite(&model, &copies(&model), ALIGNMENT, path, &|_| ControlFlow::Continue(()))
                .unwrap_err();
        assert!(matches!(error, RewriteError::Exists { .. }), "{error}");
        assert_eq!(error.kind(), FailureKind::Input);
        assert!(fs::read(path).ok() == before, "it was changed");
    };
    refused(&model.paths()[0].clone());
    refused(dir.path());
    let link = dir.path().join("link");
    std::os::unix::fs::symlink("nowhere", &link).unwrap();
    refused(&link);
    fs::remove_file(link).unwrap();
    check_nothing_is_left(&dir);
}

#[test]
fn nothing_is_seen_of_the_new_file_before_it_is_whole_so_a_killed_rewrite_leaves_nothing() {
    let (dir, model) = two_parts();
    if frank_os::NamelessFile::create_in(dir.path()).unwrap().is_none() {
        // A file system without files that have no names.
        return;
    }
    let watch = |_| {
        check_nothing_is_left(&dir);
        ControlFlow::Continue(())
    };
    let path = dir.path().join("new.gguf");
    rewrite(&model, &copies(&model), ALIGNMENT, &path, &watch).unwrap();
    assert!(path.exists());
}

#[test]
fn a_file_that_appears_while_the_new_one_is_written_is_kept() {
    let (dir, model) = two_parts();
    let path = dir.path().join("new.gguf");
    let watch = |progress: frank_hub::RewriteProgress| {
        if progress.stage == RewriteStage::Verify {
            fs::write(&path, "mine").unwrap();
        }
        ControlFlow::Continue(())
    };
    let error = rewrite(&model, &copies(&model), ALIGNMENT, &path, &watch).unwrap_err();
    assert!(matches!(error, RewriteError::Exists { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"mine");
    fs::remove_file(path).unwrap();
    check_nothing_is_left(&dir);
}

#[test]
fn a_rewrite_that_is_broken_off_in_either_stage_leaves_nothing() {
    let (dir, model) = two_parts();
    for stage in [RewriteStage::Copy, RewriteStage::Verify] {
        let watch = |progress: frank_hub::RewriteProgress| {
            assert!(progress.done <= progress.total && progress.total == 5_000_032);
            if progress.stage == stage { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let path = dir.path().join("new.gguf");
        let error = rewrite(&model, &copies(&model), ALIGNMENT, &path, &watch).unwrap_err();
        assert!(matches!(error, RewriteError::Interrupted), "{error}");
        check_nothing_is_left(&dir);
    }
}

#[test]
fn bytes_that_change_between_writing_and_reading_back_are_noticed() {
    let (dir, model) = two_parts();
    let victim = model.paths()[0].clone();
    let watch = |progress: frank_hub::RewriteProgress| {
        if progress.stage == RewriteStage::Copy && progress.done == progress.total {
            let mut bytes = fs::read(&victim).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            fs::write(&victim, bytes).unwrap();
        }
        ControlFlow::Continue(())
    };
    let path = dir.path().join("new.gguf");
    let error = rewrite(&model, &copies(&model), ALIGNMENT, &path, &watch).unwrap_err();
    assert!(error.to_string().contains("tensor t0 was not read back"), "{error}");
    assert_eq!(error.kind(), FailureKind::Verification);
    check_nothing_is_left(&dir);
}

#[test]
fn a_file_that_is_larger_than_the_drive_is_refused_before_it_is_begun() {
    let dir = tempfile::tempdir().unwrap();
    let model = GgufWriter::new("llama").hole("huge", &[1 << 50], type_id_of_bytes(), 1 << 50);
    let path = dir.path().join("m.gguf");
    fs::write(&path, model.header_bytes()).unwrap();
    let model = ModelFile::open_header(&path).unwrap();
    let copies = [TensorCopy::whole(&model.header, 0)];
    let out = dir.path().join("new.gguf");
    let error =
        rewrite(&model, &copies, ALIGNMENT, &out, &|_| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(error, RewriteError::DiskFull { need, .. } if need > 1 << 50), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}
