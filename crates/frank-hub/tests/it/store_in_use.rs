//! Payloads that generations of endpoints need: no pull puts other bytes in their place.

use std::fs;
use std::path::Path;

use frank_hub::FailureKind;
use frank_hub::frank_lock::PinnedPayload;
use frank_hub::store::{Done, PullEvent, PullOptions, Step};

use crate::store_scene::{MODEL, PROJECTOR, REPO, Scene, TINY, gguf, parse, rot};

/// Says that a generation of `endpoint` needs the payload in `folder`.
fn use_by(folder: &Path, file: &str, state: &str) {
    fs::create_dir_all(folder.join("used-by")).unwrap();
    fs::write(folder.join("used-by").join(file), state).unwrap();
}

#[test]
fn a_refresh_leaves_what_a_current_or_rollback_generation_needs_and_says_whose_it_is() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    scene.hub.shelf().push(REPO, PROJECTOR, gguf(22));
    let before = scene.files();
    for (file, state) in [("chat.7", "current"), ("chat.6", "rollback")] {
        use_by(&pulled.folder, file, state);
        let sent = scene.hub.bytes_sent();
        let error = scene.refresh(TINY).unwrap_err();
        assert_eq!((error.step, error.reason()), (Step::Held, "in_use"), "{error}");
        assert_eq!(error.kind(), FailureKind::Refused);
        let generation = &file["chat.".len()..];
        assert!(
            error.to_string().contains(&format!("chat generation {generation} ({state})")),
            "{error}"
        );
        assert_eq!(scene.hub.bytes_sent(), sent);
        fs::remove_dir_all(pulled.folder.join("used-by")).unwrap();
        assert_eq!(scene.files(), before);
    }
    scene.refresh(TINY).unwrap();
    assert_eq!(fs::read(pulled.folder.join(PROJECTOR)).unwrap(), gguf(22));
}

#[test]
fn a_pin_of_another_revision_does_not_take_a_file_from_who_needs_it_either() {
    let scene = Scene::tiny();
    let first = scene.pull(TINY).unwrap();
    let pins = PinnedPayload::of(&first);
    scene.hub.shelf().push(REPO, MODEL, gguf(11));
    scene.refresh(TINY).unwrap();
    use_by(&first.folder, "chat.7", "current");
    let options = PullOptions { refresh: false, pins: Some(&pins) };
    let error = scene.pull_with(TINY, options).unwrap_err();
    assert_eq!(error.reason(), "in_use", "{error}");
    assert_eq!(fs::read(first.folder.join(MODEL)).unwrap(), gguf(11));
}

#[test]
fn what_an_endpoint_needs_is_mended_and_completed_and_a_refresh_without_drift_is_fine() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    use_by(&pulled.folder, "chat.7", "current");
    scene.refresh(TINY).unwrap();
    fs::remove_file(pulled.folder.join(PROJECTOR)).unwrap();
    rot(&pulled.folder.join(MODEL));
    scene.store().verify(&pulled.payload, &|_, _| ()).unwrap();
    scene.pull(TINY).unwrap();
    assert_eq!(fs::read(pulled.folder.join(MODEL)).unwrap(), gguf(1));
    assert_eq!(fs::read(pulled.folder.join(PROJECTOR)).unwrap(), gguf(2));
}

#[test]
fn when_nobody_can_tell_who_needs_a_payload_it_stays() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    let used_by = pulled.folder.join("used-by");
    fs::write(&used_by, "no folder").unwrap();
    let error = scene.store().remove(&pulled.payload, "").unwrap_err();
    assert_eq!((error.reason(), error.kind()), ("io", FailureKind::Failed));
    assert!(error.to_string().contains(&used_by.display().to_string()), "{error}");
    fs::remove_file(&used_by).unwrap();
    // Whatever stands under a generation's name, its payload is needed.
    fs::create_dir_all(used_by.join("chat.7")).unwrap();
    let error = scene.store().remove(&pulled.payload, "").unwrap_err();
    assert!(error.to_string().ends_with("chat generation 7 (current)"), "{error}");
    assert!(pulled.folder.join(MODEL).exists());
}

#[test]
fn a_generation_that_comes_during_the_transfer_keeps_its_files_too() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    scene.hub.shelf().push(REPO, PROJECTOR, gguf(22));
    let comes = |event: PullEvent<'_>| {
        if matches!(event, PullEvent::Done(Done::Verify { .. })) {
            use_by(&pulled.folder, "chat.7", "current");
        }
    };
    let options = PullOptions { refresh: true, pins: None };
    let pull = |watch: &dyn Fn(PullEvent<'_>)| {
        scene.store().pull(&scene.upstream(), &parse(TINY), options, watch)
    };
    let error = pull(&comes).unwrap_err();
    assert_eq!((error.step, error.reason()), (Step::Finalize, "in_use"), "{error}");
    assert_eq!(error.kind(), FailureKind::Refused);
    assert_eq!(fs::read(pulled.folder.join(PROJECTOR)).unwrap(), gguf(2));
    assert!(scene.trash().is_empty());
    // What came waits until nobody needs the old one.
    fs::remove_dir_all(pulled.folder.join("used-by")).unwrap();
    let sent = scene.hub.bytes_sent();
    pull(&|_| ()).unwrap();
    assert_eq!(scene.hub.bytes_sent(), sent);
    assert_eq!(fs::read(pulled.folder.join(PROJECTOR)).unwrap(), gguf(22));
}

#[test]
fn a_damaged_lock_file_does_not_take_a_file_from_who_needs_it() {
    for damage in ["no lock file at all", ""] {
        let scene = Scene::tiny();
        let pulled = scene.pull(TINY).unwrap();
        scene.hub.shelf().push(REPO, PROJECTOR, gguf(22));
        use_by(&pulled.folder, "chat.7", "current");
        let lock = pulled.folder.join("payload.lock");
        fs::write(&lock, damage).unwrap();
        if damage.is_empty() {
            fs::remove_file(&lock).unwrap();
        }
        let before = scene.files();
        let error = scene.pull(TINY).unwrap_err();
        assert_eq!((error.step, error.reason()), (Step::Held, "in_use"), "{error}");
        assert_eq!(fs::read(pulled.folder.join(PROJECTOR)).unwrap(), gguf(2));
        assert_eq!(scene.files(), before);
        // The lock file is written anew where all files are what the source has.
        scene.hub.shelf().push(REPO, PROJECTOR, gguf(2));
        scene.pull(TINY).unwrap();
    }
}

#[test]
fn a_refresh_without_digests_refuses_other_bytes_and_takes_the_same() {
    let scene = Scene::tiny();
    let address = scene.hub.web_address(REPO, MODEL);
    let pulled = scene.pull(&address).unwrap();
    use_by(&pulled.folder, "chat.7", "current");
    scene.refresh(&address).unwrap();
    scene.hub.shelf().overwrite(REPO, MODEL, gguf(11));
    let error = scene.refresh(&address).unwrap_err();
    assert_eq!((error.step, error.reason()), (Step::Finalize, "in_use"), "{error}");
    assert_eq!(fs::read(pulled.folder.join(MODEL)).unwrap(), gguf(1));
}
