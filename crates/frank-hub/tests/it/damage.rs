//! Files in the store that are not what they were, and locks that do not tell the truth.

use std::cell::Cell;
use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use frank_hub::{Expected, FailureKind, FetchError, Stage};

use crate::fake_pip::{FakePip, REFERENCE, STORED, expected, noise, parse};

/// A registry and a store that has the model already.
fn fetched(content: &[u8]) -> FakePip {
    let pip = FakePip::with_model(content);
    pip.fetch(REFERENCE, &expected(content)).unwrap();
    pip
}

/// Overwrites the stored file, with a modification time that is not the old one.
fn overwrite(pip: &FakePip, content: &[u8]) {
    fs::write(pip.path(STORED), content).unwrap();
    touch(pip);
}

fn touch(pip: &FakePip) {
    let later = SystemTime::now() + Duration::from_secs(60);
    File::options().write(true).open(pip.path(STORED)).unwrap().set_modified(later).unwrap();
}

fn check_refetched(pip: &FakePip, content: &[u8], damaged: &[u8]) {
    pip.fetch(REFERENCE, &expected(content)).unwrap();
    assert_eq!(pip.calls().len(), 2);
    assert_eq!(fs::read(pip.path(STORED)).unwrap(), content);
    let files = pip.stored_files();
    assert_eq!(files[..2], ["models/tiny/payload.lock", STORED]);
    let [trashed] = &files[2..] else { panic!("{files:?}") };
    assert!(trashed.starts_with("trash/20") && trashed.ends_with("/tiny.gguf"), "{trashed}");
    assert_eq!(fs::read(pip.path(trashed)).unwrap(), damaged);
}

#[test]
fn a_flipped_bit_sends_the_file_to_the_trash_and_fetches_it_anew() {
    let content = noise(5000);
    let pip = fetched(&content);
    let mut damaged = content.clone();
    damaged[2500] ^= 1;
    overwrite(&pip, &damaged);
    check_refetched(&pip, &content, &damaged);
}

#[test]
fn a_cut_off_file_goes_to_the_trash_and_is_fetched_anew() {
    let content = noise(5000);
    let pip = fetched(&content);
    overwrite(&pip, &content[..1000]);
    check_refetched(&pip, &content, &content[..1000]);
}

#[test]
fn a_file_that_was_only_touched_is_hashed_once_and_kept() {
    let content = noise(5000);
    let pip = fetched(&content);
    touch(&pip);
    let hashed = Cell::new(0);
    for _ in 0..2 {
        let watch = |progress: frank_hub::Progress| {
            assert_eq!(progress.stage, Stage::Check);
            hashed.set(hashed.get() + progress.bytes);
        };
        pip.store().fetch(&parse(REFERENCE), &expected(&content), &watch).unwrap();
    }
    assert_eq!(hashed.get(), 5000);
    assert_eq!(pip.calls().len(), 1);
}

#[test]
fn a_file_without_a_lock_is_kept_when_its_digest_is_the_expected_one() {
    let content = noise(5000);
    let pip = fetched(&content);
    fs::remove_file(pip.path("models/tiny/payload.lock")).unwrap();
    pip.fetch(REFERENCE, &expected(&content)).unwrap();
    assert_eq!(pip.calls().len(), 1);
    assert_eq!(pip.stored_files(), ["models/tiny/payload.lock", STORED]);
}

#[test]
fn a_file_without_a_lock_that_nobody_can_vouch_for_is_fetched_anew() {
    let content = noise(5000);
    let pip = fetched(&content);
    fs::remove_file(pip.path("models/tiny/payload.lock")).unwrap();
    pip.fetch(REFERENCE, &Expected::default()).unwrap();
    check_refetched(&pip, &content, &content);
}

#[test]
fn an_unreadable_lock_counts_as_none() {
    for lock in [&b"source = "[..], b"\xff\xfe", b"[[file]]\nname = 7\n", b""] {
        let content = noise(5000);
        let pip = fetched(&content);
        fs::write(pip.path("models/tiny/payload.lock"), lock).unwrap();
        pip.fetch(REFERENCE, &expected(&content)).unwrap();
        assert_eq!(pip.calls().len(), 1, "{lock:?}");
    }
}

#[test]
fn a_wrong_expectation_does_not_throw_away_a_good_file() {
    let content = noise(5000);
    let pip = fetched(&content);
    let other = noise(4999);
    let error = pip.fetch(REFERENCE, &expected(&other)).unwrap_err();
    assert!(matches!(error, FetchError::Size { got: 5000, want: 4999, .. }), "{error}");
    assert_eq!(error.kind(), FailureKind::Verification);
    assert_eq!(pip.calls().len(), 1);
    assert_eq!(pip.stored_files(), ["models/tiny/payload.lock", STORED]);
}

#[test]
fn a_name_that_another_source_has_is_refused_unless_the_bytes_are_the_same() {
    let content = noise(5000);
    let pip = fetched(&content);
    let other = "pip:other==3.0#d/tiny.gguf";
    let error = pip.fetch(other, &Expected::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("the store holds `tiny` from {REFERENCE}, not from {other}")
    );
    assert_eq!(error.kind(), FailureKind::Input);
    assert_eq!(pip.fetch(other, &expected(&content)).unwrap(), pip.path(STORED));
    assert_eq!(pip.calls().len(), 1);
}
