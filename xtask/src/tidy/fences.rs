//! The four fences: what may stand in a few crates only, so that it can be reviewed there.

use std::collections::BTreeSet;

use super::Breach;
use super::manifest;
use super::source::Source;
use super::tree::{Tree, crate_of};

/// Words of code that may stand in a few places only.
struct Fence {
    words: &'static [&'static str],
    /// How the paths begin where they may stand.
    places: &'static [&'static str],
}

const FENCES: &[Fence] = &[
    Fence { words: &["unsafe"], places: &["crates/frank-kernels/", "crates/frank-os/"] },
    // They ask for the processor while compiling; whatever runs asks for its features at run time.
    Fence {
        words: &["target_arch", "target_feature"],
        places: &["crates/frank-kernels/", "crates/frank-os/src/amx.rs"],
    },
    // They ask for the operating system while compiling.
    Fence { words: &["target_os", "target_family"], places: &["crates/frank-os/"] },
];
/// Texts that only an answer in a client's wire format holds.
const WIRE: Fence = Fence {
    words: &[
        "chat.completion",
        "chat.completion.chunk",
        "text_completion",
        "finish_reason",
        "stop_reason",
        "message_start",
        "content_block_delta",
        "response.created",
        "response.completed",
    ],
    places: &["crates/frank-api/"],
};
/// Crates that may run on tokio; all others use threads and bounded channels.
const TOKIO: &[&str] = &["frank-hub", "frank-fleet", "frank-bench", "frank-server", "frank"];

pub(super) fn check(tree: &Tree) -> Vec<Breach> {
    let mut breaches = check_tokio(tree);
    for (path, text) in tree.sources() {
        let source = Source::parse(text);
        let words = source.words().collect();
        breaches.extend(FENCES.iter().flat_map(|fence| fence.breaches(path, &words)));
        let strings = Source::parse(shipped(path, text)).strings;
        breaches.extend(WIRE.breaches(path, &strings.iter().map(String::as_str).collect()));
    }
    breaches
}

impl Fence {
    fn breaches(&self, path: &str, found: &BTreeSet<&str>) -> Vec<Breach> {
        if self.places.iter().any(|place| path.starts_with(place)) {
            return Vec::new();
        }
        let outside = self.words.iter().filter(|word| found.contains(*word));
        let what = |word| format!("`{word}` outside {}", self.places.join(" and "));
        outside.map(|word| Breach::new(path, what(word))).collect()
    }
}

fn check_tokio(tree: &Tree) -> Vec<Breach> {
    let manifests = manifest::all(tree).into_iter().flatten();
    let fenced = manifests.filter(|manifest| !TOKIO.contains(&manifest.name.as_str()));
    let on_tokio = fenced.filter(|manifest| {
        manifest.dependencies.iter().any(|name| name == "tokio" || name.starts_with("tokio-"))
    });
    let what = format!("tokio outside {}", TOKIO.join(", "));
    on_tokio.map(|manifest| Breach::new(&manifest.path, what.clone())).collect()
}

/// The part of a source that ships. Tests may speak like a client, and xtask has to know the words it looks for.
fn shipped<'a>(path: &str, text: &'a str) -> &'a str {
    let is_test = path.contains("/tests/") || path.contains("/benches/");
    if is_test || crate_of(path) == Some("xtask") {
        return "";
    }
    text.split("#[cfg(test)]").next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::breaches;

    fn check_source(path: &str, text: &str, n_breaches: usize) {
        let found = breaches(check, &[(path, text)]);
        assert_eq!(found.len(), n_breaches, "{path}: {text}: {found:?}");
    }

    #[test]
    fn unsafe_stands_in_kernels_and_os_only() {
        let text = "fn f() { unsafe { g() } }";
        check_source("crates/frank-os/src/a.rs", text, 0);
        check_source("crates/frank-kernels/src/a.rs", text, 0);
        check_source("crates/frank-hub/src/a.rs", text, 1);
        check_source("crates/frank-hub/tests/it/a.rs", text, 1);
        check_source("xtask/src/a.rs", text, 1);
        check_source("crates/frank-hub/src/a.rs", "// unsafe\n#![deny(unsafe_code)] \"unsafe\"", 0);
    }

    #[test]
    fn tokio_runs_in_five_crates_only() {
        let manifest = |name: &str, dependency: &str| {
            let text =
                format!("[package]\nname = \"{name}\"\n[dependencies]\n{dependency} = \"1\"\n");
            breaches(check, &[(&format!("crates/{name}/Cargo.toml"), &text)]).len()
        };
        assert_eq!(manifest("frank-server", "tokio"), 0);
        assert_eq!(manifest("frank-engine", "tokio"), 1);
        assert_eq!(manifest("frank-engine", "tokio-util"), 1);
        assert_eq!(manifest("frank-engine", "async-channel"), 0);
    }

    #[test]
    fn the_processor_is_asked_for_in_kernels_only() {
        for text in ["#[cfg(target_arch = \"x86_64\")]", "cfg!(target_feature = \"avx2\")"] {
            check_source("crates/frank-kernels/src/a.rs", text, 0);
            check_source("crates/frank-os/src/amx.rs", text, 0);
            check_source("crates/frank-os/src/memory.rs", text, 1);
            check_source("crates/frank-gguf/src/a.rs", text, 1);
        }
    }

    #[test]
    fn the_operating_system_is_asked_for_in_os_only() {
        let text = "if cfg!(target_os = \"linux\") {}";
        check_source("crates/frank-os/src/a.rs", text, 0);
        check_source("crates/frank-kernels/src/a.rs", text, 1);
    }

    #[test]
    fn wire_formats_are_spelled_in_api_only() {
        let text = "const OBJECT: &str = \"chat.completion\";";
        check_source("crates/frank-api/src/dialects/chat.rs", text, 0);
        check_source("crates/frank-server/src/routes.rs", text, 1);
        check_source("crates/frank-server/tests/it/a.rs", text, 0);
        check_source(
            "crates/frank-server/src/a.rs",
            &format!("#[cfg(test)]\nmod tests {{ {text} }}"),
            0,
        );
        check_source("crates/frank-server/src/a.rs", "\"GET /v1/chat.completions\"", 0);
    }
}
