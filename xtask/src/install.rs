//! Installing what the tests need, outside the checkout. Does nothing where everything is there.

mod kubernetes;
mod llama_cpp_data;
pub(crate) mod llama_cpp_native;
mod models;
mod node;
mod python;
mod schemathesis;
mod source_package;
mod unit_checkers;

use std::path::Path;
use std::process::Command;
use std::{fs, io};

use anyhow::{Context as _, Result};
use frank_testkit::assets::REAL_MODELS;

use crate::cargo::succeeds;

/// Installs everything that `frank_testkit::assets` points tests to.
///
/// A real model that is gone from the package registry is no error: a warning says so, and the tests that want it skip.
/// # Errors
/// Something is missing and cannot be installed; the error says what a person can do.
pub(crate) fn all() -> Result<()> {
    python::install()?;
    node::install()?;
    llama_cpp_data::install()?;
    unit_checkers::install()?;
    kubernetes::install()?;
    schemathesis::install()?;
    REAL_MODELS.iter().try_for_each(models::install)
}

/// Makes sure that there is an `aria2c`.
///
/// # Errors
/// There is none, and it cannot be installed.
pub(crate) fn aria2c() -> Result<()> {
    let is_there = succeeds(Command::new("aria2c").arg("--version"));
    if is_there { Ok(()) } else { python::install_system_package("aria2") }
}

/// Says which real models could not be installed, so that nobody takes a skipped test for one that passed.
pub(crate) fn warn_of_vanished_models() {
    for model in REAL_MODELS {
        if let Some(reason) = model.vanished() {
            eprintln!("warning: tests that want {} were skipped: {reason}", model.name);
        }
    }
}

/// Removes a folder with all that is in it, where it is.
fn remove_folder(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}
