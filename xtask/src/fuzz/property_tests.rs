//! Which tests of the workspace are property tests, found in the sources. Never runs one.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::tidy::source::Source;

/// The property tests of a crate.
#[derive(Debug)]
pub(super) struct PropertyTests {
    pub(super) package: String,
    /// Names of functions, without their modules, sorted.
    pub(super) names: Vec<String>,
}

/// The property tests of each crate below `crates/` that has any, sorted by crate.
pub(super) fn of_workspace(root: &Path) -> Result<Vec<PropertyTests>> {
    let folder = root.join("crates");
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        let mut names = Vec::new();
        for part in ["src", "tests"].map(|part| path.join(part)) {
            if part.is_dir() {
                collect(&part, &mut names)?;
            }
        }
        if let (false, Some(package)) = (names.is_empty(), path.file_name()) {
            names.sort();
            found.push(PropertyTests { package: package.to_string_lossy().into_owned(), names });
        }
    }
    found.sort_by(|a, b| a.package.cmp(&b.package));
    Ok(found)
}

/// Adds the names in all sources below a folder.
fn collect(folder: &Path, names: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, names)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path);
            names.extend(in_source(&text.with_context(|| format!("read {}", path.display()))?));
        }
    }
    Ok(())
}

/// The tests inside `proptest! { … }` in a source file.
fn in_source(text: &str) -> Vec<String> {
    let code = Source::parse(text).code;
    let blocks = code.split("proptest!").skip(1).map(block);
    blocks.flat_map(|block| block.split("#[test]").skip(1).filter_map(name)).collect()
}

/// The text up to the brace that closes the first one.
fn block(text: &str) -> &str {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth <= 1 => return &text[..at],
            '}' => depth -= 1,
            _ => {}
        }
    }
    text
}

/// The name of the first function.
fn name(text: &str) -> Option<String> {
    let (name, _) = text.split_once("fn ")?.1.split_once('(')?;
    Some(name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, names: &[&str]) {
        assert_eq!(in_source(text), names, "{text}");
    }

    #[test]
    fn tests_inside_proptest_are_found_and_others_are_not() {
        check("#[test]\nfn plain() {}", &[]);
        check("// proptest! { #[test] fn said() {} }", &[]);
        check(
            "proptest! {\n#[test]\nfn one(x in 0..9) { if x > 1 {} }\n\n/// Two.\n#[test]\nfn two(x: u8) {}\n}\n\
             #[test]\nfn plain() {}\nproptest! {\n#![proptest_config(C { a: 1, ..C })]\n#[test]\n#[cfg(a)]\nfn three() {}\n}",
            &["one", "two", "three"],
        );
    }

    #[test]
    fn braces_in_texts_do_not_end_a_block() {
        check("proptest! { #[test] fn a() { f(\"}}\"); } #[test] fn b() {} }", &["a", "b"]);
    }

    #[test]
    fn this_workspace_has_some() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let found = of_workspace(root).unwrap();
        let gguf = found.iter().find(|tests| tests.package == "frank-gguf").unwrap();
        let expected = "a_damaged_file_is_read_or_refused_within_a_small_multiple_of_its_size";
        assert!(gguf.names.iter().any(|name| name == expected), "{:?}", gguf.names);
    }
}
