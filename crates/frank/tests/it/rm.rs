//! `frank rm` and `frank trash`: out of the store, and back.

use std::fs;

use serde_json::json;

use crate::hub_home::{HubHome, MODEL, TINY};

#[test]
fn a_removed_payload_is_in_the_trash_with_its_reason_and_the_command_that_brings_it_back() {
    let home = HubHome::tiny();
    let (name, folder) = home.pull();
    let model = fs::read(folder.join(MODEL)).expect("it is there");
    let run = home.frank(&["rm", &name, "--reason", "replaced by another"]).ended(0);
    let restore = run.stdout.lines().find_map(|line| line.strip_prefix("restore it with: frank "));
    let restore: Vec<&str> = restore.expect("the command").split(' ').collect();
    assert!(!folder.exists());
    let told = home.frank(&["trash"]).ended(0).stdout;
    for part in ["replaced by another", &restore.join(" ")] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    let listed = home.frank(&["trash", "--json"]).ended(0).json()["trash"][0].clone();
    assert_eq!(
        (&listed["reason"], &listed["from"]),
        (&json!("replaced by another"), &json!(folder))
    );
    assert!(listed["bytes"].as_u64() >= Some(model.len() as u64));
    home.frank(&restore).ended(0);
    assert_eq!(fs::read(folder.join(MODEL)).expect("it is back"), model);
    assert_eq!(home.frank(&["trash"]).ended(0).stdout, "the trash is empty\n");
    home.frank(&["rm", TINY]).ended(0);
}

#[test]
fn a_payload_that_an_endpoint_needs_is_refused_with_its_generations() {
    let home = HubHome::tiny();
    let (name, folder) = home.pull();
    fs::create_dir(folder.join("used-by")).expect("a folder");
    fs::write(folder.join("used-by/chat.7"), "current\n").expect("it is ours");
    fs::write(folder.join("used-by/chat.6"), "rollback\n").expect("it is ours");
    let lines = home.frank(&["rm", &name]).failed(3);
    assert!(
        lines[0].contains("chat generation 6 (rollback), chat generation 7 (current)"),
        "{lines:?}"
    );
    assert!(folder.join(MODEL).exists());
    let listed = home.frank(&["list", "--json"]).ended(0).json();
    assert_eq!(listed["payloads"][0]["used_by"][1]["generation"], json!("7"));
}

#[test]
fn what_is_not_there_is_said() {
    let home = HubHome::tiny();
    let lines = home.frank(&["rm", "nothing"]).failed(2);
    assert_eq!(lines[0], "error: the store has no payload `nothing`; it is empty");
    home.frank(&["rm", TINY]).failed(2);
    home.frank(&["trash", "restore", "2026-01-01/nothing"]).failed(2);
}
