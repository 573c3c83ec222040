//! Mixtures of experts that are too large for the repository: one that tests use where it is, one that they make.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use super::{cache_dir, non_empty, say_skipped, smollm2};
use crate::synthetic_moe::{SyntheticMoe, SyntheticQuant};

/// SHA-256 of [`smol_moe`]'s file.
pub const SMOL_MOE_SHA256: &str =
    "20b07c5763177e8add175a60a1a472e782ee1af715479a3180ff72cf90a389cb";
/// Size of [`smol_moe`]'s file in bytes.
const SMOL_MOE_BYTES: u64 = 106_660_640;

/// SmolLM2-135M-MoE-24x12: a small real mixture of experts, split and distilled from SmolLM2-135M-Instruct; `llama`
/// architecture, 24 experts of which 12 are used, Q5_0 and Q5_1.
///
/// No package has it and nothing installs it: it is `$FRANK_SMOL_MOE`, else `models/smol-moe.gguf` in the test cache.
/// `None`, after saying so, when neither is there: a test that needs it has nothing to test then.
/// # Panics
/// When the file is another one.
pub fn smol_moe() -> Option<PathBuf> {
    let kept = || cache_dir().join("models/smol-moe.gguf");
    let path = non_empty("FRANK_SMOL_MOE").unwrap_or_else(kept);
    let Ok(facts) = path.metadata() else {
        say_skipped(&format!("no {} (or $FRANK_SMOL_MOE)", path.display()));
        return None;
    };
    assert_eq!(facts.len(), SMOL_MOE_BYTES, "{} is another file", path.display());
    Some(path)
}

/// Bytes of [`large_moe`]'s file, to a hundredth.
pub const LARGE_MOE_BYTES: u64 = 8_575_000_000;
/// Bytes of [`skewed_moe`]'s file, to a hundredth.
pub const SKEWED_MOE_BYTES: u64 = 3_090_000_000;

/// A file of 8.6 GB with experts of random weights, 24 layers of the shape of Qwen3-30B-A3B, all experts wanted alike: for
/// measurements only. Whoever wants it first makes it in the test cache, in minutes.
/// # Panics
/// When SmolLM2, whose tokenizer it has, was not installed yet, saying how; when it cannot be written.
pub fn large_moe() -> PathBuf {
    made(&large(), large_moe_path())
}

/// Where [`large_moe`] is, whether or not it is there.
pub fn large_moe_path() -> PathBuf {
    path(&large(), "")
}

/// A file of 3.1 GB with experts of random weights, 8 layers of the shape of Qwen3-30B-A3B, some experts wanted much more than
/// others: for measurements only. Whoever wants it first makes it in the test cache.
/// # Panics
/// As [`large_moe`].
pub fn skewed_moe() -> PathBuf {
    made(&skewed(), skewed_moe_path())
}

/// Where [`skewed_moe`] is, whether or not it is there.
pub fn skewed_moe_path() -> PathBuf {
    path(&skewed(), "-skewed")
}

fn large() -> SyntheticMoe {
    SyntheticMoe { layers: 24, ..SyntheticMoe::default() }
}

fn skewed() -> SyntheticMoe {
    SyntheticMoe { layers: 8, skew: 1.0, seed: 2, ..SyntheticMoe::default() }
}

/// A file of about 1 GB with experts of random weights: 16 layers of 64 experts, of which 4 are used, 864 KiB each.
///
/// The first test that wants it makes it in the test cache, in some seconds.
/// # Panics
/// When SmolLM2, whose tokenizer it has, was not installed yet, saying how; when it cannot be written.
pub fn synthetic_moe() -> PathBuf {
    let moe = SyntheticMoe {
        layers: 16,
        hidden: 1024,
        experts: 64,
        top: 4,
        ff: 512,
        heads: 16,
        kv_heads: 4,
        head_dim: 64,
        quant: SyntheticQuant::Q4K,
        seed: 1,
        skew: 0.5,
        ..SyntheticMoe::default()
    };
    made(&moe, path(&moe, ""))
}

/// `mark` tells files of one shape apart.
fn path(moe: &SyntheticMoe, mark: &str) -> PathBuf {
    cache_dir().join(format!("models/{}{mark}.{}.gguf", moe.name(), SyntheticMoe::VERSION))
}

/// The file at `path`, made where it is not there.
fn made(moe: &SyntheticMoe, path: PathBuf) -> PathBuf {
    if !path.is_file() {
        make(moe, &path);
    }
    path
}

/// Writes the file beside `path` first, so that it appears whole or not at all; it may be made by two tests at once.
fn make(moe: &SyntheticMoe, path: &Path) {
    let partial = path.with_extension(format!("{}.part", process::id()));
    moe.write(&smollm2(), &partial).expect("a new file in the test cache");
    fs::rename(partial, path).expect("a name in the test cache");
}
