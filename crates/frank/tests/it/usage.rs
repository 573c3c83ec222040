//! `<model>.frank-usage`: what servers learn is kept whoever writes it, and nothing else is overwritten.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::endpoint::Endpoint;
use crate::files::str;
use crate::mixture::{Moe, STREAMED};
use crate::program::frank;

fn usage_of(model: &Path) -> PathBuf {
    PathBuf::from(format!("{}.frank-usage", model.display()))
}

fn serve(model: &Path) -> Endpoint {
    Endpoint::start(model, &[&STREAMED[..], &["-c", "64"]].concat())
}

/// Has 8 tokens made.
fn ask(endpoint: &Endpoint) {
    let body = json!({"prompt": [256, 116, 104], "max_tokens": 8, "ignore_eos": true});
    let reply = endpoint.post("/v1/completions", &body.to_string());
    assert_eq!(reply.status, 200, "{}", reply.body);
}

/// The sum of all counts at `path`.
fn total(path: &Path) -> u64 {
    let text = std::fs::read_to_string(path).expect("it was learned");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("layer,expert,count"));
    let count = |line: &str| line.rsplit(',').next().and_then(|count| count.parse().ok());
    lines.map(|line| -> u64 { count(line).unwrap_or_else(|| panic!("{line}")) }).sum()
}

/// Ends a server that nobody is answered by any more.
fn end(endpoint: Endpoint, signal: &str) -> String {
    endpoint.signal(signal);
    let (code, said) = endpoint.end();
    assert_eq!(code, Some(0), "{said}");
    said
}

#[test]
fn two_servers_of_one_model_lose_none_of_their_counts() {
    let moe = Moe::new();
    let usage = usage_of(&moe.model);
    let alone = serve(&moe.model);
    ask(&alone);
    end(alone, "-TERM");
    let of_one = total(&usage);
    std::fs::remove_file(&usage).expect("it is there");
    let both = [serve(&moe.model), serve(&moe.model)];
    both.iter().for_each(ask);
    for endpoint in both {
        end(endpoint, "-TERM");
    }
    assert_eq!(total(&usage), 2 * of_one);
}

#[test]
fn a_server_whose_terminal_goes_away_saves_what_it_learned() {
    if frank_os::ignores_hangup() {
        // As under `nohup`, and so does every process that this one starts.
        return;
    }
    let moe = Moe::new();
    let endpoint = serve(&moe.model);
    ask(&endpoint);
    end(endpoint, "-HUP");
    assert!(total(&usage_of(&moe.model)) > 0);
}

#[test]
fn a_link_is_followed_and_stays_a_link() {
    let moe = Moe::new();
    let (usage, target) = (usage_of(&moe.model), moe.folder.path().join("elsewhere.csv"));
    symlink(&target, &usage).expect("a link");
    let endpoint = serve(&moe.model);
    ask(&endpoint);
    // It leads nowhere.
    let said = end(endpoint, "-TERM");
    let warning = format!("warning: {} cannot be written", usage.display());
    assert_eq!(said.matches(&warning).count(), 1, "{said}");
    std::fs::write(&target, "").expect("written");
    let endpoint = serve(&moe.model);
    ask(&endpoint);
    end(endpoint, "-TERM");
    assert!(usage.symlink_metadata().expect("it is there").is_symlink());
    assert!(total(&target) > 0);
}

#[test]
fn a_file_that_is_something_else_is_left_alone() {
    let moe = Moe::new();
    let usage = usage_of(&moe.model);
    std::fs::write(&usage, "my notes\n").expect("written");
    let args = ["run", str(&moe.model), "--raw", "-n", "2", "hi"];
    let said = frank([&args[..], &STREAMED].concat()).ended(0).stderr;
    for warning in ["is ignored: line 1: ", "cannot be written, so nothing is learned: "] {
        let warning = format!("warning: {} {warning}", usage.display());
        assert_eq!(said.matches(&warning).count(), 1, "{said}");
    }
    assert_eq!(std::fs::read_to_string(&usage).expect("it is there"), "my notes\n");
    // Nothing else was left in the folder.
    assert_eq!(std::fs::read_dir(moe.folder.path()).expect("the folder").count(), 2);
}
