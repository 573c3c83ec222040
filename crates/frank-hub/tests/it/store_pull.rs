//! What a pull leaves in the store, what the next one makes of it, and what a pull refuses.

use std::fs::{self, File};
use std::time::SystemTime;

use frank_hub::store::{FileOutcome, FileState, Note, PayloadState, Step};
use frank_hub::{FailureKind, Role, Sha256};
use frank_testkit::mock_hub::{Answer, Content, Fault, Place, Repository, Rule};

use crate::store_scene::{
    Ledger, MODEL, PROJECTOR, REPO, Scene, TEMPLATE, TINY, codes, gguf, inode, outcomes, parse,
    received, rot, tiny,
};

#[test]
fn a_pull_leaves_the_files_under_their_names_with_a_lock_and_nothing_else() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    let name = &pulled.payload;
    let folder = format!("models/{name}");
    let expected =
        [TEMPLATE, PROJECTOR, "payload.lock", MODEL].map(|file| format!("{folder}/{file}"));
    assert_eq!(scene.files(), expected);
    assert_eq!(fs::read(scene.path(&folder).join(MODEL)).unwrap(), gguf(1));

    let text = fs::read_to_string(scene.path(&folder).join("payload.lock")).unwrap();
    let commit = tiny(REPO).commit();
    let sha256 = Sha256::of(&gguf(1));
    for line in [
        format!("source = \"{TINY}\""),
        format!("revision = \"{commit}\""),
        format!("name = \"{MODEL}\""),
        format!("path = \"{MODEL}\""),
        format!("sha256 = \"{sha256}\""),
        format!("bytes = {}", gguf(1).len()),
    ] {
        assert!(text.lines().any(|held| held == line), "{line} is not in\n{text}");
    }
    let roles: Vec<(&str, Role, bool)> = pulled
        .lock
        .file
        .iter()
        .map(|file| (file.name.as_str(), file.role, file.git_sha1.is_some()))
        .collect();
    assert_eq!(
        roles,
        [
            (MODEL, Role::Model, false),
            (PROJECTOR, Role::Projector, false),
            (TEMPLATE, Role::Template, true),
        ]
    );
}

#[test]
fn a_second_pull_receives_no_byte_of_a_file() {
    let scene = Scene::tiny();
    let first = scene.pull(TINY).unwrap();
    let sent = scene.hub.bytes_sent();
    assert_eq!(received(&first), sent);
    let before = scene.files();
    let second = scene.pull(TINY).unwrap();
    assert_eq!((scene.hub.bytes_sent(), received(&second)), (sent, 0));
    assert_eq!(second.lock, first.lock);
    assert_eq!(scene.files(), before);
    assert!(outcomes(&second).iter().all(|(_, outcome)| *outcome == FileOutcome::Held));
}

#[test]
fn every_step_says_how_it_ended() {
    let scene = Scene::tiny();
    let ledger = Ledger::default();
    scene.pull_watched(TINY, &|event| ledger.hear(event)).unwrap();
    let steps = ["list", "choose", "room", "verify", "verify", "verify", "finalize", "lock"];
    assert_eq!(ledger.lines(), steps);
}

#[test]
fn a_changed_byte_of_the_projector_brings_the_projector_again_and_nothing_else() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    let path = pulled.folder.join(PROJECTOR);
    rot(&path);
    let damaged = fs::read(&path).unwrap();
    File::options().write(true).open(&path).unwrap().set_modified(SystemTime::now()).unwrap();
    let before = scene.hub.requests().len();
    let again = scene.pull(TINY).unwrap();
    assert_eq!(scene.sent_since(before), [PROJECTOR]);
    assert_eq!(fs::read(&path).unwrap(), gguf(2));
    assert_eq!(codes(&again), ["trashed"]);
    let [trashed] = &scene.trash()[..] else { panic!("{:?}", scene.trash()) };
    assert_eq!(fs::read(&trashed.path).unwrap(), damaged);
    assert_eq!(trashed.reason, "it was not the file that was verified");
}

#[test]
fn rot_that_leaves_the_time_alone_is_found_by_a_verification_and_then_mended() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    rot(&pulled.folder.join(MODEL));
    let verify = || scene.store().verify(&pulled.payload, &|_, _| ()).unwrap();
    let reasons = || verify().files.iter().map(|file| file.verdict.reason()).collect::<Vec<_>>();
    assert_eq!(reasons(), ["sha256", "verified", "verified"]);
    let payload = scene.store().payload(&pulled.payload).unwrap();
    assert_eq!(payload.state(), PayloadState::Damaged);
    let refusal = payload.usable_model().unwrap_err();
    assert!(refusal.to_string().contains(&format!("{MODEL} is damaged")), "{refusal}");
    scene.pull(TINY).unwrap();
    assert_eq!(reasons(), ["verified"; 3]);
}

#[test]
fn a_file_that_was_only_touched_is_hashed_and_kept() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    let path = pulled.folder.join(MODEL);
    File::options().write(true).open(&path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    let sent = scene.hub.bytes_sent();
    scene.pull(TINY).unwrap();
    assert_eq!(scene.hub.bytes_sent(), sent);
    let payload = scene.store().payload(&pulled.payload).unwrap();
    assert_eq!(payload.state(), PayloadState::Complete);
}

#[test]
fn files_without_a_lock_are_taken_over_when_the_source_vouches_for_them() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    fs::remove_file(pulled.folder.join("payload.lock")).unwrap();
    let sent = scene.hub.bytes_sent();
    let again = scene.pull(TINY).unwrap();
    assert_eq!(scene.hub.bytes_sent(), sent);
    assert_eq!(again.lock, pulled.lock);
}

#[test]
fn a_pull_that_was_killed_before_its_files_got_their_names_resumes_at_finalize() {
    let scene = Scene::tiny();
    scene.pull_killed_at(TINY, "finalize", MODEL);
    assert!(scene.files().iter().all(|file| file.contains("/.partial/")), "{:?}", scene.files());
    let sent = scene.hub.bytes_sent();
    let pulled = scene.pull(TINY).unwrap();
    assert_eq!(scene.hub.bytes_sent(), sent);
    let total = pulled.lock.file.iter().map(|file| file.bytes).sum();
    assert_eq!(pulled.notes, [Note::Resumed { step: Step::Finalize, here: total }]);
    assert!(outcomes(&pulled).iter().all(|(_, outcome)| *outcome == FileOutcome::Resumed));
    assert_eq!(scene.files().len(), 4, "{:?}", scene.files());
}

#[test]
fn a_pull_that_was_killed_between_two_names_ends_well_too() {
    let scene = Scene::tiny();
    scene.pull_killed_at(TINY, "finalize", PROJECTOR);
    let sent = scene.hub.bytes_sent();
    let pulled = scene.pull(TINY).unwrap();
    assert_eq!(scene.hub.bytes_sent(), sent);
    assert_eq!(scene.files().len(), 4, "{:?}", scene.files());
    assert_eq!(fs::read(pulled.folder.join(MODEL)).unwrap(), gguf(1));
}

#[test]
fn files_that_were_verified_before_a_failure_are_not_brought_again() {
    let scene = Scene::tiny();
    let refusal = Fault::Answer(Answer::status(403));
    scene.hub.add(Rule::new(Place::Resolve, PROJECTOR, refusal));
    let error = scene.pull(TINY).unwrap_err();
    assert_eq!((error.step, error.reason()), (Step::Transfer, "auth"));
    assert!(error.to_string().contains("pull failed at transfer, mmproj-tiny-F16.gguf"), "{error}");
    scene.hub.behave();
    let before = scene.hub.requests().len();
    let pulled = scene.pull(TINY).unwrap();
    assert_eq!(scene.sent_since(before), [TEMPLATE, PROJECTOR]);
    let [Note::Resumed { step: Step::Transfer, here }] = pulled.notes[..] else {
        panic!("{:?}", pulled.notes)
    };
    assert_eq!(here, gguf(1).len() as u64);
}

#[test]
fn a_pull_that_brings_nothing_leaves_no_payload() {
    let scene = Scene::tiny();
    scene.hub.add(Rule::new(Place::Resolve, MODEL, Fault::Answer(Answer::status(403))));
    scene.pull(TINY).unwrap_err();
    assert_eq!(scene.files(), [] as [&str; 0]);
    assert!(scene.store().payloads().unwrap().is_empty());
}

#[test]
fn a_drive_without_room_is_said_before_the_first_byte() {
    let scene = Scene::new(vec![tiny(REPO).declaring(MODEL, 1 << 60)]);
    let error = scene.pull(TINY).unwrap_err();
    assert_eq!((error.step, error.reason()), (Step::Room, "disk_full"));
    assert_eq!(error.kind(), FailureKind::Failed);
    assert_eq!(scene.hub.bytes_sent(), 0);
    assert_eq!(scene.files(), [] as [&str; 0]);
}

#[test]
fn bytes_that_are_here_already_need_no_room() {
    let scene = Scene::tiny();
    scene.pull_killed_at(TINY, "finalize", MODEL);
    // The verified files count for nothing, and the rest is so small that only a wrong sum could refuse it.
    let rooms = std::cell::RefCell::new(Vec::new());
    let watch = |event: &frank_hub::store::PullEvent<'_>| {
        if let frank_hub::store::PullEvent::Done(frank_hub::store::Done::Room { need, .. }) = event
        {
            rooms.borrow_mut().push(*need);
        }
    };
    scene.pull_watched(TINY, &watch).unwrap();
    assert_eq!(rooms.into_inner(), [0]);
}

#[test]
fn a_file_that_another_payload_has_is_linked_and_not_fetched() {
    let scene = Scene::new(vec![
        tiny(REPO),
        Repository::new("org/other-GGUF").lfs("other-Q8_0.gguf", gguf(9)).lfs(PROJECTOR, gguf(2)),
    ]);
    let first = scene.pull(TINY).unwrap();
    let before = scene.hub.requests().len();
    let second = scene.pull("hf:org/other-GGUF:Q8_0").unwrap();
    assert_eq!(scene.sent_since(before), ["other-Q8_0.gguf"]);
    assert_eq!(codes(&second), ["linked"]);
    let inodes = [&first, &second].map(|pulled| inode(&pulled.folder.join(PROJECTOR)));
    assert_eq!(inodes[0], inodes[1]);
    scene.store().remove(&first.payload, "no longer wanted").unwrap();
    assert_eq!(fs::read(second.folder.join(PROJECTOR)).unwrap(), gguf(2));
}

#[test]
fn rot_in_a_file_that_two_payloads_share_is_mended_with_bytes_of_the_source() {
    let scene = Scene::new(vec![
        tiny(REPO),
        Repository::new("org/other-GGUF").lfs("other-Q8_0.gguf", gguf(9)).lfs(PROJECTOR, gguf(2)),
    ]);
    let first = scene.pull(TINY).unwrap();
    scene.pull("hf:org/other-GGUF:Q8_0").unwrap();
    rot(&first.folder.join(PROJECTOR));
    let verdicts = scene.store().verify(&first.payload, &|_, _| ()).unwrap();
    assert!(verdicts.files.iter().any(|file| file.verdict.reason() == "sha256"));
    scene.pull(TINY).unwrap();
    assert_eq!(fs::read(first.folder.join(PROJECTOR)).unwrap(), gguf(2));
}

#[test]
fn a_file_of_this_machine_is_copied_into_the_store() {
    let scene = Scene::tiny();
    let path = scene.path("local-Q8_0.gguf");
    fs::write(&path, gguf(5)).unwrap();
    let reference = format!("file:{}", path.display());
    let pulled = scene.pull(&reference).unwrap();
    assert_eq!(fs::read(pulled.folder.join("local-Q8_0.gguf")).unwrap(), gguf(5));
    assert_eq!(pulled.lock.file[0].sha256, Sha256::of(&gguf(5)));
    assert_ne!(
        inode(&path),
        inode(&pulled.folder.join("local-Q8_0.gguf")),
        "the file stays the user's"
    );
    assert_eq!(
        outcomes(&scene.pull(&reference).unwrap()),
        [("local-Q8_0.gguf", FileOutcome::Held)]
    );
}

fn fragment(number: usize) -> String {
    format!("frag-Q4_K_S.gguf.part{number}of2")
}

/// A hub with a model in two raw slices, and the model.
fn fragments() -> (Scene, Vec<u8>) {
    let whole = gguf(3);
    let (head, tail) = whole.split_at(whole.len() / 3);
    let raw = Repository::new(REPO).lfs(&fragment(1), head).lfs(&fragment(2), tail);
    (Scene::new(vec![raw]), whole)
}

#[test]
fn fragments_are_joined_and_what_only_looks_like_fragments_is_not() {
    let (scene, whole) = fragments();
    let pulled = scene.pull("hf:org/tiny-GGUF:q4_k_s").unwrap();
    let [file] = &pulled.lock.file[..] else { panic!("{:?}", pulled.lock) };
    assert_eq!((file.sha256, file.fragment.len()), (Sha256::of(&whole), 2));
    assert_eq!(fs::read(pulled.folder.join(&file.name)).unwrap(), whole);
    let sent = scene.hub.bytes_sent();
    scene.pull("hf:org/tiny-GGUF:q4_k_s").unwrap();
    assert_eq!(scene.hub.bytes_sent(), sent);

    let whole_files = Repository::new(REPO).lfs(&fragment(1), gguf(1)).lfs(&fragment(2), gguf(2));
    let scene = Scene::new(vec![whole_files]);
    let error = scene.pull("hf:org/tiny-GGUF:q4_k_s").unwrap_err();
    assert_eq!((error.step, error.reason()), (Step::Verify, "join"), "{error}");
    assert_eq!(error.kind(), FailureKind::Verification);
    assert_eq!(scene.files(), [] as [&str; 0]);
}

#[test]
fn fragments_on_a_web_server_are_joined_though_it_declares_no_sizes() {
    let (scene, whole) = fragments();
    let pulled = scene.pull(&scene.hub.web_address(REPO, &fragment(2))).unwrap();
    let [file] = &pulled.lock.file[..] else { panic!("{:?}", pulled.lock) };
    assert_eq!((file.sha256, file.fragment.len()), (Sha256::of(&whole), 2));
    assert_eq!(fs::read(pulled.folder.join(&file.name)).unwrap(), whole);
}

#[test]
fn a_web_address_that_gives_no_model_is_refused_unless_a_digest_vouches_for_it() {
    let scene = Scene::new(vec![Repository::new(REPO).lfs("odd.gguf", "no model at all")]);
    let address = scene.hub.web_address(REPO, "odd.gguf");
    let error = scene.pull(&address).unwrap_err();
    assert_eq!((error.step, error.reason()), (Step::Verify, "not_gguf"), "{error}");
    assert_eq!(scene.files(), [] as [&str; 0]);
    let sha256 = Sha256::of(b"no model at all");
    scene.pull(&format!("{address}#sha256={sha256}")).unwrap();
}

#[test]
fn a_name_is_pulled_from_where_it_came_from() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    fs::remove_file(pulled.folder.join(MODEL)).unwrap();
    let again = scene.pull(&pulled.payload).unwrap();
    assert_eq!(again.lock.source, TINY);
    assert_eq!(fs::read(pulled.folder.join(MODEL)).unwrap(), gguf(1));
    let error = scene.pull("nothing-of-this-name").unwrap_err();
    assert_eq!((error.reason(), error.kind()), ("unknown", FailureKind::Input));
}

#[test]
fn an_interrupted_pull_keeps_what_came_and_says_that_it_was_interrupted() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    let scene = Scene::tiny();
    let flag = Arc::new(AtomicBool::new(false));
    let store = scene.store().with_interrupt(Arc::clone(&flag));
    let watch = |event: frank_hub::store::PullEvent<'_>| {
        if let frank_hub::store::PullEvent::Done(frank_hub::store::Done::Verify { file, .. }) =
            event
        {
            flag.store(file == TEMPLATE, Ordering::Relaxed);
        }
    };
    let options = frank_hub::store::PullOptions::default();
    let error = store.pull(&scene.upstream(), &parse(TINY), options, &watch).unwrap_err();
    assert_eq!(error.kind(), FailureKind::Interrupted);
    assert_eq!(error.step, Step::Finalize);
    let sent = scene.hub.bytes_sent();
    scene.pull(TINY).unwrap();
    assert_eq!(scene.hub.bytes_sent(), sent);
}

/// What [`TINY`] brings without the projector.
pub(crate) const FEWER: &str = "hf:org/tiny-GGUF:Q4_K_M,-mmproj";

#[test]
fn fewer_words_leave_what_came_for_more_words_and_these_take_it_up() {
    let scene = half_a_projector();
    let half = here(&scene);
    let fewer = scene.pull(FEWER).unwrap();
    assert!(fewer.lock.file(PROJECTOR).is_none());
    let payload = scene.store().payload(&fewer.payload).unwrap();
    assert_eq!(payload.state(), PayloadState::Complete, "what is on its way does not count");
    assert_eq!(here(&scene), half);
    // A second one, for which nothing is to be done, and one that fails.
    scene.pull(FEWER).unwrap();
    fs::remove_file(fewer.folder.join(MODEL)).unwrap();
    scene.hub.add(Rule::new(Place::Resolve, MODEL, Fault::Answer(Answer::status(403))));
    scene.pull(FEWER).unwrap_err();
    assert_eq!(here(&scene), half);
    scene.hub.behave();
    let sent = scene.hub.bytes_sent();
    scene.pull(TINY).unwrap();
    let whole = PROJECTOR_BYTES + gguf(1).len() as u64;
    assert!(scene.hub.bytes_sent() - sent <= whole - half, "what was here came again");
    assert_eq!(fs::read(fewer.folder.join(PROJECTOR)).unwrap().len() as u64, PROJECTOR_BYTES);
    assert!(scene.files().iter().all(|file| !file.contains("/.partial/")), "{:?}", scene.files());
}

#[test]
fn a_whole_file_that_fewer_words_do_not_want_waits_for_more_words() {
    let scene = Scene::tiny();
    scene.pull_killed_at(TINY, "finalize", MODEL);
    let fewer = scene.pull(FEWER).unwrap();
    assert_eq!(fewer.files.len(), 2);
    let sent = scene.hub.bytes_sent();
    let again = scene.pull(TINY).unwrap();
    assert_eq!(scene.hub.bytes_sent(), sent);
    assert!(outcomes(&again).contains(&(PROJECTOR, FileOutcome::Resumed)), "{again:?}");
    assert_eq!(scene.files().len(), 4, "{:?}", scene.files());
}

#[test]
fn what_waits_for_more_words_starts_over_when_the_source_has_other_bytes_by_then() {
    let scene = half_a_projector();
    scene.pull(FEWER).unwrap();
    scene.hub.shelf().push(REPO, PROJECTOR, gguf(22));
    let pulled = scene.pull(TINY).unwrap();
    assert!(codes(&pulled).contains(&"starts_over"), "{:?}", pulled.notes);
    assert_eq!(fs::read(pulled.folder.join(PROJECTOR)).unwrap(), gguf(22));
}

const PROJECTOR_BYTES: u64 = 4 << 20;

/// A pull that the source ended in the middle of the projector, when the model was whole.
pub(crate) fn half_a_projector() -> Scene {
    let projector = Content::seeded(5, PROJECTOR_BYTES);
    let repository = Repository::new(REPO).lfs(MODEL, gguf(1)).lfs(PROJECTOR, projector);
    let scene = Scene::new(vec![repository.git(TEMPLATE, "{{ messages }}")]);
    let refusal = Fault::Answer(Answer::status(403));
    scene.hub.add(Rule::new(Place::Bytes, PROJECTOR, refusal).sparing(2));
    let error = scene.pull(TINY).unwrap_err();
    assert_eq!((error.step, error.file.as_deref()), (Step::Transfer, Some(PROJECTOR)), "{error}");
    scene.hub.behave();
    scene
}

/// Bytes of the projector that are on their way.
fn here(scene: &Scene) -> u64 {
    let [payload] = &scene.store().payloads().unwrap()[..] else { panic!("not one payload") };
    let file = payload.files.iter().find(|file| file.name == PROJECTOR).expect("it is on its way");
    let FileState::Partial { here } = file.state else { panic!("{file:?}") };
    assert!(here > 0, "{file:?}");
    here
}
