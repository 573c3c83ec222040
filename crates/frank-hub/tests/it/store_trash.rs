//! Removing payloads, the trash, and getting them back.

use std::fs;

use frank_hub::FailureKind;
use frank_hub::store::StoreError;

use crate::store_scene::{MODEL, Scene, TINY, gguf};

#[test]
fn a_payload_that_was_removed_comes_back_byte_for_byte() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    let before = scene.files();
    let removed = scene.store().remove(&pulled.payload, "redundant").unwrap();
    assert!(!pulled.folder.exists());
    let listed = scene.trash();
    assert_eq!(listed, std::slice::from_ref(&removed));
    assert_eq!(listed[0].reason, "redundant");
    assert_eq!(listed[0].from, Some(pulled.folder.clone()));
    let files: u64 = pulled.lock.file.iter().map(|file| file.bytes).sum();
    assert!(listed[0].bytes >= files, "{} of {files}", listed[0].bytes);
    scene.store().restore(&removed.id).unwrap();
    assert_eq!(scene.files(), before);
    assert_eq!(fs::read(pulled.folder.join(MODEL)).unwrap(), gguf(1));
    assert!(scene.trash().is_empty());
    let sent = scene.hub.bytes_sent();
    scene.pull(TINY).unwrap();
    assert_eq!(scene.hub.bytes_sent(), sent, "what came back is still verified");
}

#[test]
fn nothing_is_restored_over_something_else() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    let removed = scene.store().remove(&pulled.payload, "old").unwrap();
    scene.pull(TINY).unwrap();
    let error = scene.store().restore(&removed.id).unwrap_err();
    assert!(matches!(&error, StoreError::Occupied { path } if *path == pulled.folder), "{error}");
    let error = scene.store().restore("2000-01-01/none").unwrap_err();
    assert_eq!((error.reason(), error.kind()), ("not_in_trash", FailureKind::Input));
}

#[test]
fn a_payload_that_a_generation_needs_stays_and_the_refusal_lists_them_all() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    let used_by = pulled.folder.join("used-by");
    fs::create_dir(&used_by).unwrap();
    fs::write(used_by.join("chat.12"), "current\n").unwrap();
    fs::write(used_by.join("chat.11"), "rollback\n").unwrap();
    let error = scene.store().remove(&pulled.payload, "space").unwrap_err();
    assert_eq!((error.reason(), error.kind()), ("in_use", FailureKind::Refused));
    let told = "chat generation 11 (rollback), chat generation 12 (current)";
    assert!(error.to_string().ends_with(told), "{error}");
    assert!(pulled.folder.join(MODEL).exists());
    for file in ["chat.11", "chat.12"] {
        fs::remove_file(used_by.join(file)).unwrap();
    }
    scene.store().remove(&pulled.payload, "space").unwrap();
}

#[test]
fn a_name_that_is_not_there_is_answered_with_those_that_are_like_it() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    let error = scene.store().remove("TINY", "").unwrap_err();
    assert!(error.to_string().contains(&pulled.payload), "{error}");
    let error = Scene::tiny().store().payload("tiny").unwrap_err();
    assert_eq!(error.to_string(), "the store has no payload `tiny`; it is empty");
}

#[test]
fn a_partial_payload_can_be_removed() {
    let scene = Scene::tiny();
    scene.pull_killed_at(TINY, "finalize", MODEL);
    let [payload] = &scene.store().payloads().unwrap()[..] else { panic!("one payload") };
    scene.store().remove(&payload.name, "wrong one").unwrap();
    assert!(scene.store().payloads().unwrap().is_empty());
}
