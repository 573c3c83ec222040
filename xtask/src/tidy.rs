//! Rules that neither the compiler nor clippy knows, checked on the files of the checkout. Never changes one.

mod coverage;
mod fences;
mod manifest;
mod names;
mod order;
pub(crate) mod source;
mod tree;

use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};

use tree::Tree;

/// A place that breaks a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Breach {
    path: String,
    what: String,
}

impl Breach {
    fn new(path: &str, what: impl Into<String>) -> Breach {
        Breach { path: path.to_owned(), what: what.into() }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.path, self.what)
    }
}

/// All checks. Each one takes the files and returns what it finds wrong.
const CHECKS: &[fn(&Tree) -> Vec<Breach>] =
    &[fences::check, order::check, names::check, coverage::check];

/// Runs all checks and prints every breach.
/// # Errors
/// There was a breach, or the files could not be read.
pub(crate) fn run(root: &Path) -> Result<()> {
    let tree = Tree::read(root)?;
    let mut breaches: Vec<Breach> = CHECKS.iter().flat_map(|check| check(&tree)).collect();
    breaches.sort();
    breaches.iter().for_each(|breach| eprintln!("{breach}"));
    if !breaches.is_empty() {
        bail!("{} rules of this workspace are broken", breaches.len());
    }
    println!("{} files are tidy", tree.files().count());
    Ok(())
}

/// For the tests of the checks: the breaches in a tree of these files, as text.
#[cfg(test)]
fn breaches(check: fn(&Tree) -> Vec<Breach>, files: &[(&str, &str)]) -> Vec<String> {
    check(&Tree::of(files)).iter().map(Breach::to_string).collect()
}
