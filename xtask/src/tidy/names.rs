//! Rules about files and names: what each file says first, what it may be called, what it may mention.

use super::Breach;
use super::source::Source;
use super::tree::Tree;

/// Names that say nothing about what they name.
const VACUOUS: &[&str] = &["util", "utils", "helper", "helpers", "common", "manager", "misc"];
/// Keywords that are followed by the name of what they define.
const DEFINES: &[&str] = &["mod", "struct", "enum", "trait", "type", "union"];
/// Hosts of package registries as (name, domain): how packages are reached is each machine's own affair. They are in
/// two parts so that this file does not name one.
const REGISTRIES: &[(&str, &str)] = &[
    ("crates", "io"),
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("npmjs", "org"),
    ("npmjs", "com"),
    ("deb.debian", "org"),
    ("proxy.golang", "org"),
];
/// A path that exists on no user's machine, in two parts for the same reason.
const OUTSIDE: (&str, &str) = ("..", "shared");
/// Written by cargo, which names the registry of each package.
const CARGO_LOCK: &str = "Cargo.lock";

pub(super) fn check(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (path, text) in tree.sources() {
        breaches.extend(check_source(path, text));
    }
    for (path, text) in tree.files().filter(|(path, _)| *path != CARGO_LOCK) {
        breaches.extend(check_mentions(path, text));
    }
    breaches
}

fn check_source(path: &str, text: &str) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let mut breach = |what: String| breaches.push(Breach::new(path, what));
    let first = text.lines().next().unwrap_or_default();
    if first.strip_prefix("//! ").is_none_or(|says| says.trim().is_empty()) {
        breach("the first line does not say what the file holds (`//! …`)".to_owned());
    }
    let file_name = path.rsplit('/').next().unwrap_or(path);
    if file_name == "mod.rs" {
        breach("a module `foo` lies in `foo.rs` and `foo/`, never in `mod.rs`".to_owned());
    }
    let stem = file_name.trim_end_matches(".rs");
    let source = Source::parse(text);
    let words: Vec<&str> = source.words().collect();
    let defined = words.windows(2).filter(|pair| DEFINES.contains(&pair[0])).map(|pair| pair[1]);
    for name in std::iter::once(stem).chain(defined).filter(|name| is_vacuous(name)) {
        breach(format!("`{name}` does not say what it names"));
    }
    breaches
}

/// Whether the last word of a name, in snake or camel case, is one of [`VACUOUS`].
fn is_vacuous(name: &str) -> bool {
    let start = name.rfind(|c: char| c == '_' || c.is_uppercase()).unwrap_or(0);
    let last = name[start..].trim_start_matches('_').to_lowercase();
    VACUOUS.contains(&last.as_str())
}

fn check_mentions(path: &str, text: &str) -> Vec<Breach> {
    let hosts = REGISTRIES.iter().map(|(name, domain)| format!("{name}.{domain}"));
    let mut found: Vec<Breach> = hosts
        .filter(|host| text.contains(host))
        .map(|host| Breach::new(path, format!("names the registry host {host}")))
        .collect();
    let outside = format!("{}/{}", OUTSIDE.0, OUTSIDE.1);
    if text.contains(&outside) {
        found.push(Breach::new(
            path,
            format!("mentions {outside}, which is no part of this repository"),
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::breaches;

    fn check_file(path: &str, text: &str, n_breaches: usize) {
        let found = breaches(check, &[(path, text)]);
        assert_eq!(found.len(), n_breaches, "{path}: {text}: {found:?}");
    }

    #[test]
    fn each_source_says_first_what_it_holds() {
        check_file("crates/a/src/b.rs", "//! What it holds.\n", 0);
        for text in ["", "//!\n", "//! \n", "\n//! Late.", "#![no_std]\n//! Late.", "// No doc."] {
            check_file("crates/a/src/b.rs", text, 1);
        }
        check_file("README.md", "no doc line", 0);
    }

    #[test]
    fn modules_do_not_lie_in_mod_rs() {
        check_file("crates/a/src/b/mod.rs", "//! A.\n", 1);
        check_file("crates/a/src/model.rs", "//! A.\n", 0);
    }

    #[test]
    fn vacuous_names_of_files_modules_and_types_are_breaches() {
        for path in ["utils.rs", "helpers.rs", "common.rs", "cache_manager.rs", "misc.rs"] {
            check_file(&format!("crates/a/src/{path}"), "//! A.\n", 1);
        }
        for path in ["common_prefix.rs", "utility_model.rs", "commons.rs"] {
            check_file(&format!("crates/a/src/{path}"), "//! A.\n", 0);
        }
        for (code, n_breaches) in [
            ("mod util {}", 1),
            ("pub(crate) struct CacheManager;", 1),
            ("enum Misc {}", 1),
            ("trait TokenHelper<T> {}", 1),
            ("struct Cache; // no Manager", 0),
            ("fn common() {}", 0),
            ("struct ManagerOfNothing;", 0),
        ] {
            check_file("crates/a/src/b.rs", &format!("//! A.\n{code}"), n_breaches);
        }
    }

    #[test]
    fn registry_hosts_and_outside_paths_are_not_named_in_any_file() {
        for (name, domain) in REGISTRIES {
            let text = format!("https://{name}.{domain}/x");
            check_file("README.md", &text, 1);
            check_file("crates/a/src/b.rs", &format!("//! A.\n// {text}"), 1);
            check_file("Cargo.lock", &text, 0);
        }
        check_file("docs/a.md", &format!("see {}/{}/notes.md", OUTSIDE.0, OUTSIDE.1), 1);
        check_file("docs/a.md", "shared between threads", 0);
    }
}
