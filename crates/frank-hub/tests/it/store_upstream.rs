//! Sources that change or lose files after a pull, and pins that disagree with them.

use std::fs;

use frank_hub::frank_lock::PinnedPayload;
use frank_hub::store::{FileOutcome, PullError, PullOptions, Pulled, Step};
use frank_hub::{FailureKind, Sha256};

use crate::store_scene::{
    MODEL, PROJECTOR, REPO, Scene, TEMPLATE, TINY, codes, gguf, outcomes, parse,
};

#[test]
fn a_refresh_fetches_only_what_drifted_and_keeps_the_old_file_in_the_trash() {
    let scene = Scene::tiny();
    let first = scene.pull(TINY).unwrap();
    scene.hub.shelf().push(REPO, PROJECTOR, gguf(22));
    let before = scene.hub.requests().len();
    let refreshed = scene.refresh(TINY).unwrap();
    assert_eq!(scene.sent_since(before), [PROJECTOR]);
    assert_eq!(
        outcomes(&refreshed),
        [
            (MODEL, FileOutcome::Held),
            (PROJECTOR, FileOutcome::Fetched),
            (TEMPLATE, FileOutcome::Held),
        ]
    );
    assert_eq!(fs::read(first.folder.join(PROJECTOR)).unwrap(), gguf(22));
    assert_ne!(refreshed.lock.revision, first.lock.revision);
    let [trashed] = &scene.trash()[..] else { panic!("{:?}", scene.trash()) };
    assert_eq!(fs::read(&trashed.path).unwrap(), gguf(2));
    assert_eq!(trashed.from, Some(first.folder.join(PROJECTOR)));
}

#[test]
fn without_a_refresh_drift_is_only_told() {
    let scene = Scene::tiny();
    let first = scene.pull(TINY).unwrap();
    scene.hub.shelf().push(REPO, PROJECTOR, gguf(22));
    let sent = scene.hub.bytes_sent();
    for _ in 0..2 {
        let again = scene.pull(TINY).unwrap();
        assert_eq!(codes(&again), ["drifted"]);
        assert_eq!(again.lock, first.lock);
    }
    assert_eq!(scene.hub.bytes_sent(), sent);
    assert_eq!(fs::read(first.folder.join(PROJECTOR)).unwrap(), gguf(2));
}

#[test]
fn a_new_commit_with_the_same_bytes_is_noted_and_fetches_nothing() {
    let scene = Scene::tiny();
    let first = scene.pull(TINY).unwrap();
    scene.hub.shelf().push(REPO, "README.md", "# tiny, revised");
    let sent = scene.hub.bytes_sent();
    let again = scene.pull(TINY).unwrap();
    assert_ne!(again.lock.revision, first.lock.revision);
    assert_eq!((again.lock.file, scene.hub.bytes_sent()), (first.lock.file, sent));
}

#[test]
fn a_file_that_vanished_upstream_is_a_warning_while_the_copy_here_is_good() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    scene.hub.shelf().remove(REPO, PROJECTOR);
    let again = scene.pull(TINY).unwrap();
    assert_eq!(codes(&again), ["upstream_gone"]);
    assert!(again.lock.file(PROJECTOR).is_some(), "it is still part of the payload");
    fs::remove_file(pulled.folder.join(PROJECTOR)).unwrap();
    let error = scene.pull(TINY).unwrap_err();
    assert_eq!((error.reason(), error.kind()), ("upstream_gone", FailureKind::Failed));
    assert!(error.to_string().contains(PROJECTOR), "{error}");
}

#[test]
fn a_model_that_vanished_upstream_stays_usable() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    scene.hub.shelf().remove(REPO, MODEL);
    let again = scene.pull(TINY).unwrap();
    assert_eq!(codes(&again), ["upstream_gone"], "the others are still there");
    fs::remove_file(pulled.folder.join(MODEL)).unwrap();
    let error = scene.pull(TINY).unwrap_err();
    assert_eq!(error.step, Step::Choose);
}

#[test]
fn bytes_of_an_older_state_of_the_source_are_never_mixed_with_those_of_a_newer_one() {
    let scene = Scene::tiny();
    scene.pull_killed_at(TINY, "finalize", MODEL);
    scene.hub.shelf().push(REPO, MODEL, gguf(11));
    let pulled = scene.pull(TINY).unwrap();
    assert!(codes(&pulled).contains(&"starts_over"), "{:?}", pulled.notes);
    assert_eq!(fs::read(pulled.folder.join(MODEL)).unwrap(), gguf(11));
    assert_eq!(scene.files().len(), 4, "{:?}", scene.files());
}

#[test]
fn a_refresh_that_is_broken_off_leaves_the_payload_as_it_was() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    scene.hub.shelf().push(REPO, MODEL, gguf(11));
    let options = PullOptions { refresh: true, pins: None };
    let dies = |event: frank_hub::store::PullEvent<'_>| {
        let at_end =
            matches!(event, frank_hub::store::PullEvent::Progress { step: Step::Finalize, .. });
        assert!(!at_end, "killed here");
    };
    let refresh = || scene.store().pull(&scene.upstream(), &parse(TINY), options, &dies);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(refresh)).is_err());
    let payload = scene.store().payload(&pulled.payload).unwrap();
    assert_eq!(fs::read(payload.usable_model().unwrap()).unwrap(), gguf(1));
    scene.refresh(TINY).unwrap();
    assert_eq!(fs::read(pulled.folder.join(MODEL)).unwrap(), gguf(11));
}

/// What a pull of [`TINY`] would pin.
fn pins(pulled: &Pulled) -> PinnedPayload {
    PinnedPayload::of(pulled)
}

fn pull_pinned(scene: &Scene, pins: &PinnedPayload) -> Result<Pulled, PullError> {
    scene.pull_with(TINY, PullOptions { refresh: false, pins: Some(pins) })
}

#[test]
fn a_wrong_value_in_the_pins_is_a_fault_of_the_pins_and_the_good_file_stays() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    let right = pins(&pulled);
    pull_pinned(&scene, &right).unwrap();
    let before = scene.files();
    type Fault = fn(&mut PinnedPayload);
    let faults: [(Fault, &str); 3] = [
        (|pins| pins.file[0].bytes = Some(1_359_284_737), MODEL),
        (|pins| pins.file[1].sha256 = Some(Sha256::of(b"other")), PROJECTOR),
        (|pins| pins.file[2].sha256 = Some(Sha256::of(b"other")), TEMPLATE),
    ];
    for (fault, file) in faults {
        let mut wrong = right.clone();
        fault(&mut wrong);
        let error = pull_pinned(&scene, &wrong).unwrap_err();
        assert_eq!(error.reason(), "manifest_mismatch", "{error}");
        assert_eq!((error.step, error.kind()), (Step::Manifest, FailureKind::Verification));
        assert!(error.to_string().contains(file), "{error}");
        assert_eq!(scene.files(), before);
    }
}

#[test]
fn a_pinned_file_that_is_neither_at_the_source_nor_here_is_an_error_and_stays_pinned() {
    let scene = Scene::tiny();
    let mut pins = pins(&scene.pull(TINY).unwrap());
    let before = scene.files();
    pins.file[1].name = "mmproj-lost-F16.gguf".to_owned();
    let error = pull_pinned(&scene, &pins).unwrap_err();
    assert_eq!((error.reason(), error.kind()), ("upstream_gone", FailureKind::Failed), "{error}");
    assert!(error.to_string().contains("mmproj-lost-F16.gguf"), "{error}");
    assert_eq!(scene.files(), before);
}

#[test]
fn a_wrong_pin_is_refused_before_a_byte_comes() {
    let scene = Scene::tiny();
    let mut wrong = pins(&scene.pull(TINY).unwrap());
    wrong.file[0].bytes = Some(1);
    let fresh = Scene::tiny();
    let error = pull_pinned(&fresh, &wrong).unwrap_err();
    assert_eq!(error.reason(), "manifest_mismatch");
    assert_eq!(fresh.hub.bytes_sent(), 0);
}

#[test]
fn a_pinned_revision_is_what_is_pulled_until_somebody_refreshes_it() {
    let scene = Scene::tiny();
    let first = scene.pull(TINY).unwrap();
    let pins = pins(&first);
    scene.hub.shelf().push(REPO, MODEL, gguf(11));
    scene.refresh(TINY).unwrap();
    assert_eq!(fs::read(first.folder.join(MODEL)).unwrap(), gguf(11));
    let pinned = pull_pinned(&scene, &pins).unwrap();
    assert_eq!(pinned.payload, first.payload);
    assert_eq!(fs::read(first.folder.join(MODEL)).unwrap(), gguf(1));
    assert_eq!(pinned.lock.revision, first.lock.revision);
    let refreshed =
        scene.pull_with(TINY, PullOptions { refresh: true, pins: Some(&pins) }).unwrap();
    assert_eq!(refreshed.lock.file[0].sha256, Sha256::of(&gguf(11)));
}
