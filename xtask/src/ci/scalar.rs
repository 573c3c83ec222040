//! The tests of kernels and models in a build without any SIMD code, as it is made for a processor that has none of which
//! frank knows.

use std::env;
use std::path::Path;

use anyhow::Result;

use crate::cargo::{PROFILE, cargo, execute, has_nextest, target_dir};

/// Takes all SIMD code out of `frank-kernels`.
const FLAG: &str = "--cfg frank_scalar";

const PACKAGES: [&str; 4] = ["--package", "frank-kernels", "--package", "frank-models"];

/// Parts of the names of tests that are left out, which take minutes in scalar code: those of real models, and those that
/// run whole texts again for each place of blocks and experts. A few tokens of every family are run in chunks here too.
const LEFT_OUT: [&str; 5] =
    ["llama_cpp::", "real_", "windows::", "exactness::chunks", "where_experts_lie"];

/// Builds them and runs them.
pub(super) fn run(root: &Path) -> Result<()> {
    let with_nextest = has_nextest(root)?;
    let runner: &[&str] = if with_nextest {
        &["nextest", "run", "--cargo-profile", PROFILE]
    } else {
        &["test", "--profile", PROFILE, "--lib", "--tests"]
    };
    let mut command = cargo(root, runner)?;
    command.args(PACKAGES);
    if with_nextest {
        let tests = LEFT_OUT.map(|name| format!("not test({name})")).join(" and ");
        command.args(["--filterset", &tests]);
    } else {
        command.arg("--").args(LEFT_OUT.map(|name| ["--skip", name]).as_flattened());
    }
    let flags = env::var("RUSTFLAGS").unwrap_or_default() + " " + FLAG;
    // Other flags mean other output of every crate, which must not push out that of the other lanes.
    command
        .env("RUSTFLAGS", flags.trim_start())
        .env("CARGO_TARGET_DIR", target_dir()?.join("scalar"));
    execute(&mut command)
}
