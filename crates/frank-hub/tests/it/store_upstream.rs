//! Sources that change or lose files after a pull, and pins that disagree with them.

use std::fs;

use frank_hub::frank_lock::PinnedPayload;
use frank_hub::store::{FileOutcome, PullError, PullOptions, Pulled, Step};
use frank_hub::{FailureKind, Role, Sha256};
use frank_testkit::mock_hub::{Answer, Fault, Place, Rule};
use serde_json::json;

use crate::store_pull::{FEWER, half_a_projector};
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

fn check_lost(scene: &Scene, name: &str) {
    let before = scene.files();
    let error = scene.pull(name).unwrap_err();
    assert_eq!((error.reason(), error.kind()), ("upstream_gone", FailureKind::Failed), "{error}");
    assert!(error.to_string().contains(PROJECTOR), "{error}");
    assert_eq!(scene.files(), before, "what came of it stays");
}

#[test]
fn a_file_that_never_came_whole_and_is_gone_upstream_is_no_success_of_its_payload() {
    let scene = half_a_projector();
    let name = scene.store().payloads().unwrap()[0].name.clone();
    scene.hub.shelf().remove(REPO, PROJECTOR);
    check_lost(&scene, &name);
    // Words that do not want it are content, the name is not.
    let fewer = scene.pull(FEWER).unwrap();
    assert_eq!(fewer.payload, name);
    check_lost(&scene, &name);
    scene.hub.shelf().remove(REPO, MODEL);
    check_lost(&scene, &name);
    assert_eq!(codes(&scene.pull(FEWER).unwrap()), ["upstream_gone"]);
}

#[test]
fn a_file_that_came_whole_and_is_gone_upstream_gets_its_name_when_the_payload_is_called() {
    let scene = Scene::tiny();
    scene.pull_killed_at(TINY, "finalize", MODEL);
    scene.hub.shelf().remove(REPO, PROJECTOR);
    let fewer = scene.pull(FEWER).unwrap();
    assert!(fewer.lock.file(PROJECTOR).is_none());
    let pulled = scene.pull(&fewer.payload).unwrap();
    assert_eq!(codes(&pulled)[0], "upstream_gone", "{:?}", pulled.notes);
    assert_eq!(fs::read(pulled.folder.join(PROJECTOR)).unwrap(), gguf(2));
    assert!(pulled.lock.file(PROJECTOR).is_some());
    assert_eq!(scene.files().len(), 4, "{:?}", scene.files());
    scene.pull(&fewer.payload).unwrap();
}

#[test]
fn a_file_that_never_came_whole_is_not_here_when_the_whole_source_is_gone() {
    let scene = half_a_projector();
    let fewer = scene.pull(FEWER).unwrap();
    let answer = Answer::json(404, &json!({ "error": "Repository not found" }));
    let answer = answer.header("x-error-code", "RepoNotFound");
    scene.hub.add(Rule::new(Place::Api, "/", Fault::Answer(answer)));
    check_lost(&scene, &fewer.payload);
    assert_eq!(codes(&scene.pull(FEWER).unwrap()), ["upstream_gone"; 2], "they have nothing of it");
}

#[test]
fn a_pinned_name_that_the_payload_lacks_is_a_fault_of_the_pins_when_it_is_pulled_by_its_name() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    let right = pins(&pulled);
    let before = scene.files();
    for n in [1, right.file.len()] {
        let mut wrong = right.clone();
        for file in &mut wrong.file[..n] {
            file.name = format!("my-{}", file.name);
        }
        let options = PullOptions { refresh: false, pins: Some(&wrong) };
        let error = scene.pull_with(&pulled.payload, options).unwrap_err();
        assert_eq!((error.step, error.reason()), (Step::Manifest, "manifest_mismatch"), "{error}");
        assert!(error.to_string().contains(&format!("my-{MODEL}")), "{error}");
        assert_eq!(scene.files(), before);
    }
}

#[test]
fn a_path_a_role_or_a_revision_that_a_hand_wrote_is_compared_with_the_source() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    let right = pins(&pulled);
    let before = scene.files();
    let mut path = right.clone();
    path.file[0].path = Some("other/tiny-Q4_K_M.gguf".to_owned());
    let mut role = right.clone();
    role.file[1].role = Some(Role::Draft);
    for (wrong, what) in
        [(path, "path of tiny-Q4_K_M.gguf"), (role, "role of mmproj-tiny-F16.gguf")]
    {
        for words in [TINY, &pulled.payload] {
            let options = PullOptions { refresh: false, pins: Some(&wrong) };
            let error = scene.pull_with(words, options).unwrap_err();
            assert_eq!(error.reason(), "manifest_mismatch", "{error}");
            assert!(error.to_string().contains(what), "{error}");
        }
        let payload = scene.store().payload(&pulled.payload).unwrap();
        let error = payload.check_places(&wrong).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
        payload.check_places(&right).unwrap();
        assert_eq!(scene.files(), before);
    }
    // A file on a web server has no revision.
    let address = scene.hub.web_address(REPO, MODEL);
    let mut wrong = PinnedPayload::of(&scene.pull(&address).unwrap());
    wrong.revision = Some("v1.0".to_owned());
    let options = PullOptions { refresh: false, pins: Some(&wrong) };
    let error = scene.pull_with(&address, options).unwrap_err();
    assert_eq!(error.reason(), "manifest_mismatch", "{error}");
    assert!(
        error.to_string().contains("revision of") && error.to_string().contains("v1.0"),
        "{error}"
    );
}

#[test]
fn what_is_here_of_a_file_that_is_gone_has_to_be_at_its_pinned_place_too() {
    let scene = Scene::tiny();
    let mut wrong = pins(&scene.pull(TINY).unwrap());
    // A pinned commit has all that it had.
    wrong.revision = None;
    scene.hub.shelf().remove(REPO, PROJECTOR);
    pull_pinned(&scene, &wrong).unwrap();
    wrong.file[1].role = Some(Role::Draft);
    assert_eq!(pull_pinned(&scene, &wrong).unwrap_err().reason(), "manifest_mismatch");
}
