//! The official Python client of the hub as judge of the mock hub: it must find everything that it finds at the real one,
//! and name what goes wrong as it does there.

use std::process::Command;

use frank_testkit::assets;
use frank_testkit::mock_hub::{Content, MockHub, Repository};
use serde_json::{Value, json};

/// Prints what the client says of a repository, and leaves its files in a folder.
const READ: &str = r#"
import json, sys
from huggingface_hub import HfApi, get_hf_file_metadata, hf_hub_url, snapshot_download

repository, folder, revision = sys.argv[1:]
api = HfApi()
info = api.model_info(repository, revision=revision, files_metadata=True)
tree = list(api.list_repo_tree(repository, revision=revision, recursive=True, expand=True))
files = {}
for file in info.siblings:
    head = get_hf_file_metadata(hf_hub_url(repository, file.rfilename, revision=info.sha))
    files[file.rfilename] = {
        "size": file.size, "blob": file.blob_id, "sha256": file.lfs and file.lfs.sha256,
        "etag": head.etag, "head_size": head.size, "commit": head.commit_hash,
    }
snapshot_download(repository, revision=revision, local_dir=folder)
print(json.dumps({
    "sha": info.sha, "gated": info.gated, "files": files,
    "tree": [[entry.path, getattr(entry, "size", None)] for entry in tree],
}))
"#;

/// Prints what comes of fetching each file, one a line: the end of its path, or the name of the error.
const FETCH: &str = r#"
import json, sys
from huggingface_hub import hf_hub_download

folder, cases = sys.argv[1:]
for repository, file, revision, token in json.loads(cases):
    try:
        hf_hub_download(repository, file, revision=revision, token=token or False, cache_dir=folder)
        print("fetched")
    except Exception as error:
        print(type(error).__name__)
"#;

fn python(hub: &MockHub, script: &str, arguments: &[&str]) -> String {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(assets::python());
    command.args(["-c", script]).args(arguments).env_clear().envs([
        ("HF_ENDPOINT", hub.endpoint()),
        ("HF_HOME", home.path().to_str().unwrap()),
        ("HF_HUB_DISABLE_PROGRESS_BARS", "1"),
        ("HF_HUB_DISABLE_TELEMETRY", "1"),
    ]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn the_official_client_reads_listing_names_and_bytes() {
    let model = Content::seeded(5, 3_000_000);
    let repository = Repository::new("org/tiny-GGUF")
        .git("config.json", "{}")
        .git("UD-Q4 K/read me.md", "text")
        .lfs("UD-Q4 K/tiny-Q4_K_M.gguf", model.clone())
        .paged(2);
    let commit = repository.commit();
    let hub = MockHub::start(vec![repository]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let said = python(&hub, READ, &["org/tiny-GGUF", path, "main"]);
    let said: Value = serde_json::from_str(&said).unwrap();

    assert_eq!((&said["sha"], &said["gated"]), (&json!(commit), &json!(false)));
    let tree = json!([
        ["UD-Q4 K", null],
        ["UD-Q4 K/read me.md", 4],
        ["UD-Q4 K/tiny-Q4_K_M.gguf", 3_000_000],
        ["config.json", 2]
    ]);
    assert_eq!(said["tree"], tree);
    let large = &said["files"]["UD-Q4 K/tiny-Q4_K_M.gguf"];
    for (field, value) in [
        ("size", json!(3_000_000)),
        ("head_size", json!(3_000_000)),
        ("sha256", json!(model.sha256())),
        ("etag", json!(model.sha256())),
        ("commit", json!(commit)),
    ] {
        assert_eq!(large[field], value, "{field}");
    }
    let small = &said["files"]["config.json"];
    let sha1 = Content::from("{}").git_sha1();
    assert_eq!((&small["blob"], &small["etag"]), (&json!(sha1), &json!(sha1)));
    assert_eq!(small["sha256"], Value::Null);
    let read = |file: &str| std::fs::read(folder.path().join(file)).unwrap();
    assert!(read("UD-Q4 K/tiny-Q4_K_M.gguf") == model.to_vec());
    assert_eq!(read("UD-Q4 K/read me.md"), b"text");
}

#[test]
fn the_official_client_names_every_refusal_as_at_the_real_hub() {
    let hub = MockHub::start(vec![
        Repository::new("org/open").git("a", "b"),
        Repository::new("org/gated").git("a", "b").gated("right"),
        Repository::new("org/refused").git("a", "b").refusing("right"),
        Repository::new("org/private").git("a", "b").private("right"),
    ]);
    let cases = [
        (["org/open", "a", "main", ""], "fetched"),
        (["org/open", "b", "main", ""], "RemoteEntryNotFoundError"),
        (["org/open", "a", "nowhere", ""], "RevisionNotFoundError"),
        (["org/nothing", "a", "main", ""], "RepositoryNotFoundError"),
        (["org/gated", "a", "main", ""], "GatedRepoError"),
        (["org/gated", "a", "main", "right"], "fetched"),
        (["org/refused", "a", "main", "right"], "GatedRepoError"),
        (["org/private", "a", "main", ""], "RepositoryNotFoundError"),
        (["org/private", "a", "main", "right"], "fetched"),
    ];
    let asked = json!(cases.map(|(case, _)| case)).to_string();
    let folder = tempfile::tempdir().unwrap();
    let said = python(&hub, FETCH, &[folder.path().to_str().unwrap(), &asked]);
    let said: Vec<&str> = said.lines().collect();
    assert_eq!(said, cases.map(|(_, outcome)| outcome));
}
