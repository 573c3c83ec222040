//! A real model with every weight written out as the f32 that it stands for. Kept while it is what would be written.

use std::fs;
use std::path::Path;

use frank_hub::{ModelFile, Sha256};
use frank_testkit::assets;
use frank_testkit::gguf_writer::GgufWriter;
use tempfile::NamedTempFile;

use super::answers;

/// The copy, in the test cache. Its name holds its digest, so a file of that name is right and is not written again.
pub(super) fn f32_copy(source: &answers::ModelFile) -> answers::ModelFile {
    let bytes = in_f32(&source.path);
    let sha256 = Sha256::of(&bytes).to_string();
    let name = source.path.file_stem().unwrap_or_default().display();
    let prefix = format!("{name}.as-F32-");
    let folder = assets::cache_dir().join("models");
    let path = folder.join(format!("{prefix}{}.gguf", &sha256[..16]));
    if !path.is_file() {
        remove_older(&folder, &prefix);
        let partial = NamedTempFile::new_in(&folder).expect("a file in the test cache");
        fs::write(partial.path(), bytes).expect("written");
        partial.persist(&path).expect("named");
    }
    answers::ModelFile { path, sha256 }
}

fn in_f32(path: &Path) -> Vec<u8> {
    let file = ModelFile::open(path).expect("the real model opens");
    let arch = file.header.architecture().expect("it names its family");
    let mut writer = GgufWriter::new(arch);
    for (key, value) in
        file.header.metadata.iter().filter(|(key, _)| *key != "general.architecture")
    {
        writer = writer.value(key, value.clone());
    }
    for tensor in &file.header.tensors {
        let n_bytes =
            usize::try_from(tensor.bytes().expect("a known type")).expect("fits in memory");
        let mut bytes = vec![0; n_bytes];
        file.read(tensor, 0, &mut bytes).expect("the file is whole");
        let mut values = vec![0.0; usize::try_from(tensor.n_values()).expect("fits in memory")];
        (tensor.quant().expect("a type that loads").dequantize)(&bytes, &mut values);
        writer = writer.f32_tensor(&tensor.name, &tensor.dims, &values);
    }
    writer.to_bytes()
}

/// Copies that were made by other code or of another file take room and are of no use any more.
fn remove_older(folder: &Path, prefix: &str) {
    for entry in fs::read_dir(folder).expect("the test cache").flatten() {
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            fs::remove_file(entry.path()).expect("removed");
        }
    }
}
