//! The schemas of a corpus: one folder for each set, one file for each schema.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::Value;

/// A schema of the corpus.
#[derive(Debug)]
pub(crate) struct Schema {
    /// The folder that it is in.
    pub(crate) set: String,
    /// The name of its file.
    pub(crate) name: String,
    pub(crate) value: Value,
}

/// Draws `count` schemas, the same number of each set while it has any. Files that are no JSON are passed over.
/// # Errors
/// A folder cannot be read.
pub(crate) fn draw(dir: &Path, count: usize, seed: u64) -> Result<Vec<Schema>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut sets = Vec::new();
    for set in entries(dir)?.into_iter().filter(|path| path.is_dir()) {
        let mut files = entries(&set)?;
        files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        files.shuffle(&mut rng);
        sets.push((name(&set), files));
    }
    let mut schemas = Vec::new();
    while schemas.len() < count && sets.iter().any(|(_, files)| !files.is_empty()) {
        for (set, files) in &mut sets {
            let Some(path) = files.pop().filter(|_| schemas.len() < count) else { continue };
            let text = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
            if let Ok(value) = serde_json::from_slice(&text) {
                schemas.push(Schema { set: set.clone(), name: name(&path), value });
            }
        }
    }
    Ok(schemas)
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    let read = fs::read_dir(dir).with_context(|| format!("read {}", dir.display()))?;
    let mut paths = Vec::new();
    for entry in read {
        paths.push(entry.with_context(|| format!("read {}", dir.display()))?.path());
    }
    paths.sort();
    Ok(paths)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
