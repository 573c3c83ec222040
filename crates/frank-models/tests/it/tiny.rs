//! The tiny models of the repository, found by their file names, with what the transformers library says of them.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use frank_hub::ModelFile;
use frank_kernels::KvType;
use frank_models::{ArchError, KvTypes, needs};
use frank_testkit::assets;
use npyz::NpyFile;

/// What lies beside a tiny model.
pub(crate) struct Tiny {
    pub(crate) token_ids: Vec<u32>,
    /// Positions whose logits are there.
    pub(crate) rows: Vec<usize>,
    /// `[rows.len(), n_vocab]`.
    pub(crate) logits: Vec<f32>,
}

impl Tiny {
    pub(crate) fn read(name: &str) -> Self {
        let ids = npy::<i64>(&format!("{name}.ids.npy"));
        let token_ids: Vec<u32> =
            ids.into_iter().map(|id| u32::try_from(id).expect("a token id")).collect();
        let rows_name = format!("{name}.rows.npy");
        let rows = if folder().join(&rows_name).is_file() {
            let rows = npy::<i64>(&rows_name).into_iter();
            rows.map(|row| usize::try_from(row).expect("a position")).collect()
        } else {
            (0..token_ids.len()).collect()
        };
        Self { token_ids, rows, logits: npy(&format!("{name}.logits.npy")) }
    }
}

/// Names of all tiny models, in order.
pub(crate) fn names() -> Vec<String> {
    let entries = folder().read_dir().expect("a folder of the repository");
    let files = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> =
        files.filter_map(|file| file.to_str()?.strip_suffix(".gguf").map(str::to_owned)).collect();
    names.sort();
    names
}

fn folder() -> PathBuf {
    assets::tiny("llama.gguf").parent().expect("a file in a folder").to_path_buf()
}

fn npy<T: npyz::Deserialize>(name: &str) -> Vec<T> {
    let file = BufReader::new(File::open(assets::tiny(name)).expect("a file of the repository"));
    NpyFile::new(file).expect("an npy file").into_vec().expect("values of the stated type")
}

/// Whether the heads of a tiny model are whole blocks of a type.
pub(crate) fn takes(name: &str, kv_type: KvType) -> bool {
    let path = assets::tiny(&format!("{name}.gguf"));
    let header = ModelFile::open(&path).expect("the tiny model opens").header;
    match needs(&header, KvTypes { k: kv_type, v: kv_type }) {
        Ok(_) => true,
        Err(ArchError::KvHead { .. }) => false,
        Err(error) => panic!("{name}: {error}"),
    }
}
