//! Running cargo and other programs from the workspace root. Never decides which ones.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// The profile of everything that CI builds.
pub(crate) const PROFILE: &str = "ci";

/// Where builds go: outside the checkout, so that every checkout of a machine shares what it can.
///
/// `$FRANK_TARGET_DIR`, else `$CARGO_TARGET_DIR`, else `frank/target` in the user's cache folder.
pub(crate) fn target_dir() -> Result<PathBuf> {
    let set = |variable| env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(dir) = set("FRANK_TARGET_DIR").or_else(|| set("CARGO_TARGET_DIR")) {
        return Ok(dir);
    }
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    Ok(cache.context("HOME is not set, so build output has no place")?.join("frank/target"))
}

/// `cargo` with these arguments, in the workspace root and with the shared target folder.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root).env("CARGO_TARGET_DIR", target_dir()?);
    // What cargo said about this task's own build must not leak into the builds that it starts.
    for variable in ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "CARGO_PKG_NAME"] {
        command.env_remove(variable);
    }
    Ok(command)
}

/// Whether cargo-nextest is installed.
pub(crate) fn has_nextest(root: &Path) -> Result<bool> {
    Ok(succeeds(&mut cargo(root, &["nextest", "--version"])?))
}

/// Runs a program to its end, with its output shown and no input.
/// # Errors
/// It could not be started, or it failed.
pub(crate) fn execute(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    println!("$ {shown}");
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("run {shown}"))?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

/// Whether a program can be run and ends well; its output is not shown.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// A command line as a person would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}
