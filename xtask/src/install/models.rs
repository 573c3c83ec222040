//! The real models of the tests, fetched the way users fetch them. Never fetched twice.

use std::cell::Cell;
use std::fs;

use anyhow::{Context as _, Result};
use frank_hub::{Expected, Progress, Reference, Stage, Store};
use frank_testkit::assets::{RealModel, SMOLLM2, cache_dir};

/// Progress is printed once for so many bytes.
const REPORT_BYTES: u64 = 32 << 20;

/// Makes sure that [`RealModel::path`] is the model, or that [`RealModel::vanished`] says why it cannot be.
pub(crate) fn install(model: &RealModel) -> Result<()> {
    if fs::metadata(model.path()).is_ok_and(|metadata| metadata.len() == model.bytes) {
        return Ok(());
    }
    let store = Store::at(cache_dir().join("store/models"));
    bring(model, &store)
}

fn bring(model: &RealModel, store: &Store) -> Result<()> {
    let reference: Reference = model.reference.parse()?;
    let expected = Expected { bytes: Some(model.bytes), sha256: Some(model.sha256.parse()?) };
    let (target, vanished) = (model.path(), model.vanished_path());
    println!("install {} from {reference}", target.display());
    let folder = target.parent().context("the model lies in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    let fetched = match store.fetch(&reference, &expected, &report()) {
        Ok(fetched) => fetched,
        Err(error) if error.is_gone() && model.file != SMOLLM2.file => {
            eprintln!("warning: {} cannot be installed: {error}", model.name);
            return fs::write(&vanished, format!("{error}\n"))
                .with_context(|| format!("write {}", vanished.display()));
        }
        Err(error) => return Err(error).with_context(|| format!("install {}", model.name)),
    };
    // A link and a rename: tests never see half a file, and no second copy is made.
    let link = target.with_extension("new");
    if link.exists() {
        fs::remove_file(&link).with_context(|| format!("remove {}", link.display()))?;
    }
    fs::hard_link(&fetched, &link).with_context(|| format!("link {}", fetched.display()))?;
    fs::rename(&link, &target).with_context(|| format!("rename {}", link.display()))?;
    if vanished.exists() {
        fs::remove_file(&vanished).with_context(|| format!("remove {}", vanished.display()))?;
    }
    Ok(())
}

/// Prints a line now and then.
fn report() -> impl Fn(Progress) {
    let printed = Cell::new(0);
    move |progress: Progress| {
        let due = printed.get() + REPORT_BYTES;
        if progress.stage == Stage::Download && progress.bytes >= due {
            printed.set(progress.bytes);
            println!("  {} MiB", progress.bytes >> 20);
        }
    }
}
