//! `frank serve --cache-dir`: prefixes that the next start finds.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use frank_testkit::assets;
use serde_json::{Value, json};

use crate::endpoint::{Endpoint, Reply};
use crate::files::{Folder, llama};
use crate::program::frank;

/// Serves `model` with its prefixes in `cache`.
fn serve(model: &Path, cache: &Path, more: &[&str]) -> Endpoint {
    let cache = cache.to_str().expect("UTF-8");
    Endpoint::start(model, &[&["-c", "512", "--cache-dir", cache], more].concat())
}

/// Asks for eight tokens after `n` others. Returns the text, and how many tokens were cached.
fn ask(endpoint: &Endpoint, n: u32) -> (Value, Value) {
    let prompt: Vec<u32> = (0..n).map(|i| 3 + i * 7 % 200).collect();
    let body = json!({"prompt": prompt, "max_tokens": 8, "temperature": 0, "ignore_eos": true});
    let reply = endpoint.post("/v1/completions", &body.to_string());
    assert_eq!(reply.status, 200, "{}", reply.body);
    let (text, cached) = ("/choices/0/text", "/usage/prompt_tokens_details/cached_tokens");
    let part = |path| reply.json().pointer(path).cloned().unwrap_or_else(|| panic!("{path}"));
    (part(text), part(cached))
}

/// Completes as the client of `key`.
fn post_as(endpoint: &Endpoint, key: &str, body: &str) -> Reply {
    let length = body.len();
    Reply::read(endpoint.send(&format!(
        "POST /v1/completions HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\nauthorization: Bearer {key}\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{body}",
        endpoint.address
    )))
}

fn end(endpoint: Endpoint) {
    endpoint.signal("-TERM");
    assert_eq!(endpoint.end(), (Some(0), String::new()));
}

/// All entries below `dir`.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let below = |dir: &Path| -> Vec<PathBuf> {
        let files = fs::read_dir(dir).expect("a folder");
        files.map(|file| file.expect("a file").path()).collect()
    };
    let folders = below(dir).into_iter().filter(|path| path.is_dir());
    folders.flat_map(|models| below(&models)).flat_map(|folder| below(&folder)).collect()
}

/// Serves, asks, stops, and does so again with the entries changed by `between`. The answers must be the same; returns
/// how many tokens were cached in the end.
fn cached_after_restart(model: &Path, between: impl Fn(&Path)) -> u64 {
    let folder = Folder::new();
    let cache = folder.path().join("kv");
    let first = serve(model, &cache, &[]);
    let (text, cached) = ask(&first, 300);
    assert_eq!(cached, 0);
    end(first);
    assert_eq!(fs::metadata(&cache).expect("it was made").permissions().mode() & 0o777, 0o700);
    assert!(!entries(&cache).is_empty());
    between(&cache);
    let second = serve(model, &cache, &[]);
    let (again, cached) = ask(&second, 300);
    assert_eq!(again, text);
    assert_eq!(second.get("/health", "").status, 200);
    cached.as_u64().expect("a number")
}

#[test]
fn a_prefix_is_found_after_a_restart_and_the_answer_is_the_same() {
    assert_eq!(cached_after_restart(&assets::smollm2(), |_| {}), 288);
    assert_eq!(cached_after_restart(&llama(), |_| {}), 288);
    // With windows.
    assert_eq!(cached_after_restart(&assets::tiny("gemma3.gguf"), |_| {}), 288);
}

#[test]
fn files_that_were_damaged_do_not_matter() {
    let cut = |cache: &Path| {
        for entry in entries(cache) {
            let bytes = fs::read(&entry).expect("an entry");
            fs::write(&entry, &bytes[..bytes.len() / 2]).expect("an entry");
        }
    };
    assert_eq!(cached_after_restart(&llama(), cut), 0);
    let change = |cache: &Path| {
        for entry in entries(cache) {
            let mut bytes = fs::read(&entry).expect("an entry");
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x40;
            fs::write(&entry, bytes).expect("an entry");
        }
    };
    assert_eq!(cached_after_restart(&llama(), change), 0);
}

#[test]
fn models_and_kv_types_share_a_folder_and_no_prefix() {
    let folder = Folder::new();
    let cache = folder.path().join("kv");
    let first = serve(&llama(), &cache, &[]);
    ask(&first, 300);
    end(first);
    let renamed = folder.llama_with("general.name", "another");
    for (model, more) in [(renamed, vec![]), (llama(), vec!["--kv-type", "f32"])] {
        let other = serve(&model, &cache, &more);
        assert_eq!(ask(&other, 300).1, 0);
        end(other);
    }
    assert_eq!(ask(&serve(&llama(), &cache, &[]), 300).1, 288);
}

#[test]
fn keys_see_only_their_own_prefixes() {
    let folder = Folder::new();
    let cache = folder.path().join("kv");
    let keys = folder.file("keys", "one\ntwo\n");
    let cached = |key: &str| {
        let endpoint = serve(&llama(), &cache, &["--api-key-file", keys.to_str().expect("UTF-8")]);
        let prompt: Vec<u32> = (0..300).map(|i| 3 + i % 200).collect();
        let body = json!({"prompt": prompt, "max_tokens": 1}).to_string();
        let reply = post_as(&endpoint, key, &body);
        assert_eq!(reply.status, 200, "{}", reply.body);
        end(endpoint);
        reply.json().pointer("/usage/prompt_tokens_details/cached_tokens").cloned()
    };
    assert_eq!(["one", "two", "one"].map(cached), [0, 0, 288].map(|n| Some(json!(n))));
}

#[test]
fn a_folder_that_cannot_be_one_is_refused_before_a_weight_is_read() {
    let folder = Folder::new();
    let file = folder.file("file", "text");
    let check = |cache: &Path, code: i32, fact: &str| {
        let (model, cache) = (llama(), cache.to_str().expect("UTF-8").to_owned());
        let model = model.to_str().expect("UTF-8");
        let args = ["serve", model, "-c", "64", "--port", "0", "--cache-dir", &cache];
        let lines = frank(args).failed(code);
        assert!(lines[0].starts_with("error: ") && lines[0].contains(fact), "{lines:?}");
    };
    check(&file, 2, "is not a directory");
    check(folder.path(), 2, "it holds \"file\"");
    let cache = folder.path().join("kv");
    let _serving = serve(&llama(), &cache, &[]);
    check(&cache, 1, "in use by another process");
}
