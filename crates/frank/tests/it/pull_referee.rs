//! `frank pull` beside the official Python client of the hub, from the same mock hub: the files must be the same.

use std::fs;
use std::path::Path;
use std::process::Command;

use frank_testkit::assets;
use frank_testkit::gguf_writer::GgufWriter;
use frank_testkit::mock_hub::{Content, MockHub, Repository};

use crate::program;

const FETCH: &str = "
import sys
from huggingface_hub import snapshot_download
snapshot_download(sys.argv[1], local_dir=sys.argv[2])
";

/// A small model file, different for each name.
fn gguf(name: &str, seed: u64) -> Vec<u8> {
    let data = Content::seeded(seed, 1_500_000).to_vec();
    let writer = GgufWriter::new("llama").value("general.name", name);
    writer.tensor("blob", &[1_500_000], 24, data).to_bytes()
}

#[test]
fn what_frank_pulls_is_what_the_official_client_fetches() {
    let repository = Repository::new("org/tiny-GGUF")
        .git("config.json", "{\"model_type\": \"llama\"}")
        .git("README.md", "# tiny")
        .lfs("UD-Q4_K_M/tiny-UD-Q4_K_M.gguf", gguf("tiny", 1))
        .lfs("mmproj-F16.gguf", gguf("projector", 2))
        .lfs("tiny-Q8_0.gguf", gguf("tiny", 3));
    let hub = MockHub::start(vec![repository.paged(3)]);
    let folder = tempfile::tempdir().unwrap();
    let theirs = folder.path().join("theirs");
    let fetched = Command::new(assets::python())
        .args(["-c", FETCH, "org/tiny-GGUF"])
        .arg(&theirs)
        .env_clear()
        .env("HF_ENDPOINT", hub.endpoint())
        .env("HF_HOME", folder.path().join("home"))
        .env("HF_HUB_DISABLE_TELEMETRY", "1")
        .output()
        .unwrap();
    assert!(fetched.status.success(), "{}", String::from_utf8_lossy(&fetched.stderr));

    let mut pull = program::command(["pull", "--json", "hf:org/tiny-GGUF:UD-Q4_K_M"]);
    pull.env_clear().env("HF_ENDPOINT", hub.endpoint()).env("HOME", folder.path());
    let said = program::run(&mut pull).ended(0).json();
    let payload = &said["payloads"][0];
    let ours = Path::new(payload["path"].as_str().unwrap());
    let files = payload["files"].as_array().unwrap();
    let mut paths = Vec::new();
    for file in files {
        let (name, path) = (file["name"].as_str().unwrap(), file["path"].as_str().unwrap());
        assert!(
            fs::read(ours.join(name)).unwrap() == fs::read(theirs.join(path)).unwrap(),
            "{file}"
        );
        paths.push(path);
    }
    paths.sort_unstable();
    assert!(paths.contains(&"UD-Q4_K_M/tiny-UD-Q4_K_M.gguf"), "{paths:?}");
    assert!(paths.contains(&"mmproj-F16.gguf"), "{paths:?}");
    assert!(!paths.contains(&"tiny-Q8_0.gguf"), "{paths:?}");
}
