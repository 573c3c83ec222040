//! Which payload words and names lead to, after longer picks, changes of the source and signed addresses.

use std::fs;

use frank_hub::frank_lock::PinnedPayload;
use frank_hub::store::{FileOutcome, PullOptions, StoreError};
use frank_hub::{FailureKind, Sha256};
use frank_testkit::mock_hub::{Answer, Fault, Place, Repository, Rule};
use serde_json::json;

use crate::store_scene::{MODEL, PROJECTOR, REPO, Scene, TINY, codes, gguf, outcomes, parse, tiny};

const OTHER: &str = "tiny-Q8_0.gguf";
const DEFAULT: &str = "hf:org/tiny-GGUF";
const LONGER: &str = "hf:org/tiny-GGUF:Q4_K_M,config";

/// A hub whose repository has one model, of another quant than the one that is taken where there are several.
fn one_model() -> Scene {
    Scene::new(vec![Repository::new(REPO).lfs(OTHER, gguf(8))])
}

fn held(scene: &Scene, words: &str) -> Option<String> {
    scene.store().held(&parse(words)).unwrap().map(|payload| payload.name)
}

#[test]
fn earlier_words_find_the_payload_after_a_longer_pick() {
    let scene = Scene::new(vec![tiny(REPO).git("config.json", "{}")]);
    let first = scene.pull(TINY).unwrap();
    let longer = scene.pull(LONGER).unwrap();
    assert_eq!(longer.payload, first.payload);
    for words in [TINY, LONGER, "hf:org/tiny-gguf:q4_k_m"] {
        assert_eq!(held(&scene, words).as_ref(), Some(&first.payload), "{words}");
    }
    scene.pull(TINY).unwrap();
    assert_eq!(held(&scene, LONGER), Some(first.payload.clone()));
    assert_eq!(held(&scene, "hf:org/tiny-GGUF:Q5_K_M"), None);
    let before = scene.files();
    let again = scene.pull(TINY).unwrap();
    assert_eq!((scene.files(), again.lock), (before, scene.pull(TINY).unwrap().lock));
}

#[test]
fn a_project_pins_the_words_that_it_asked_by_and_the_files_that_these_bring() {
    let scene = Scene::new(vec![tiny(REPO).git("config.json", "{}")]);
    scene.pull(LONGER).unwrap();
    let pins = PinnedPayload::of(&scene.pull(TINY).unwrap());
    assert_eq!(pins.source, TINY);
    assert!(pins.file("config.json").is_none(), "{pins:?}");
    // On another machine, where nobody asked for more.
    let fresh = Scene::new(vec![tiny(REPO).git("config.json", "{}")]);
    fresh.pull_with(TINY, PullOptions { refresh: false, pins: Some(&pins) }).unwrap();
}

#[test]
fn a_name_leads_to_its_own_payload_when_its_words_lead_to_another_now() {
    let scene = one_model();
    let first = scene.pull(DEFAULT).unwrap();
    scene.hub.shelf().push(REPO, MODEL, gguf(1));
    let second = scene.pull(DEFAULT).unwrap();
    assert_ne!(second.payload, first.payload);
    scene.hub.shelf().push(REPO, OTHER, gguf(88));
    let refreshed = scene.refresh(&first.payload).unwrap();
    assert_eq!(refreshed.payload, first.payload);
    assert_eq!(outcomes(&refreshed), [(OTHER, FileOutcome::Fetched)]);
    assert_eq!(fs::read(first.folder.join(OTHER)).unwrap(), gguf(88));
    assert!(!first.folder.join(MODEL).exists());
    // What it is pulled and pinned by from now on leads to it alone.
    let exact = format!("{DEFAULT}:{OTHER}");
    assert_eq!((&refreshed.lock.source, &PinnedPayload::of(&refreshed).source), (&exact, &exact));
    assert_eq!(held(&scene, DEFAULT), Some(second.payload));
    assert_eq!(scene.pull(&exact).unwrap().payload, first.payload);
}

#[test]
fn words_that_led_to_several_payloads_are_refused_with_their_names() {
    let scene = one_model();
    let first = scene.pull(DEFAULT).unwrap();
    scene.hub.shelf().push(REPO, MODEL, gguf(1));
    let second = scene.pull(DEFAULT).unwrap();
    for error in [
        scene.store().held(&parse(DEFAULT)).unwrap_err(),
        scene.store().find(&parse(DEFAULT)).unwrap_err(),
    ] {
        assert!(matches!(error, StoreError::Ambiguous { .. }), "{error}");
        assert_eq!((error.reason(), error.kind()), ("ambiguous", FailureKind::Input));
        let told = error.to_string();
        assert!(told.contains(&first.payload) && told.contains(&second.payload), "{told}");
    }
}

#[test]
fn a_name_brings_the_files_of_all_picks_of_its_payload() {
    let scene = Scene::new(vec![tiny(REPO).git("config.json", "{}")]);
    let pulled = scene.pull("hf:org/tiny-GGUF:Q4_K_M,-mmproj,config").unwrap();
    scene.pull(TINY).unwrap();
    for file in [PROJECTOR, "config.json"] {
        fs::remove_file(pulled.folder.join(file)).unwrap();
    }
    let again = scene.pull(&pulled.payload).unwrap();
    assert_eq!(again.lock.file.len(), 4);
    for file in [PROJECTOR, "config.json"] {
        assert!(pulled.folder.join(file).exists(), "{file}");
    }
}

#[test]
fn a_choice_that_became_ambiguous_is_not_called_gone() {
    let scene = one_model();
    let pulled = scene.pull(DEFAULT).unwrap();
    scene.hub.shelf().push(REPO, "tiny-Q6_K.gguf", gguf(6));
    scene.hub.shelf().push(REPO, "tiny-Q5_K_M.gguf", gguf(5));
    let error = scene.pull(DEFAULT).unwrap_err();
    assert_eq!((error.reason(), error.kind()), ("ambiguous", FailureKind::Input), "{error}");
    assert!(error.to_string().contains("Q6_K"), "{error}");
    // A name is never ambiguous.
    let again = scene.pull(&pulled.payload).unwrap();
    assert_eq!((again.payload, codes_of(&again.notes)), (pulled.payload, Vec::new()));
}

fn codes_of(notes: &[frank_hub::store::Note]) -> Vec<&'static str> {
    notes.iter().map(frank_hub::store::Note::code).collect()
}

/// What a hub says of a repository that is not there, or that this client may not see.
fn no_repository(status: u16) -> Rule {
    let answer = Answer::json(status, &json!({ "error": "Repository not found" }));
    Rule::new(Place::Api, "/", Fault::Answer(answer.header("x-error-code", "RepoNotFound")))
}

#[test]
fn a_stranger_whom_the_hub_turns_away_is_told_of_the_token_and_not_that_all_is_gone() {
    let scene = Scene::tiny();
    scene.pull(TINY).unwrap();
    scene.hub.add(no_repository(401));
    let error = scene.pull(TINY).unwrap_err();
    assert_eq!(error.reason(), "no_token", "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("HF_TOKEN")), "{error}");
    scene.hub.behave();
    scene.hub.add(no_repository(404));
    assert_eq!(codes(&scene.pull(TINY).unwrap()), ["upstream_gone"; 3]);
}

#[test]
fn what_is_here_of_a_source_that_is_gone_has_to_be_what_is_pinned() {
    let scene = Scene::tiny();
    let mut pins = PinnedPayload::of(&scene.pull(TINY).unwrap());
    scene.hub.add(no_repository(404));
    let pinned = |pins: &PinnedPayload| {
        scene.pull_with(TINY, PullOptions { refresh: false, pins: Some(pins) })
    };
    assert_eq!(codes(&pinned(&pins).unwrap()), ["upstream_gone"; 3]);
    pins.file[0].sha256 = Some(Sha256::of(b"other"));
    assert_eq!(pinned(&pins).unwrap_err().reason(), "not_found");
}

#[test]
fn what_signs_an_address_is_kept_nowhere_and_tells_no_payloads_apart() {
    let scene = Scene::tiny();
    let address = scene.hub.web_address(REPO, MODEL);
    let signed = |secret: &str| {
        format!("{address}?version=3&X-Amz-Credential={secret}&X-Amz-Signature={secret}")
    };
    scene.pull_killed_at(&signed("hunter2"), "finalize", MODEL);
    let check_nowhere = || {
        for file in scene.files() {
            let bytes = fs::read(scene.path(&file)).unwrap();
            assert!(!String::from_utf8_lossy(&bytes).contains("hunter2"), "{file}");
        }
    };
    check_nowhere();
    let pulled = scene.pull(&signed("hunter2")).unwrap();
    check_nowhere();
    assert_eq!(pulled.lock.source, format!("{address}?version=3"));
    let sent = scene.hub.bytes_sent();
    let again = scene.pull(&signed("hunter3")).unwrap();
    assert_eq!((again.payload, scene.hub.bytes_sent()), (pulled.payload.clone(), sent));
    assert_eq!(held(&scene, &signed("hunter4")), Some(pulled.payload));
}
