//! A file with a tensor for each expert, as `frank repack` writes it, is the same model.

use std::path::{Path, PathBuf};

use frank_hub::ModelFile;
use frank_models::expert_major;
use frank_testkit::assets;
use frank_testkit::gguf_writer::GgufWriter;

use crate::exactness::{bits, mixtures};
use crate::step::{Experts, Run};
use crate::tiny::Tiny;

/// Writes the model of `path` in that form.
fn rewritten(path: &Path, folder: &Path) -> PathBuf {
    let file = ModelFile::open(path).expect("a tiny model");
    let form = expert_major(&file.header).expect("it has experts");
    let keys = file.header.metadata.iter();
    let mut writer = keys.fold(GgufWriter::without_keys(), |w, (key, v)| w.value(key, v.clone()));
    for copy in form.copies {
        let source = &file.header.tensors[copy.source];
        let mut bytes = vec![0; usize::try_from(copy.bytes).expect("tiny")];
        file.read(source, copy.offset, &mut bytes).expect("the file is whole");
        writer = writer.tensor(&copy.name, &copy.dims, source.type_id, bytes);
    }
    let path = folder.join("rewritten.gguf");
    std::fs::write(&path, writer.to_bytes()).expect("a new file");
    path
}

#[test]
fn a_tensor_for_each_expert_changes_no_bit_of_any_mixture_resident_or_streamed() {
    for name in mixtures() {
        let path = assets::tiny(&format!("{name}.gguf"));
        let folder = tempfile::tempdir().expect("a folder");
        let copy = rewritten(&path, folder.path());
        let names = ModelFile::open(&copy).expect("a model").header.tensors;
        assert!(names.iter().all(|tensor| !tensor.name.contains("_exps.weight")), "{name}");
        assert!(names.iter().any(|tensor| tensor.name.ends_with(".ffn_down.1.weight")), "{name}");
        let token_ids = &Tiny::read(&name).token_ids[..20];
        let expected = bits(&Run::EXACT.logits(&path, token_ids));
        for experts in [Experts::Resident, Experts::Streamed { more_slots: 0 }] {
            let run = Run { experts, prefetch: true, chunk: 5, ..Run::EXACT };
            assert!(bits(&run.logits(&copy, token_ids)) == expected, "{name}: {experts:?}");
        }
    }
}
