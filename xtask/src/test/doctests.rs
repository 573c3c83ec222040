//! Which crates have doctests: building them costs time for each crate, and most have none. Never runs one.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

/// The crates below `crates/` with at least one doctest, sorted.
pub(super) fn crates_with_any(root: &Path) -> Result<Vec<String>> {
    let mut crates = Vec::new();
    let folder = root.join("crates");
    for entry in fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        if has_any(&path.join("src"))? {
            crates.extend(path.file_name().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    crates.sort();
    Ok(crates)
}

fn has_any(folder: &Path) -> Result<bool> {
    for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        let found = if path.is_dir() {
            has_any(&path)?
        } else {
            path.extension().is_some_and(|extension| extension == "rs")
                && holds_doctest(&fs::read_to_string(&path)?)
        };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a source file has a code block in its docs that rustdoc compiles.
fn holds_doctest(text: &str) -> bool {
    let docs = text.lines().map(str::trim_start).filter_map(|line| {
        line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim)
    });
    let fences = docs.filter_map(|line| line.strip_prefix("```"));
    // Every second fence closes a block.
    fences.step_by(2).any(|language| {
        language.split(',').all(|word| {
            matches!(
                word.trim(),
                "" | "rust" | "no_run" | "should_panic" | "compile_fail" | "edition2024"
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_blocks_that_rustdoc_compiles_count() {
        for (text, expected) in [
            ("/// A.\n/// ```\n/// a();\n/// ```\nfn a() {}", true),
            ("//! ```no_run\n//! a();\n//! ```", true),
            ("    /// ```rust,should_panic\n    /// a();\n    /// ```", true),
            ("/// ```text\n/// a\n/// ```\n/// and more", false),
            ("/// ```ignore\n/// a();\n/// ```", false),
            ("// ```\n// a();\n// ```", false),
            ("fn a() {}", false),
        ] {
            assert_eq!(holds_doctest(text), expected, "{text}");
        }
    }
}
