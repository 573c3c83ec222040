//! Running all tests: installs what they need, then nextest or plain cargo test. Never skips one.

mod doctests;

use std::path::Path;

use anyhow::Result;

use crate::cargo::{PROFILE, cargo, execute, has_nextest};
use crate::install;

/// Installs what is missing and runs the tests whose names contain one of `filters`, or all.
/// # Errors
/// Something could not be installed, or a test failed.
pub(crate) fn run(root: &Path, filters: &[String]) -> Result<()> {
    install::all()?;
    let arguments: &[&str] = match has_nextest(root)? {
        true => &["nextest", "run", "--workspace", "--cargo-profile", PROFILE],
        false => &["test", "--workspace", "--profile", PROFILE, "--lib", "--bins", "--tests", "--"],
    };
    let tested = execute(cargo(root, arguments)?.args(filters));
    install::warn_of_vanished_models();
    tested?;
    let documented = doctests::crates_with_any(root)?;
    if !filters.is_empty() || documented.is_empty() {
        return Ok(());
    }
    let mut command = cargo(root, &["test", "--doc", "--profile", PROFILE])?;
    for name in &documented {
        command.args(["--package", name]);
    }
    execute(&mut command)
}
