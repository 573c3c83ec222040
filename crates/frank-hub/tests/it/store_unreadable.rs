//! What cannot be read, and what stands in place of files: said with its path, hiding nothing else, and never waited for.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use frank_hub::FailureKind;
use frank_hub::store::{Payload, PayloadState, Step, VerifyError};

use crate::store_scene::{MODEL, PROJECTOR, Scene, TINY, gguf, rot, tiny};

/// The name of another repository, and what is pulled of it.
const OTHER: &str = "org/zz-GGUF";
const OTHER_TINY: &str = "hf:org/zz-GGUF:Q4_K_M";

fn make_pipe(path: &Path) {
    fs::remove_file(path).ok();
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn make_folder(path: &Path) {
    fs::remove_file(path).ok();
    fs::create_dir_all(path).unwrap();
}

fn payloads(scene: &Scene) -> Vec<(String, PayloadState)> {
    let told = |payload: &Payload| (payload.name.clone(), payload.state());
    scene.store().payloads().unwrap().iter().map(told).collect()
}

/// Breaks one of two payloads, and checks that it says so with `path` and `why`, that the other is as it was, and that the
/// broken one can be moved away.
fn check(path: &str, broken: impl Fn(&Path), why: &str) {
    let scene = Scene::new(vec![tiny(crate::store_scene::REPO), tiny(OTHER)]);
    let (first, other) = (scene.pull(TINY).unwrap(), scene.pull(OTHER_TINY).unwrap());
    let path = first.folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    broken(&path);
    let found = payloads(&scene);
    assert_eq!(found[0], (first.payload.clone(), PayloadState::Unreadable), "{}", path.display());
    // They share files, and one that lost a link was touched.
    let is_whole = matches!(found[1].1, PayloadState::Complete | PayloadState::Changed);
    assert!(is_whole && found[1].0 == other.payload, "{found:?}");
    let payload = scene.store().payload(&first.payload).unwrap();
    let told = payload.faults().join("; ");
    assert!(told.contains(&path.display().to_string()) && told.contains(why), "{told}");
    let refusal = payload.usable_model().unwrap_err();
    assert_eq!((refusal.reason(), refusal.kind()), ("unreadable", FailureKind::Failed));
    assert!(refusal.to_string().contains(why), "{refusal}");
    scene.pull(OTHER_TINY).unwrap();
    scene.store().remove(&first.payload, "broken").unwrap();
    assert_eq!(payloads(&scene), [(other.payload, PayloadState::Complete)]);
}

#[test]
fn a_payload_that_cannot_be_read_says_why_and_hides_no_other() {
    check("payload.lock", make_pipe, "is a pipe, not a file");
    check("payload.lock", make_folder, "is a directory, not a file");
    check(MODEL, make_pipe, "is a pipe, not a file");
    check(PROJECTOR, make_folder, "is a directory, not a file");
    let link = |path: &Path| {
        fs::remove_file(path).unwrap();
        symlink("/dev/zero", path).unwrap();
    };
    check(MODEL, link, "is a device, not a file");
    let listen = |path: &Path| {
        fs::remove_file(path).unwrap();
        drop(UnixListener::bind(path).unwrap());
    };
    check("payload.lock", listen, "is a socket, not a file");
    let endless = |path: &Path| fs::File::create(path).unwrap().set_len(1 << 40).unwrap();
    check("payload.lock", endless, "is larger than 64 MiB");
    let looped = |path: &Path| {
        fs::remove_file(path).unwrap();
        symlink(path, path).unwrap();
    };
    check(MODEL, looped, "cannot read");
}

#[test]
fn what_a_payload_does_not_need_to_be_used_is_only_a_fault_of_it() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    fs::create_dir(pulled.folder.join(".partial")).unwrap();
    make_pipe(&pulled.folder.join(".partial/.wanted.toml"));
    fs::write(pulled.folder.join("used-by"), "no folder").unwrap();
    let payload = scene.store().payload(&pulled.payload).unwrap();
    assert_eq!(payload.state(), PayloadState::Complete);
    let told = payload.faults();
    assert!(told[0].contains(".wanted.toml is a pipe"), "{told:?}");
    assert!(told[1].contains("used-by"), "{told:?}");
    payload.usable_model().unwrap();
}

#[test]
fn a_partial_payload_whose_map_cannot_be_read_says_so() {
    let scene = Scene::tiny();
    scene.pull_killed_at(TINY, "finalize", MODEL);
    let [payload] = &scene.store().payloads().unwrap()[..] else { panic!("one payload") };
    let partial = payload.folder.join(".partial").join(MODEL);
    fs::remove_file(&partial).unwrap();
    make_pipe(&partial.with_file_name(format!("{MODEL}.ranges")));
    let [payload] = &scene.store().payloads().unwrap()[..] else { panic!("one payload") };
    let told = payload.faults().join("; ");
    assert!(told.contains(".ranges is a pipe, not a file"), "{told}");
}

#[test]
fn a_lock_file_that_says_nothing_of_use_is_a_fault_of_one_payload() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    for garbage in [&b"source = "[..], b"", b"\xff\xfe", b"[[file]]\nname = 3\n"] {
        fs::write(pulled.folder.join("payload.lock"), garbage).unwrap();
        let [payload] = &scene.store().payloads().unwrap()[..] else { panic!("one payload") };
        assert_eq!(payload.state(), PayloadState::Incomplete);
        assert_eq!(payload.faults(), ["it has no payload.lock that can be read"]);
    }
    scene.pull(TINY).unwrap();
    assert_eq!(payloads(&scene), [(pulled.payload, PayloadState::Complete)]);
}

#[test]
fn what_stands_in_place_of_a_file_is_refused_before_a_byte_comes_and_stays() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    let path = pulled.folder.join(MODEL);
    for make in [make_pipe, make_folder] {
        make(&path);
        let sent = scene.hub.bytes_sent();
        let error = scene.pull(TINY).unwrap_err();
        assert_eq!((error.step, error.reason()), (Step::Held, "io"), "{error}");
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        assert_eq!(scene.hub.bytes_sent(), sent);
        let verified = scene.store().verify(&pulled.payload, &|_, _| ());
        let Err(VerifyError::Fetch(error)) = verified else { panic!("{verified:?}") };
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        assert!(path.symlink_metadata().is_ok());
        fs::remove_file(&path).ok();
        fs::remove_dir(&path).ok();
    }
    scene.pull(TINY).unwrap();
    assert_eq!(fs::read(&path).unwrap(), gguf(1));
}

#[test]
fn a_pipe_in_place_of_the_lock_between_processes_is_said() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    let path = scene.path("models/.locks").join(&pulled.payload);
    make_pipe(&path);
    let error = scene.pull(TINY).unwrap_err();
    assert_eq!(error.step, Step::Wait, "{error}");
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    let error = scene.store().remove(&pulled.payload, "").unwrap_err();
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    assert!(pulled.folder.join(MODEL).exists());
}

#[test]
fn a_source_on_this_machine_that_is_no_file_is_refused_by_its_path() {
    let scene = Scene::tiny();
    let path = scene.path("local-F32.gguf");
    for (make, kind) in [(make_pipe as fn(&Path), "pipe"), (make_folder, "directory")] {
        make(&path);
        let error = scene.pull(&format!("file:{}", path.display())).unwrap_err();
        assert_eq!((error.step, error.kind()), (Step::List, FailureKind::Input), "{error}");
        let told = format!("{} is a {kind}, not a file", path.display());
        assert!(error.to_string().ends_with(&told), "{error}");
    }
    assert_eq!(scene.files(), [] as [&str; 0]);
}

#[test]
fn a_store_that_takes_no_lock_can_be_verified_and_says_what_it_does_without() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    let locks = scene.path("models/.locks");
    fs::remove_dir_all(&locks).unwrap();
    // Nobody makes a file there, whoever they are.
    symlink("/sys/kernel", &locks).unwrap();
    let verify = || scene.store().verify(&pulled.payload, &|_, _| ()).unwrap();
    let verified = verify();
    assert!(verified.files.iter().all(|file| file.verdict.reason() == "verified"));
    let [note] = &verified.notes[..] else { panic!("{:?}", verified.notes) };
    assert!(note.contains(".locks") && note.contains("cannot be made"), "{note}");
    rot(&pulled.folder.join(PROJECTOR));
    assert!(verify().files.iter().any(|file| file.verdict.reason() == "sha256"));
}

#[test]
fn a_payload_is_not_verified_while_another_process_changes_it() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    let lock = scene.path("models/.locks").join(&pulled.payload);
    let held = fs::File::open(lock).unwrap();
    held.lock().unwrap();
    let error = scene.store().verify(&pulled.payload, &|_, _| ()).unwrap_err();
    assert!(matches!(&error, VerifyError::Store(error) if error.reason() == "busy"), "{error}");
}
