//! The order of the crates: each may use the ones above it, so that no knowledge flows upwards.

use super::Breach;
use super::manifest::{self, Manifest};
use super::tree::Tree;

/// From the bottom to the top of what is built on what. A crate may use those before it.
const ORDER: &[&str] = &[
    "frank-gguf",
    "frank-os",
    "frank-chat",
    "frank-telemetry",
    "frank-kernels",
    "frank-tokenizer",
    "frank-grammar",
    "frank-plan",
    "frank-experts",
    "frank-api",
    "frank-hub",
    "frank-models",
    "frank-fleet",
    "frank-bench",
    "frank-engine",
    "frank-server",
    "frank",
];
/// The crate for tests, which others may use for development only.
const TESTKIT: &str = "frank-testkit";
/// All that [`TESTKIT`] may use: it serves the tests of nearly every crate.
const TESTKIT_MAY_USE: &[&str] = &["frank-gguf"];

pub(super) fn check(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for manifest in manifest::all(tree) {
        match manifest {
            Ok(manifest) => breaches.extend(check_one(&manifest)),
            Err((path, what)) => breaches.push(Breach::new(&path, what)),
        }
    }
    breaches
}

fn check_one(manifest: &Manifest) -> Vec<Breach> {
    let Manifest { path, name, dependencies } = manifest;
    let folder = path.trim_end_matches("/Cargo.toml").rsplit('/').next().unwrap_or_default();
    if name != folder {
        return vec![Breach::new(path, format!("the crate is called {name}, its folder {folder}"))];
    }
    let allowed: Vec<&str> = match (name.as_str(), ORDER.iter().position(|known| known == name)) {
        ("xtask", _) => ORDER.iter().copied().chain([TESTKIT]).collect(),
        (TESTKIT, _) => TESTKIT_MAY_USE.to_vec(),
        (_, Some(place)) => ORDER[..place].to_vec(),
        (_, None) => {
            return vec![Breach::new(path, "this crate has no place in the order of the crates")];
        }
    };
    let ours = dependencies.iter().filter(|name| *name == "frank" || name.starts_with("frank-"));
    let refused = ours.filter(|dependency| !allowed.contains(&dependency.as_str()));
    refused
        .map(|dependency| Breach::new(path, format!("{name} must not use {dependency}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::breaches;

    /// The breaches of a crate with this name that has these dependencies.
    fn breaches_of(name: &str, dependencies: &[&str]) -> Vec<String> {
        let lines: String =
            dependencies.iter().map(|name| format!("{name}.workspace = true\n")).collect();
        let text = format!("[package]\nname = \"{name}\"\n[dependencies]\n{lines}");
        let path = if name == "xtask" {
            "xtask/Cargo.toml".to_owned()
        } else {
            format!("crates/{name}/Cargo.toml")
        };
        breaches(check, &[(&path, &text)])
    }

    #[test]
    fn a_crate_may_use_those_above_it_and_none_below() {
        assert_eq!(breaches_of("frank-hub", &["frank-gguf", "frank-os", "serde"]), [""; 0]);
        assert_eq!(
            breaches_of("frank-hub", &["frank-gguf", "frank-models"]),
            ["crates/frank-hub/Cargo.toml: frank-hub must not use frank-models"]
        );
        assert_eq!(breaches_of("frank-gguf", &["frank"]).len(), 1);
        assert_eq!(breaches_of("frank-gguf", &["frank-gguf"]).len(), 1);
    }

    #[test]
    fn the_testkit_uses_gguf_only_and_is_used_for_development_only() {
        assert_eq!(breaches_of("frank-testkit", &["frank-gguf"]), [""; 0]);
        assert_eq!(breaches_of("frank-testkit", &["frank-os"]).len(), 1);
        assert_eq!(breaches_of("frank", &["frank-testkit"]).len(), 1);
        assert_eq!(breaches_of("xtask", &["frank-testkit", "frank-hub"]), [""; 0]);
    }

    #[test]
    fn a_crate_without_a_place_is_a_breach() {
        assert_eq!(breaches_of("frank-extras", &[]).len(), 1);
    }

    #[test]
    fn a_crate_is_called_like_its_folder() {
        let text = "[package]\nname = \"frank-os\"\n";
        assert_eq!(breaches(check, &[("crates/os/Cargo.toml", text)]).len(), 1);
    }
}
