//! Files of this machine that become others while they are copied: named, and never called complete.

use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use frank_hub::FailureKind;
use frank_hub::store::{Done, PullError, PullEvent, Step};
use frank_testkit::gguf_writer::GgufWriter;

use crate::store_scene::Scene;

/// A model of some megabytes in the folder of the scene, so that it is copied in several pieces.
fn model(scene: &Scene) -> PathBuf {
    let path = scene.path("local-F32.gguf");
    let values = vec![1.0; 1 << 20];
    fs::write(&path, GgufWriter::new("llama").f32_tensor("x", &[1 << 20], &values).to_bytes())
        .unwrap();
    // Whatever the ticks of the clock are, a write has another time.
    let file = File::options().write(true).open(&path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    path
}

/// A pull of `path` during which `change` happens once to it, when `is_time` for that.
fn pull_changed(
    scene: &Scene,
    path: &Path,
    is_time: impl Fn(&PullEvent<'_>) -> bool,
    change: impl Fn(&Path),
) -> PullError {
    let is_done = std::cell::Cell::new(false);
    let watch = |event: &PullEvent<'_>| {
        if is_time(event) && !is_done.replace(true) {
            change(path);
        }
    };
    let error = scene.pull_watched(&format!("file:{}", path.display()), &watch).unwrap_err();
    assert!(is_done.get(), "{error}");
    error
}

fn is_copying(event: &PullEvent<'_>) -> bool {
    matches!(event, PullEvent::Progress { step: Step::Transfer, .. })
}

fn grow(path: &Path) {
    File::options().append(true).open(path).unwrap().write_all(b"more").unwrap();
}

fn cut(path: &Path) {
    File::options().write(true).open(path).unwrap().set_len(1 << 21).unwrap();
}

fn write_into(path: &Path) {
    let mut file = File::options().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(64)).unwrap();
    file.write_all(b"other").unwrap();
}

#[test]
fn a_file_that_grows_shrinks_or_is_written_to_while_it_is_copied_is_named_and_not_kept() {
    let scene = Scene::tiny();
    for change in [grow, cut, write_into] {
        let path = model(&scene);
        let error = pull_changed(&scene, &path, is_copying, change);
        assert_eq!((error.step, error.reason()), (Step::Transfer, "changed"), "{error}");
        assert_eq!(error.kind(), FailureKind::Verification);
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        assert_eq!(scene.files(), [] as [&str; 0]);
    }
    let path = model(&scene);
    scene.pull(&format!("file:{}", path.display())).unwrap();
}

#[test]
fn a_file_that_is_another_than_was_listed_is_refused_before_it_is_copied() {
    let scene = Scene::tiny();
    let is_chosen = |event: &PullEvent<'_>| matches!(event, PullEvent::Done(Done::Choose { .. }));
    for change in [grow, cut] {
        let path = model(&scene);
        let error = pull_changed(&scene, &path, is_chosen, change);
        assert_eq!((error.reason(), error.kind()), ("size", FailureKind::Verification), "{error}");
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        assert_eq!(scene.files(), [] as [&str; 0]);
    }
}

#[test]
fn a_piece_that_grows_is_told_from_those_that_stay() {
    let scene = Scene::tiny();
    let whole = fs::read(model(&scene)).unwrap();
    let (head, tail) = whole.split_at(whole.len() / 3);
    let paths = [1, 2].map(|no| scene.path(&format!("frag-F32.gguf.part{no}of2")));
    fs::write(&paths[0], head).unwrap();
    fs::write(&paths[1], tail).unwrap();
    let error = pull_changed(&scene, &paths[1], is_copying, grow);
    assert_eq!(error.reason(), "changed", "{error}");
    let told = error.to_string();
    assert!(told.contains("part2of2 was changed") && !told.contains("part1of2"), "{error}");
}
