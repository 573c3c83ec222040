//! `docs/coverage.toml`: what must hold, and the test, the work to come or the reason behind it. Never runs a test.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::Breach;
use super::source::{Source, is_word_char};
use super::tree::Tree;

const PATH: &str = "docs/coverage.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Coverage {
    #[serde(default)]
    entry: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// `bug-7` or `bug-D7` for a reported failure of other software, `lesson-7` for what running a fleet teaches.
    id: String,
    /// What must hold, in one line.
    holds: String,
    test: Option<Tests>,
    /// Title of the work that will build it.
    work: Option<String>,
    /// Why it cannot apply.
    never: Option<String>,
}

/// One or several tests, each `path/of/file.rs::function`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Tests {
    One(String),
    Several(Vec<String>),
}

pub(super) fn check(tree: &Tree) -> Vec<Breach> {
    let Some(text) = tree.text(PATH) else {
        return vec![Breach::new(PATH, "the file is missing")];
    };
    let coverage: Coverage = match toml::from_str(text) {
        Ok(coverage) => coverage,
        Err(error) => return vec![Breach::new(PATH, error.to_string())],
    };
    let mut breaches = Vec::new();
    let mut ids = BTreeSet::new();
    for entry in &coverage.entry {
        let mut faults = faults(entry, tree);
        if !ids.insert(&entry.id) {
            faults.push("the id is there twice".to_owned());
        }
        breaches.extend(
            faults.into_iter().map(|what| Breach::new(PATH, format!("{}: {what}", entry.id))),
        );
    }
    if coverage.entry.is_empty() {
        breaches.push(Breach::new(PATH, "it has no entry"));
    }
    breaches
}

fn faults(entry: &Entry, tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    if !is_id(&entry.id) {
        faults.push("an id is bug-N, bug-DN or lesson-N".to_owned());
    }
    if !is_line(&entry.holds) {
        faults.push("`holds` is not one line of text".to_owned());
    }
    let stated = [entry.test.is_some(), entry.work.is_some(), entry.never.is_some()];
    if stated.iter().filter(|stated| **stated).count() != 1 {
        faults.push("it has not exactly one of `test`, `work` and `never`".to_owned());
    }
    for (key, text) in [("work", &entry.work), ("never", &entry.never)] {
        if text.as_ref().is_some_and(|text| !is_line(text)) {
            faults.push(format!("`{key}` is not one line of text"));
        }
    }
    let tests: &[String] = match &entry.test {
        None => return faults,
        Some(Tests::One(test)) => std::slice::from_ref(test),
        Some(Tests::Several(tests)) => tests,
    };
    if tests.is_empty() {
        faults.push("`test` names none".to_owned());
    }
    faults.extend(tests.iter().filter_map(|test| fault_of_test(test, tree)));
    faults
}

fn is_id(id: &str) -> bool {
    let number = id
        .strip_prefix("bug-D")
        .or_else(|| id.strip_prefix("bug-"))
        .or_else(|| id.strip_prefix("lesson-"));
    number.is_some_and(|digits| {
        !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
    })
}

fn is_line(text: &str) -> bool {
    !text.trim().is_empty() && !text.contains('\n')
}

fn fault_of_test(test: &str, tree: &Tree) -> Option<String> {
    let Some((path, function)) = test.split_once("::") else {
        return Some(format!("the test {test} is not `path/of/file.rs::function`"));
    };
    let Some(text) = tree.text(path) else {
        return Some(format!("there is no file {path}"));
    };
    (!has_test(text, function)).then(|| format!("{path} has no test {function}"))
}

/// Whether a source file has a function of this name with a `#[test]` attribute of some kind.
fn has_test(text: &str, function: &str) -> bool {
    let code = Source::parse(text).code;
    let definition = format!("fn {function}");
    code.match_indices(&definition).any(|(at, _)| {
        let ends = !code[at + definition.len()..].starts_with(is_word_char);
        // Attributes stand between the end of what comes before and the function.
        let before = code[..at].rfind(['{', '}', ';']).map_or(0, |end| end + 1);
        let attributes: String = code[before..at].split_whitespace().collect();
        let is_test = ["#[test]", "::test]", "::test("]
            .iter()
            .any(|attribute| attributes.contains(attribute));
        ends && is_test
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::breaches;

    const SOURCE: &str = "//! Tests.\n#[test]\nfn sync_one() {}\n#[tokio::test(flavor = \"x\")]\nasync fn async_one() {}\n\
                          proptest! { #[test] fn prop_one(x in 0..9) {} }\n#[test] // fn commented() {}\n\
                          #[should_panic] fn annotated_one() {}\nfn no_test() {}\n// #[test] fn gone() {}\n";

    fn faults_of(toml: &str) -> Vec<String> {
        breaches(check, &[(PATH, toml), ("crates/a/tests/it/b.rs", SOURCE)])
    }

    /// An entry that is right but for what follows `holds`.
    fn entry(rest: &str) -> String {
        format!("[[entry]]\nid = \"bug-1\"\nholds = \"It holds.\"\n{rest}\n")
    }

    fn check_test(function: &str, n_faults: usize) {
        let found = faults_of(&entry(&format!("test = \"crates/a/tests/it/b.rs::{function}\"")));
        assert_eq!(found.len(), n_faults, "{function}: {found:?}");
    }

    #[test]
    fn each_kind_of_test_is_found() {
        for function in ["sync_one", "async_one", "prop_one", "annotated_one"] {
            check_test(function, 0);
        }
    }

    #[test]
    fn what_is_no_test_is_a_fault() {
        for function in ["no_test", "gone", "commented", "sync", "sync_one_more", "absent", ""] {
            check_test(function, 1);
        }
        assert_eq!(faults_of(&entry("test = \"crates/a/src/gone.rs::x\"")).len(), 1);
        assert_eq!(faults_of(&entry("test = \"sync_one\"")).len(), 1);
    }

    #[test]
    fn several_tests_are_all_looked_for() {
        let both = |second: &str| {
            let path = "crates/a/tests/it/b.rs";
            faults_of(&entry(&format!("test = [\"{path}::sync_one\", \"{path}::{second}\"]"))).len()
        };
        assert_eq!(both("async_one"), 0);
        assert_eq!(both("absent"), 1);
        assert_eq!(faults_of(&entry("test = []")).len(), 1);
    }

    #[test]
    fn exactly_one_of_test_work_and_never_is_said() {
        assert_eq!(faults_of(&entry("work = \"Title\"")), [""; 0]);
        assert_eq!(faults_of(&entry("never = \"Reason\"")), [""; 0]);
        assert_eq!(faults_of(&entry("")).len(), 1);
        assert_eq!(faults_of(&entry("work = \"Title\"\nnever = \"Reason\"")).len(), 1);
        assert_eq!(faults_of(&entry("work = \" \"")).len(), 1);
        assert_eq!(faults_of(&entry("never = \"two\\nlines\"")).len(), 1);
    }

    #[test]
    fn ids_are_well_formed_and_unique() {
        for (id, n_faults) in [
            ("bug-D12", 0),
            ("lesson-140", 0),
            ("bug-", 1),
            ("bug-x", 1),
            ("7", 1),
            ("lesson-D1", 1),
        ] {
            let found = faults_of(&entry("work = \"Title\"").replace("bug-1", id));
            assert_eq!(found.len(), n_faults, "{id}: {found:?}");
        }
        assert_eq!(
            faults_of(&entry("work = \"Title\"").repeat(2)),
            [format!("{PATH}: bug-1: the id is there twice")]
        );
    }

    #[test]
    fn a_file_that_is_missing_empty_or_malformed_is_a_breach() {
        assert_eq!(breaches(check, &[]).len(), 1);
        for toml in ["", "[[entry]]\nid = \"bug-1\"", "entry = 1", "[[entry]\n", "other = 1"] {
            assert_eq!(faults_of(toml).len(), 1, "{toml}");
        }
        assert_eq!(faults_of(&entry("work = \"Title\"\nnote = \"x\"")).len(), 1);
        assert_eq!(faults_of(&entry("work = \"Title\"").replace("It holds.", "")).len(), 1);
    }
}
