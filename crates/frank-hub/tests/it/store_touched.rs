//! Files that were touched since they were verified: they are hashed before they count as good again.

use std::cell::RefCell;
use std::fs::{self, File};
use std::time::SystemTime;

use frank_hub::store::{PullEvent, PullOptions, Ready, ReadyError, Step};
use frank_hub::{FailureKind, Progress, Stage};
use frank_testkit::mock_hub::Repository;

use crate::store_scene::{
    MODEL, PROJECTOR, REPO, Scene, TEMPLATE, TINY, codes, gguf, parse, rot, tiny,
};

/// Pulls, and says which files were hashed because they were touched.
fn hashed(scene: &Scene, reference: &str) -> Vec<String> {
    let hashed = RefCell::new(Vec::new());
    let watch = |event: PullEvent<'_>| {
        if let PullEvent::Progress { step: Step::Held, file, .. } = event {
            hashed.borrow_mut().push(file.to_owned());
        }
    };
    let options = PullOptions::default();
    scene.store().pull(&scene.upstream(), &parse(reference), options, &watch).unwrap();
    let mut hashed = hashed.into_inner();
    hashed.dedup();
    hashed
}

fn touch(path: &std::path::Path) {
    File::options().write(true).open(path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
}

#[test]
fn a_file_that_nobody_touched_is_not_hashed() {
    let scene = Scene::tiny();
    scene.pull(TINY).unwrap();
    assert!(hashed(&scene, TINY).is_empty());
}

#[test]
fn a_file_whose_time_was_set_back_is_hashed_before_it_counts_as_good() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    rot(&pulled.folder.join(MODEL));
    let again = scene.pull(TINY).unwrap();
    assert_eq!(codes(&again), ["trashed"]);
    assert_eq!(fs::read(pulled.folder.join(MODEL)).unwrap(), gguf(1));
}

#[test]
fn a_file_that_was_put_in_the_place_of_another_is_hashed_and_noted() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    let (path, copy) = (pulled.folder.join(MODEL), scene.path("copy"));
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    fs::copy(&path, &copy).unwrap();
    File::options().write(true).open(&copy).unwrap().set_modified(modified).unwrap();
    fs::rename(&copy, &path).unwrap();
    assert_eq!(hashed(&scene, TINY), [MODEL]);
    assert!(hashed(&scene, TINY).is_empty(), "it was noted");
}

#[test]
fn files_of_an_older_lock_file_are_read_once() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    let path = pulled.folder.join("payload.lock");
    let text = fs::read_to_string(&path).unwrap();
    let is_old = |line: &&str| !line.starts_with("changed_ns") && !line.starts_with("inode");
    let old: Vec<&str> = text.lines().filter(is_old).collect();
    fs::write(&path, old.join("\n") + "\n").unwrap();
    assert_eq!(hashed(&scene, TINY), [MODEL, PROJECTOR, TEMPLATE]);
    assert!(hashed(&scene, TINY).is_empty());
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_link_from_another_payload_is_no_touch() {
    let other = Repository::new("org/other-GGUF");
    let other = other.lfs("other-Q8_0.gguf", gguf(9)).lfs(PROJECTOR, gguf(2));
    let scene = Scene::new(vec![tiny(REPO), other]);
    scene.pull(TINY).unwrap();
    assert_eq!(codes(&scene.pull("hf:org/other-GGUF:Q8_0").unwrap()), ["linked"]);
    for reference in [TINY, "hf:org/other-GGUF:Q8_0"] {
        assert!(hashed(&scene, reference).is_empty(), "{reference}");
    }
}

#[test]
fn bytes_of_another_payload_that_were_touched_are_hashed_before_they_are_linked() {
    let other = Repository::new("org/other-GGUF");
    let other = other.lfs("other-Q8_0.gguf", gguf(9)).lfs(PROJECTOR, gguf(2));
    let scene = Scene::new(vec![tiny(REPO), other]);
    let first = scene.pull(TINY).unwrap();
    rot(&first.folder.join(PROJECTOR));
    let second = scene.pull("hf:org/other-GGUF:Q8_0").unwrap();
    assert_eq!(codes(&second), [] as [&str; 0], "nothing is linked");
    assert_eq!(fs::read(second.folder.join(PROJECTOR)).unwrap(), gguf(2));
}

#[test]
fn a_touched_payload_that_its_source_has_no_longer_is_good_only_when_its_digests_are() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    scene.hub.shelf().remove(REPO, MODEL);
    touch(&pulled.folder.join(MODEL));
    assert_eq!(hashed(&scene, TINY), [MODEL]);
    assert!(hashed(&scene, TINY).is_empty(), "it was noted");
    rot(&pulled.folder.join(MODEL));
    touch(&pulled.folder.join(MODEL));
    let error = scene.pull(TINY).unwrap_err();
    assert_eq!((error.step, error.reason()), (Step::Held, "upstream_gone"));
    assert!(error.to_string().contains(MODEL), "{error}");
}

#[test]
fn a_file_that_only_its_source_has_no_longer_is_hashed_once_when_it_was_touched() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    scene.hub.shelf().remove(REPO, PROJECTOR);
    touch(&pulled.folder.join(PROJECTOR));
    assert_eq!(hashed(&scene, TINY), [PROJECTOR]);
    assert!(hashed(&scene, TINY).is_empty());
}

#[test]
fn a_verified_file_that_was_touched_before_it_got_its_name_is_hashed_again() {
    let scene = Scene::tiny();
    scene.pull_killed_at(TINY, "finalize", MODEL);
    let partial = scene.files().into_iter().find(|file| file.ends_with(MODEL)).unwrap();
    rot(&scene.path(&partial));
    let pulled = scene.pull(TINY).unwrap();
    assert_eq!(fs::read(pulled.folder.join(MODEL)).unwrap(), gguf(1));
    assert!(codes(&pulled).contains(&"repairing"), "{:?}", pulled.notes);
}

#[test]
fn a_file_that_was_touched_after_it_got_its_name_and_before_it_was_locked_is_hashed_again() {
    let scene = Scene::tiny();
    scene.pull_killed_at(TINY, "finalize", PROJECTOR);
    let named = scene.files().into_iter().find(|file| file.ends_with(MODEL)).unwrap();
    assert!(!named.contains("/.partial/"), "{named}");
    rot(&scene.path(&named));
    let pulled = scene.pull(TINY).unwrap();
    assert_eq!(fs::read(pulled.folder.join(MODEL)).unwrap(), gguf(1));
}

/// Makes a payload ready for use, and says which of its files were read for that.
fn read_for_use(scene: &Scene, name: &str) -> (Result<Ready, ReadyError>, Vec<String>) {
    let read = RefCell::new(Vec::new());
    let payload = scene.store().payload(name).unwrap();
    let ready = scene.store().ready(&payload, &|file, _| read.borrow_mut().push(file.to_owned()));
    let mut read = read.into_inner();
    read.dedup();
    (ready, read)
}

#[test]
fn a_model_that_was_touched_is_read_once_before_it_is_used() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    let model = pulled.folder.join(MODEL);
    let check = |expected: &[&str]| {
        let (ready, read) = read_for_use(&scene, &pulled.payload);
        assert_eq!(ready.unwrap(), Ready { model: model.clone(), notes: Vec::new() });
        assert_eq!(read, expected);
    };
    check(&[]);
    touch(&model);
    // No program reads a projector yet.
    touch(&pulled.folder.join(PROJECTOR));
    check(&[MODEL]);
    check(&[]);
}

#[test]
fn a_model_whose_bytes_were_changed_behind_its_time_is_not_used() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    rot(&pulled.folder.join(MODEL));
    let (ready, read) = read_for_use(&scene, &pulled.payload);
    let error = ready.unwrap_err();
    assert!(matches!(&error, ReadyError::Altered { file, .. } if file == MODEL), "{error}");
    assert_eq!(
        (error.kind(), read.as_slice()),
        (FailureKind::Verification, &[MODEL.to_owned()][..])
    );
    assert!(error.hint().unwrap().contains(&pulled.payload), "{error}");
    // It was noted, and is not read again.
    let (ready, read) = read_for_use(&scene, &pulled.payload);
    assert!(ready.unwrap_err().to_string().contains("is damaged") && read.is_empty());
    scene.pull(TINY).unwrap();
    let (ready, read) = read_for_use(&scene, &pulled.payload);
    assert!(ready.is_ok() && read.is_empty());
}

#[test]
fn a_model_that_another_process_has_is_looked_at_when_that_is_done() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    touch(&pulled.folder.join(MODEL));
    let held = File::open(scene.path("models/.locks").join(&pulled.payload)).unwrap();
    held.lock().unwrap();
    let held = RefCell::new(Some(held));
    let stages = RefCell::new(Vec::new());
    let payload = scene.store().payload(&pulled.payload).unwrap();
    let watch = |_: &str, progress: Progress| {
        stages.borrow_mut().push(progress.stage);
        held.take();
    };
    scene.store().ready(&payload, &watch).unwrap();
    let mut stages = stages.into_inner();
    stages.dedup();
    assert_eq!(stages, [Stage::Wait, Stage::Check]);
}
