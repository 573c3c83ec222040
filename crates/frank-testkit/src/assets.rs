//! Where tests find what `cargo xtask test` installed: the Python oracle and the real model. Never downloads.

use std::env;
use std::path::{Path, PathBuf};

/// File name of the one real model that tests may depend on.
pub const SMOLLM2_FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
/// Size of [`SMOLLM2_FILE`] in bytes.
pub const SMOLLM2_BYTES: u64 = 98_362_432;
/// SHA-256 of [`SMOLLM2_FILE`].
pub const SMOLLM2_SHA256: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";

/// The folder outside the checkout that holds everything the tests need.
///
/// `$FRANK_TEST_CACHE`, else `$XDG_CACHE_HOME/frank/test`, else `~/.cache/frank/test`. It may not exist yet.
/// # Panics
/// When none of the three variables is set.
pub fn cache_dir() -> PathBuf {
    if let Some(dir) = non_empty("FRANK_TEST_CACHE") {
        return dir;
    }
    let cache = non_empty("XDG_CACHE_HOME").or_else(|| Some(non_empty("HOME")?.join(".cache")));
    cache.expect("HOME is set, so that the test cache has a place").join("frank/test")
}

/// Where the Python interpreter of the test environment belongs, whether or not it is there.
pub fn python_path() -> PathBuf {
    cache_dir().join("venv/bin/python")
}

/// The Python interpreter that can import `xllamacpp`, `openai` and `numpy`.
/// # Panics
/// When it was not installed yet, saying how to install it.
pub fn python() -> PathBuf {
    installed(python_path(), "a Python environment with xllamacpp, openai and numpy")
}

/// Where [`SMOLLM2_FILE`] belongs, whether or not it is there.
pub fn smollm2_path() -> PathBuf {
    cache_dir().join("models").join(SMOLLM2_FILE)
}

/// The real model: SmolLM2-135M-Instruct, Q4_1, `llama` architecture, ChatML template.
/// # Panics
/// When it was not installed yet, saying how to install it.
pub fn smollm2() -> PathBuf {
    installed(smollm2_path(), "the model SmolLM2-135M-Instruct")
}

/// A file of the tiny seeded models that lie in this repository, for example `tiny("llama.gguf")`.
/// # Panics
/// When there is no file of that name.
pub fn tiny(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/tiny").join(name);
    assert!(path.is_file(), "no tiny model file {}", path.display());
    path
}

fn installed(path: PathBuf, what: &str) -> PathBuf {
    assert!(
        path.is_file(),
        "{} is missing: run `cargo xtask test` once: it installs {what}",
        path.display()
    );
    path
}

fn non_empty(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}
