//! `--cache-dir`: opens the folder of cached prefixes for one model, and says which prefixes belong to it. Never reads
//! or writes one.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::Context;
use frank_engine::{DiskCache, DiskCacheError};
use frank_hub::ModelFile;
use frank_models::KvTypes;
use frank_plan::KV_BLOCK_TOKENS;
use sha2::{Digest, Sha256};

use crate::report::{Code, Failure};

/// Counts the ways in which cached prefixes were laid out and named.
const LAYOUT_VERSION: u32 = 1;

/// Bytes of a tensor that stand for the whole, from its start and from its end. A tensor of another model that has the
/// same name, shape and type differs there too, unless somebody means to deceive himself.
const SAMPLE_BYTES: u64 = 1024;

/// Opens `directory` for prefixes of `model`, whose keys and values are kept as `kv_types` and whose experts are chosen
/// with `router_bias`; files in it may take `budget_bytes`.
///
/// # Errors
/// Exit code 2 when the directory is none that can be used, 1 when the system fails or another process uses it.
pub(crate) fn open(
    directory: &Path,
    budget_bytes: u64,
    model: &ModelFile,
    kv_types: KvTypes,
    router_bias: Option<&[f32]>,
) -> anyhow::Result<DiskCache> {
    let fingerprint = fingerprint(model, kv_types, router_bias)?;
    DiskCache::open(directory, budget_bytes, fingerprint).map_err(failure)
}

fn failure(error: DiskCacheError) -> anyhow::Error {
    let (code, hint) = match &error {
        DiskCacheError::NotADirectory { .. } => (Code::Usage, None),
        DiskCacheError::NotACache { .. } => {
            (Code::Usage, Some("name a folder that is empty or new"))
        }
        DiskCacheError::WritableByOthers { .. } => {
            (Code::Usage, Some("empty it and `chmod 700` it, or name another folder"))
        }
        DiskCacheError::NotOwner { .. } => (Code::Usage, Some("name a folder of your own")),
        DiskCacheError::InUse { .. } => {
            (Code::Failed, Some("give each process a --cache-dir of its own"))
        }
        DiskCacheError::Io { .. } => (Code::Failed, None),
    };
    let failure = Failure::new(code, format!("--cache-dir: {error}"));
    let failure = hint.into_iter().fold(failure, Failure::hint);
    anyhow::Error::new(error).context(failure)
}

/// Stands for all that the bytes of a cached prefix depend on beside its tokens: the weights, how keys and values are
/// kept, how experts are chosen, and the program. It is the same on every machine, since all instruction sets compute
/// the same bits.
fn fingerprint(
    model: &ModelFile,
    kv_types: KvTypes,
    router_bias: Option<&[f32]>,
) -> anyhow::Result<[u8; 32]> {
    let mut hash = Sha256::new();
    hash.update(LAYOUT_VERSION.to_le_bytes());
    hash.update(KV_BLOCK_TOKENS.to_le_bytes());
    hash.update(format!(
        "{kv_types:?}\n{}\n{}\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH
    ));
    hash.update(router_bias.map_or(0, |biases| biases.len() as u64).to_le_bytes());
    for bias in router_bias.unwrap_or_default() {
        hash.update(bias.to_le_bytes());
    }
    add_program(&mut hash)?;
    for (path, part) in model.paths().iter().zip(&model.header.parts) {
        hash.update(part.file_bytes.to_le_bytes());
        add_file(&mut hash, path, part.data_start)
            .with_context(|| format!("cannot read {}", path.display()))?;
    }
    for (index, tensor) in model.header.tensors.iter().enumerate() {
        let n_bytes = model.header.stored_bytes(index);
        let sample_bytes = n_bytes.min(SAMPLE_BYTES);
        let mut sample = vec![0; sample_bytes as usize];
        for offset in [0, n_bytes - sample_bytes] {
            model.read(tensor, offset, &mut sample)?;
            hash.update(&sample);
        }
    }
    Ok(hash.finalize().into())
}

/// Two builds of one version may order their sums differently, so the program itself is part of it.
fn add_program(hash: &mut Sha256) -> anyhow::Result<()> {
    let path = std::env::current_exe().context("the program does not know its own file")?;
    add_file(hash, &path, u64::MAX).with_context(|| format!("cannot read {}", path.display()))
}

/// Adds the first `n_bytes` of a file, or all of it.
fn add_file(hash: &mut Sha256, path: &Path, n_bytes: u64) -> std::io::Result<()> {
    let mut reader = File::open(path)?.take(n_bytes);
    let mut chunk = vec![0; 64 << 10];
    loop {
        match reader.read(&mut chunk)? {
            0 => return Ok(()),
            n => hash.update(&chunk[..n]),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use frank_gguf::type_id;
    use frank_kernels::KvType;
    use frank_testkit::assets;
    use frank_testkit::gguf_writer::GgufWriter;
    use tempfile::TempDir;

    use super::*;

    const F16: KvTypes = KvTypes { k: KvType::F16, v: KvType::F16 };

    /// The fingerprint of a model with one tensor of `values`, and a key.
    fn of(values: &[f32], key: &str, kv_types: KvTypes) -> [u8; 32] {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let writer = GgufWriter::new("llama").value("general.name", key).tensor(
            "blk.0.attn_q.weight",
            &[values.len() as u64],
            type_id::F32,
            bytes,
        );
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("model.gguf");
        std::fs::write(&path, writer.to_bytes()).unwrap();
        fingerprint(&ModelFile::open(&path).unwrap(), kv_types, None).unwrap()
    }

    #[test]
    fn a_router_bias_changes_a_fingerprint() {
        let model = ModelFile::open(&assets::tiny("olmoe.gguf")).unwrap();
        let of = |router_bias| fingerprint(&model, F16, router_bias).unwrap();
        assert_eq!(of(Some(&[0.5; 24][..])), of(Some(&[0.5; 24])));
        assert_ne!(of(None), of(Some(&[0.0; 24])));
        assert_ne!(of(Some(&[0.0; 24])), of(Some(&[0.5; 24])));
    }

    #[test]
    fn a_fingerprint_is_of_the_content_and_not_of_the_place() {
        let values = vec![1.0; 4096];
        assert_eq!(of(&values, "a", F16), of(&values, "a", F16));
    }

    #[test]
    fn weights_metadata_and_kv_types_change_a_fingerprint() {
        let mut values = vec![1.0; 4096];
        let one = of(&values, "a", F16);
        assert_ne!(one, of(&values, "b", F16));
        let pairs = KvType::ALL.into_iter().flat_map(|k| KvType::ALL.map(|v| KvTypes { k, v }));
        let all: HashSet<_> = pairs.map(|types| of(&values, "a", types)).collect();
        assert_eq!(all.len(), KvType::ALL.len().pow(2), "one for each pair of types");
        values[7] = 1.5;
        assert_ne!(one, of(&values, "a", F16));
        values[7] = 1.0;
        values[4095] = 1.5;
        assert_ne!(one, of(&values, "a", F16));
        assert_ne!(one, of(&values[1..], "a", F16));
    }

    #[test]
    fn what_cannot_be_a_cache_folder_is_said_with_its_exit_code() {
        let model = ModelFile::open(&assets::tiny("llama.gguf")).unwrap();
        let dir = TempDir::new().unwrap();
        std::fs::write(dir.path().join("notes"), "mine").unwrap();
        let check = |path: &Path, fact: &str| {
            let error = open(path, 1 << 30, &model, F16, None).unwrap_err();
            assert!(error.to_string().contains(fact), "{error:#}");
        };
        check(&dir.path().join("notes"), "is not a directory");
        check(dir.path(), "it holds \"notes\"");
        let place = dir.path().join("new");
        let _first = open(&place, 1 << 30, &model, F16, None).unwrap();
        check(&place, "in use by another process");
    }
}
