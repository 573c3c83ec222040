//! One target of `fuzz/` under libFuzzer, through cargo-fuzz. Never installs it, and never needs a nightly toolchain.
//!
//! cargo-fuzz asks for nightly only because of its sanitizers, which find what `unsafe` code does wrong. The targets
//! have none: it is fenced off into other crates. So they are built without a sanitizer, which stable Rust does, and
//! run about twice as fast. What they find is a panic, a run that hangs, and too much memory.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::cargo::{PROFILE, cargo, execute, succeeds, target_dir};

/// Memory of the fuzzing process at most: the corpus, the coverage counters, and one input at a time.
const RSS_MIB_MAX: u32 = 2048;

/// Seconds that one input may take.
const SECONDS_MAX: u32 = 60;

/// Runs the target `name` for some minutes, from its seeds and what earlier runs found worth keeping.
///
/// # Errors
/// There is no such target, cargo-fuzz is not there, or an input was found on which the target fails.
pub(super) fn run(root: &Path, name: &str, minutes: u32) -> Result<()> {
    let known = targets(root)?;
    if !known.iter().any(|target| target == name) {
        bail!("there is no fuzz target {name}; there are {}", known.join(", "));
    }
    if !succeeds(&mut cargo(root, &["fuzz", "--version"])?) {
        bail!(
            "cargo-fuzz is not installed: `cargo install cargo-fuzz` does it. Building a target also needs a C++ \
             compiler. Without them, `cargo test -p frank-fuzz` runs each target over its seeds"
        );
    }
    let folder = target_dir()?.join("fuzz");
    let (corpus, found) = (folder.join("corpus").join(name), folder.join("found").join(name));
    fs::create_dir_all(&found).with_context(|| format!("make {}", found.display()))?;
    let seeds =
        ["run", "--package", "frank-fuzz", "--profile", PROFILE, "--example", "seeds", "--", name];
    execute(cargo(root, &seeds)?.arg(&corpus))?;
    let mut fuzz = cargo(root, &["fuzz", "run", "--sanitizer", "none", name])?;
    fuzz.arg(&corpus).arg("--");
    fuzz.arg(format!("-max_total_time={}", 60 * u64::from(minutes)));
    fuzz.arg(format!("-rss_limit_mb={RSS_MIB_MAX}"));
    fuzz.arg(format!("-timeout={SECONDS_MAX}"));
    fuzz.arg(format!("-artifact_prefix={}/", found.display()));
    // Its builds have other flags, and must not push out those of the other tasks.
    fuzz.env("CARGO_TARGET_DIR", folder.join("target"));
    execute(&mut fuzz).with_context(|| {
        let replay = format!("cargo run -p frank-fuzz --bin {name} -- FILE");
        format!(
            "inputs on which it fails are kept in {}; see one again with `{replay}`",
            found.display()
        )
    })
}

/// Names of all targets, sorted.
fn targets(root: &Path) -> Result<Vec<String>> {
    let folder = root.join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry?.path();
        names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_targets_are_those_of_the_folder() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        assert_eq!(targets(root).unwrap(), ["chat_template", "gguf_header", "tokenizer"]);
    }

    #[test]
    fn a_target_that_does_not_exist_is_refused_with_those_that_do() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let error = run(root, "gguf", 1).unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no fuzz target gguf; there are chat_template, gguf_header, tokenizer"
        );
    }
}
