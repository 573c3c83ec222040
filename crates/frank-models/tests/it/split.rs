//! Experts of one layer that lie in two files of a split model.

use std::path::{Path, PathBuf};

use frank_gguf::{TensorInfo, part_name};
use frank_hub::ModelFile;
use frank_testkit::assets;
use frank_testkit::gguf_writer::GgufWriter;

use crate::step::Run;
use crate::tiny::{self, Tiny};

/// Writes a model as two parts, the second with the tensors that `is_second` takes, and gives the first part's path.
fn split(path: &Path, folder: &Path, is_second: impl Fn(&TensorInfo) -> bool) -> PathBuf {
    let file = ModelFile::open(path).expect("the tiny model opens");
    let n_tensors = i32::try_from(file.header.tensors.len()).expect("a tiny model");
    let mut parts = [GgufWriter::without_keys(), GgufWriter::without_keys()];
    for (key, value) in file.header.metadata.iter() {
        parts[0] = parts[0].clone().value(key, value.clone());
    }
    for tensor in &file.header.tensors {
        let mut bytes =
            vec![0; usize::try_from(tensor.bytes().expect("a known type")).expect("tiny")];
        file.read(tensor, 0, &mut bytes).expect("the file is whole");
        let part = &mut parts[usize::from(is_second(tensor))];
        *part = part.clone().tensor(&tensor.name, &tensor.dims, tensor.type_id, bytes);
    }
    let paths = [0u16, 1].map(|no| folder.join(part_name("split", no, 2)));
    for ((part, path), no) in parts.into_iter().zip(&paths).zip(0..) {
        std::fs::write(path, part.split(no, 2, n_tensors).to_bytes()).expect("a new file");
    }
    let [first, _] = paths;
    first
}

/// Up-projections, and every second expert of the old form, which has a tensor for each.
fn is_up_or_odd_expert(tensor: &TensorInfo) -> bool {
    let parts: Vec<&str> = tensor.name.split('.').collect();
    match parts.as_slice() {
        ["blk", _, "ffn_up_exps", _] => true,
        ["blk", _, "ffn_gate" | "ffn_up" | "ffn_down", expert, "weight"] => {
            expert.parse::<u32>().is_ok_and(|expert| expert % 2 == 1)
        }
        _ => false,
    }
}

#[test]
fn experts_of_a_layer_in_two_files_give_the_same_bits() {
    let mut n_models = 0;
    for name in tiny::names() {
        let path = assets::tiny(&format!("{name}.gguf"));
        let file = ModelFile::open(&path).expect("the tiny model opens");
        if !file.header.tensors.iter().any(is_up_or_odd_expert) {
            continue;
        }
        n_models += 1;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let first = split(&path, folder.path(), is_up_or_odd_expert);
        let token_ids = &Tiny::read(&name).token_ids[..20];
        let whole = Run::EXACT.logits(&path, token_ids);
        assert!(Run::EXACT.logits(&first, token_ids) == whole, "{name}: other logits");
    }
    assert!(n_models >= 8, "the old form and every family with experts: {n_models}");
}
