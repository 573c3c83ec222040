//! `frank list`: whole, partial, damaged and changed payloads.

use std::fs;

use serde_json::json;

use crate::hub_home::{HubHome, MODEL, PROJECTOR, TINY, tiny};

#[test]
fn a_payload_is_listed_with_size_quant_architecture_state_and_source() {
    let home = HubHome::tiny();
    let empty = home.frank(&["list"]).ended(0).stdout;
    assert_eq!(
        empty.split_whitespace().collect::<Vec<_>>(),
        ["NAME", "SIZE", "QUANT", "ARCH", "STATE", "SOURCE"]
    );
    let (name, folder) = home.pull();
    let run = home.frank(&["list"]).ended(0);
    let row: Vec<&str> =
        run.stdout.lines().nth(1).expect("a row").split("  ").map(str::trim).collect();
    let row: Vec<&str> = row.into_iter().filter(|cell| !cell.is_empty()).collect();
    assert_eq!(
        (row[0], row[3], row[4], row[5]),
        (name.as_str(), "llama", "complete", TINY),
        "{run:?}"
    );
    let payload = home.frank(&["list", "--json"]).ended(0).json()["payloads"][0].clone();
    assert_eq!(payload["path"], json!(folder));
    assert_eq!(payload["revision"], json!(tiny().commit()));
    assert_eq!(payload["files"][0]["state"], json!("verified"));
    assert_eq!(payload["files"][0]["path"], json!(MODEL));
    assert_eq!(payload["files"][1]["role"], json!("mmproj"));
}

#[test]
fn a_payload_that_is_no_longer_what_it_was_says_so() {
    let home = HubHome::tiny();
    let (_, folder) = home.pull();
    let state = || home.frank(&["list", "--json"]).ended(0).json()["payloads"][0].clone();
    fs::write(folder.join(PROJECTOR), b"GGUF of a projector").expect("it is ours");
    assert_eq!(state()["state"], json!("changed"));
    fs::write(folder.join(PROJECTOR), b"short").expect("it is ours");
    assert_eq!(state()["state"], json!("damaged"));
    fs::remove_file(folder.join(PROJECTOR)).expect("it is ours");
    assert_eq!(state()["state"], json!("incomplete"));
    assert_eq!(state()["faults"], json!([format!("{PROJECTOR} is missing")]));
    fs::write(folder.join("payload.lock"), "source = ").expect("it is ours");
    assert_eq!(state()["faults"], json!(["it has no payload.lock that can be read"]));
}

#[test]
fn a_partial_of_which_nobody_said_the_size_shows_what_is_here_and_no_percentage() {
    let home = HubHome::tiny();
    let partial = home.models().join("m--12345678/.partial");
    fs::create_dir_all(&partial).expect("a folder");
    fs::write(partial.join("config.json"), "{ }").expect("it is ours");
    let config = fs::File::options().write(true).open(partial.join("config.json"));
    config.and_then(|file| file.set_modified(std::time::UNIX_EPOCH)).expect("it is ours");
    let wanted = format!(
        "source = \"https://h.example/m.gguf\"\nrevision = \"\"\n\n[[file]]\nname = \"m.gguf\"\nrole = \"model\"\n\n\
         [[file.segment]]\npath = \"m.gguf\"\n\n[[file]]\nname = \"config.json\"\nrole = \"config\"\n\n\
         [[file.segment]]\npath = \"config.json\"\nbytes = 3\n\n[file.verified]\nbytes = 3\nsha256 = \"{}\"\n\
         modified_ns = 0\n",
        "0".repeat(64)
    );
    fs::write(partial.join(".wanted.toml"), wanted).expect("it is ours");
    let payload = home.frank(&["list", "--json"]).ended(0).json()["payloads"][0].clone();
    assert_eq!((&payload["state"], &payload["percent"]), (&json!("incomplete"), &json!(null)));
    let run = home.frank(&["list"]).ended(0);
    assert!(run.stdout.contains("partial, 3 B here"), "{run:?}");
}
