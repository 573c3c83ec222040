//! `frank init` and `frank plan`: what stands on stdout, what is wrong where, and the exit codes.

use std::fs;

use crate::files::{Folder, llama};
use crate::program::{Run, frank};

/// A fleet of one endpoint on this machine; the tests put other lines in the place of its own.
fn fleet() -> String {
    format!(
        r#"[hosts.box]
ssh = "local"

[models.tiny]
payload = "{}"

[endpoints.chat]
host = "box"
port = 7770
alias = "chat"
model = "tiny"
runtime = "frank"
program = "/usr/bin/frank"
target = "process"
context = 256
slots = 1
"#,
        llama().display()
    )
}

fn plan(folder: &Folder, text: &str, options: &[&str]) -> Run {
    let path = folder.file("frank.toml", text);
    let path = path.to_str().expect("a temporary folder with a plain name");
    frank([&["plan", path], options].concat())
}

#[test]
fn a_plan_says_what_would_be_written_and_changes_nothing() {
    let folder = Folder::new();
    let text = fleet();
    let before = fs::read_dir(folder.path()).unwrap().count();
    let run = plan(&folder, &text, &[]).ended(0);
    assert!(
        run.stdout.starts_with("box: generation 1, the first\n  + chat (frank-chat)\n"),
        "{run:?}"
    );
    assert!(run.stdout.contains("memory: fits"), "{run:?}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), before + 1);
    let json = plan(&folder, &text, &["--json"]).ended(0).json();
    assert_eq!((&json["allowed"], &json["changed"][0]), (&true.into(), &"chat".into()));
    let device = &json["hosts"][0]["memory"]["devices"][0];
    assert_eq!(
        (&device["id"], &device["uses"][0]["is_estimate"]),
        (&"cpu:0".into(), &false.into())
    );
    assert_eq!(plan(&folder, &text, &["--changed"]).ended(0).stdout, "chat\n");
}

#[test]
fn a_file_at_fault_ends_with_2_and_every_line_and_column() {
    let folder = Folder::new();
    let text = fleet().replace("prot", "port").replace("slots", "slot");
    let run = plan(&folder, &text.replace("alias", "alais"), &[]);
    let lines = run.failed(2);
    let path = folder.path().join("frank.toml");
    assert!(lines[0].starts_with(&format!("{}:10:1: error: ", path.display())), "{lines:?}");
    let run = plan(&folder, &fleet().replace("\"box\"", "\"bx\""), &["--json"]).ended(2);
    let fault = &run.json()["faults"][0];
    assert_eq!((&fault["line"], &fault["column"]), (&8.into(), &8.into()));
    assert_eq!(
        (&fault["code"], &fault["hint"]),
        (&"unknown_host".into(), &"did you mean `box`?".into())
    );
    let lines = frank(["plan", "/no/such/frank.toml"]).failed(2);
    assert!(lines.last().unwrap().contains("frank init"), "{lines:?}");
}

#[test]
fn what_does_not_fit_or_is_not_pinned_ends_with_3() {
    let folder = Folder::new();
    let text = fleet() + "memory-budget = \"1MiB\"\n";
    let run = plan(&folder, &text, &[]).ended(3);
    assert!(run.stderr.contains("endpoints.chat"), "{run:?}");
    assert!(run.stdout.contains("memory: does not fit"), "{run:?}");
    let tiny = llama().display().to_string();
    let text = fleet().replace(&tiny, "hf:org/tiny");
    let run = plan(&folder, &text, &[]).ended(3);
    assert!(run.stderr.contains("frank pull hf:org/tiny"), "{run:?}");
    fs::write(
        folder.path().join("frank.lock"),
        "[[payload]]\nsource = \"hf:org/tiny\"\n[[payload.file]]\nname = \"tiny.gguf\"\nrole = \"model\"\nbytes = 1024\n",
    )
    .unwrap();
    let run = plan(&folder, &text, &[]).ended(0);
    assert!(
        run.stdout.contains("payload hf-org-tiny: 1 file to fetch or to check, 1.00 KiB"),
        "{run:?}"
    );
}

#[test]
fn what_was_applied_is_no_change() {
    let folder = Folder::new();
    let text = fleet();
    let json = plan(&folder, &text, &["--json"]).ended(0).json();
    let files = json["hosts"][0]["files"].as_array().unwrap();
    assert!(!files.is_empty());
    let state = folder.path().join(".frank");
    fs::create_dir(&state).unwrap();
    fs::write(state.join("box.json"), "{\"format\": 9}").unwrap();
    let lines = plan(&folder, &text, &[]).failed(2);
    assert!(lines[0].contains("box.json"), "{lines:?}");
    fs::write(
        state.join("box.json"),
        "{\"format\": 1, \"host\": \"box\", \"number\": 4, \"endpoints\": {\"old\": {\"inputs\": {}, \
         \"target\": \"process\", \"unit\": \"frank-old\"}}}",
    )
    .unwrap();
    let run = plan(&folder, &text, &[]).ended(0);
    assert!(run.stdout.contains("box: generation 4 becomes 5"), "{run:?}");
    assert!(run.stdout.contains("frank-old stops and does not come back"), "{run:?}");
}

#[test]
fn a_first_file_is_written_once_and_is_a_plan_of_nothing() {
    let folder = Folder::new();
    let path = folder.path().join("frank.toml");
    let run = frank(["init", path.to_str().unwrap()]).ended(0);
    assert!(run.stderr.contains("frank plan"), "{run:?}");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("ssh = \"local\""), "{text}");
    let run = frank(["plan", path.to_str().unwrap()]).ended(0);
    assert!(run.stdout.contains("nothing to do"), "{run:?}");
    let lines = frank(["init", path.to_str().unwrap()]).failed(3);
    assert!(lines[0].contains("is there already"), "{lines:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn facts_of_other_hosts_come_from_a_folder() {
    let folder = Folder::new();
    let hosts = folder.path().join("hosts");
    fs::create_dir(&hosts).unwrap();
    let facts = frank_fleet::HostFacts {
        ram: 64 << 30,
        ram_free: 60 << 30,
        cores: 8,
        ..Default::default()
    };
    fs::write(hosts.join("big.json"), serde_json::to_string(&facts).unwrap()).unwrap();
    let dir = hosts.to_str().unwrap();
    let text = frank(["init", "-", "--facts", dir]).ended(0).stdout;
    assert!(text.contains("[hosts.big]\nssh = \"big\"\n"), "{text}");
    let text = fleet().replace("box", "big").replace("\"local\"", "\"big.lan\"");
    let json = plan(&folder, &text, &["--json", "--facts", dir]).ended(0).json();
    let device = &json["hosts"][0]["memory"]["devices"][0];
    assert_eq!(device["total"], 64u64 << 30);
    let run = plan(&folder, &text, &[]).ended(3);
    assert!(run.stderr.contains("nothing is known of the host `big`"), "{run:?}");
}

#[test]
fn the_schema_is_one_json_object() {
    let json = frank(["plan", "--schema"]).ended(0).json();
    assert!(json["properties"]["endpoints"].is_object(), "{json}");
}
