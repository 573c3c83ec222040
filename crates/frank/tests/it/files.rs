//! Model files for tests, in a temporary folder.

use std::fs::File;
use std::path::{Path, PathBuf};

use frank_gguf::Value;
use frank_hub::ModelFile;
use frank_testkit::assets;
use frank_testkit::gguf_writer::GgufWriter;
use tempfile::TempDir;

/// A temporary folder with files in it.
pub(crate) struct Folder {
    dir: TempDir,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary folder") }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, bytes).expect("a new file");
        path
    }

    pub(crate) fn gguf(&self, name: &str, writer: &GgufWriter) -> PathBuf {
        self.file(name, writer.to_bytes())
    }

    /// The tiny llama model, cut off after `bytes`.
    pub(crate) fn cut_llama(&self, bytes: usize) -> PathBuf {
        let whole = std::fs::read(llama()).expect("the tiny model");
        self.file("cut.gguf", &whole[..bytes])
    }

    /// The tiny llama model with a key set.
    pub(crate) fn llama_with(&self, key: &str, value: impl Into<Value>) -> PathBuf {
        self.gguf("llama.gguf", &llama_writer().value(key, value))
    }

    /// A header of a model of many gigabytes whose data is a hole.
    pub(crate) fn sparse(&self, writer: &GgufWriter, bytes: u64) -> PathBuf {
        let path = self.file("sparse.gguf", writer.header_bytes());
        File::options()
            .write(true)
            .open(&path)
            .expect("that file")
            .set_len(bytes)
            .expect("room for a hole");
        path
    }
}

/// A path as an argument.
pub(crate) fn str(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// The tiny llama model.
pub(crate) fn llama() -> PathBuf {
    assets::tiny("llama.gguf")
}

/// The tiny llama model, to be changed.
pub(crate) fn llama_writer() -> GgufWriter {
    let file = ModelFile::open(&llama()).expect("the tiny model");
    let mut writer = GgufWriter::new("llama");
    for (key, value) in file.header.metadata.iter() {
        writer = writer.value(key, value.clone());
    }
    for tensor in &file.header.tensors {
        let mut bytes = vec![0; tensor.bytes().expect("a known type") as usize];
        file.read(tensor, 0, &mut bytes).expect("a whole file");
        writer = writer.tensor(&tensor.name, &tensor.dims, tensor.type_id, bytes);
    }
    writer
}

/// The keys that every llama model has, for a model of `layers` layers.
pub(crate) fn llama_keys(arch: &str, layers: u32) -> GgufWriter {
    GgufWriter::new(arch)
        .value(&format!("{arch}.block_count"), layers)
        .value(&format!("{arch}.context_length"), 8192u32)
        .value(&format!("{arch}.embedding_length"), 64u32)
        .value(&format!("{arch}.feed_forward_length"), 128u32)
        .value(&format!("{arch}.attention.head_count"), 4u32)
        .value(&format!("{arch}.attention.head_count_kv"), 2u32)
}
