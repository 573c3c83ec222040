//! An engine's own bench program with the memory of its process capped or not, on a file that no page cache holds.

use std::path::Path;

use anyhow::Result;
use frank_os::DataFile;

use super::super::engines::Engine;
use super::super::in_process::{self, Rates, Test};
use crate::memory_group::MemoryGroup;

/// Tokens a second of a test.
///
/// With a cap the process and the pages that it reads are held to so many bytes by a control group, and frank is told the
/// same as its budget.
/// # Errors
/// The program fails or does not say, or no group can be made.
pub(super) fn measure(
    engine: &Engine,
    model: &Path,
    cap: Option<u64>,
    options: &[&str],
    test: Test,
) -> Result<Rates> {
    let mut command = in_process::command(engine, model, test);
    command.args(options);
    forget(model)?;
    let group = cap.map(MemoryGroup::create).transpose()?;
    if let Some((group, cap)) = group.as_ref().zip(cap) {
        if matches!(engine, Engine::Frank(_)) {
            command.args(["--memory-budget", &cap.to_string()]);
        }
        command = group.enter(&command);
    }
    in_process::run(engine, command, test)
}

/// Drops a file from the page cache.
pub(super) fn forget(model: &Path) -> Result<()> {
    let file = DataFile::open(model)?;
    file.forget_cached(0, file.len());
    Ok(())
}
