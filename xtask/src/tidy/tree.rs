//! The text files of a checkout, held in memory so that checks are pure. Never holds build output.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context as _, Result};

/// Folders that are no part of the checkout.
const LEFT_OUT: &[&str] = &[".git", "target"];

/// Texts by their paths from the root, with `/` between components.
pub(super) struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads every text file below `root`. Files that are not UTF-8 are test data and left out.
    pub(super) fn read(root: &Path) -> Result<Tree> {
        let mut tree = Tree { files: BTreeMap::new() };
        tree.add_folder(root, "")?;
        Ok(tree)
    }

    fn add_folder(&mut self, folder: &Path, prefix: &str) -> Result<()> {
        let failed = || format!("read {}", folder.display());
        for entry in fs::read_dir(folder).with_context(failed)? {
            let entry = entry.with_context(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let (path, inside) = (entry.path(), format!("{prefix}{name}"));
            if entry.file_type().with_context(failed)?.is_dir() {
                if !LEFT_OUT.contains(&name.as_str()) {
                    self.add_folder(&path, &format!("{inside}/"))?;
                }
                continue;
            }
            match fs::read_to_string(&path) {
                Ok(text) => drop(self.files.insert(inside, text)),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("read {}", path.display()));
                }
            }
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Tree {
        let own = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        Tree { files: files.iter().map(own).collect() }
    }

    /// All files as (path, text), sorted by path.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The Rust sources as (path, text).
    pub(super) fn sources(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(|(path, _)| path.ends_with(".rs"))
    }

    /// The text of one file.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }
}

/// The crate that a path lies in: `frank-os` of `crates/frank-os/src/lib.rs`, `xtask` of what lies below that.
pub(super) fn crate_of(path: &str) -> Option<&str> {
    match path.split_once('/')? {
        ("crates", rest) => Some(rest.split_once('/')?.0),
        ("xtask", _) => Some("xtask"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_holds_texts_and_leaves_out_build_output_and_binary_files() {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["crates/a/src", "target/ci", ".git", ".ci"] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        for file in ["crates/a/src/lib.rs", "target/ci/x.rs", ".git/config", ".ci/run"] {
            fs::write(dir.path().join(file), file).unwrap();
        }
        fs::write(dir.path().join("crates/a/data.bin"), b"\xff\xfe").unwrap();
        let tree = Tree::read(dir.path()).unwrap();
        let paths: Vec<&str> = tree.files().map(|(path, _)| path).collect();
        assert_eq!(paths, [".ci/run", "crates/a/src/lib.rs"]);
        assert_eq!(tree.text(".ci/run"), Some(".ci/run"));
        assert_eq!(tree.sources().count(), 1);
    }

    #[test]
    fn crates_of_paths() {
        for (path, expected) in [
            ("crates/frank-os/src/lib.rs", Some("frank-os")),
            ("crates/README.md", None),
            ("xtask/src/main.rs", Some("xtask")),
            ("README.md", None),
            ("docs/a/b.md", None),
        ] {
            assert_eq!(crate_of(path), expected, "{path}");
        }
    }
}
