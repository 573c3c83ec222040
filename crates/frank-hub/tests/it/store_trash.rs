//! Removing payloads, the trash, and getting them back.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use frank_hub::store::{Pulled, StoreError, Trashed};
use frank_hub::{FailureKind, Store};
use tempfile::TempDir;

use crate::store_scene::{MODEL, PROJECTOR, REPO, Scene, TINY, gguf};

#[test]
fn a_payload_that_was_removed_comes_back_byte_for_byte() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    let before = scene.files();
    let removed = scene.store().remove(&pulled.payload, "redundant").unwrap();
    assert!(!pulled.folder.exists());
    let listed = scene.trash();
    assert_eq!(listed, std::slice::from_ref(&removed));
    assert_eq!(listed[0].reason, "redundant");
    assert_eq!(listed[0].from, Some(pulled.folder.clone()));
    let files: u64 = pulled.lock.file.iter().map(|file| file.bytes).sum();
    assert!(listed[0].bytes >= files, "{} of {files}", listed[0].bytes);
    scene.store().restore(&removed.id).unwrap();
    assert_eq!(scene.files(), before);
    assert_eq!(fs::read(pulled.folder.join(MODEL)).unwrap(), gguf(1));
    assert!(scene.trash().is_empty());
    let sent = scene.hub.bytes_sent();
    scene.pull(TINY).unwrap();
    assert_eq!(scene.hub.bytes_sent(), sent, "what came back is still verified");
}

#[test]
fn nothing_is_restored_over_something_else() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    let removed = scene.store().remove(&pulled.payload, "old").unwrap();
    scene.pull(TINY).unwrap();
    let error = scene.store().restore(&removed.id).unwrap_err();
    assert!(matches!(&error, StoreError::Occupied { path } if *path == pulled.folder), "{error}");
    let error = scene.store().restore("2000-01-01/none").unwrap_err();
    assert_eq!((error.reason(), error.kind()), ("not_in_trash", FailureKind::Input));
}

#[test]
fn a_payload_that_a_generation_needs_stays_and_the_refusal_lists_them_all() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    let used_by = pulled.folder.join("used-by");
    fs::create_dir(&used_by).unwrap();
    fs::write(used_by.join("chat.12"), "current\n").unwrap();
    fs::write(used_by.join("chat.11"), "rollback\n").unwrap();
    let error = scene.store().remove(&pulled.payload, "space").unwrap_err();
    assert_eq!((error.reason(), error.kind()), ("in_use", FailureKind::Refused));
    let told = "chat generation 11 (rollback), chat generation 12 (current)";
    assert!(error.to_string().ends_with(told), "{error}");
    assert!(pulled.folder.join(MODEL).exists());
    for file in ["chat.11", "chat.12"] {
        fs::remove_file(used_by.join(file)).unwrap();
    }
    scene.store().remove(&pulled.payload, "space").unwrap();
}

#[test]
fn a_name_that_is_not_there_is_answered_with_those_that_are_like_it() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    let error = scene.store().remove("TINY", "").unwrap_err();
    assert!(error.to_string().contains(&pulled.payload), "{error}");
    let error = Scene::tiny().store().payload("tiny").unwrap_err();
    assert_eq!(error.to_string(), "the store has no payload `tiny`; it is empty");
}

#[test]
fn a_partial_payload_can_be_removed() {
    let scene = Scene::tiny();
    scene.pull_killed_at(TINY, "finalize", MODEL);
    let [payload] = &scene.store().payloads().unwrap()[..] else { panic!("one payload") };
    scene.store().remove(&payload.name, "wrong one").unwrap();
    assert!(scene.store().payloads().unwrap().is_empty());
}

/// A folder on another drive than the scene's; `None` where the machine has no such drive.
fn other_drive(scene: &Scene) -> Option<TempDir> {
    let dir = tempfile::tempdir_in(fs::canonicalize("/dev/shm").ok()?).ok()?;
    let drive = |path: &Path| fs::metadata(path).unwrap().dev();
    (drive(dir.path()) != drive(&scene.path(""))).then_some(dir)
}

/// A scene whose `models` is a link to a folder on another drive.
fn linked_elsewhere() -> Option<(Scene, TempDir)> {
    let scene = Scene::tiny();
    let drive = other_drive(&scene)?;
    fs::create_dir(drive.path().join("models")).unwrap();
    symlink(drive.path().join("models"), scene.path("models")).unwrap();
    Some((scene, drive))
}

#[test]
fn a_payload_on_another_drive_behind_a_link_is_removed_there_and_comes_back() {
    let Some((scene, drive)) = linked_elsewhere() else { return };
    let pulled = scene.pull(TINY).unwrap();
    let before = scene.files();
    let removed = scene.store().remove(&pulled.payload, "space").unwrap();
    assert!(removed.path.starts_with(drive.path().join("trash")), "{removed:?}");
    assert!(!pulled.folder.exists());
    assert_eq!(scene.trash(), std::slice::from_ref(&removed));
    scene.store().restore(&removed.id).unwrap();
    assert_eq!(scene.files(), before);
    assert_eq!(fs::read(pulled.folder.join(MODEL)).unwrap(), gguf(1));
    assert!(scene.trash().is_empty());
}

#[test]
fn a_refresh_on_another_drive_behind_a_link_keeps_the_old_file_there() {
    let Some((scene, drive)) = linked_elsewhere() else { return };
    let pulled = scene.pull(TINY).unwrap();
    scene.hub.shelf().push(REPO, PROJECTOR, gguf(22));
    scene.refresh(TINY).unwrap();
    assert_eq!(fs::read(pulled.folder.join(PROJECTOR)).unwrap(), gguf(22));
    let [trashed] = &scene.trash()[..] else { panic!("{:?}", scene.trash()) };
    assert!(trashed.path.starts_with(drive.path()), "{trashed:?}");
    assert_eq!(fs::read(&trashed.path).unwrap(), gguf(2));
    fs::remove_file(pulled.folder.join(PROJECTOR)).unwrap();
    scene.store().restore(&trashed.id).unwrap();
    assert_eq!(fs::read(pulled.folder.join(PROJECTOR)).unwrap(), gguf(2));
}

#[test]
fn a_payload_that_is_itself_a_link_to_another_drive_has_its_trash_there() {
    let scene = Scene::tiny();
    let Some(drive) = other_drive(&scene) else { return };
    let pulled = scene.pull(TINY).unwrap();
    let elsewhere = drive.path().join("payload");
    let copied = Command::new("cp").arg("-a").args([&pulled.folder, &elsewhere]).status().unwrap();
    assert!(copied.success());
    fs::remove_dir_all(&pulled.folder).unwrap();
    symlink(&elsewhere, &pulled.folder).unwrap();
    scene.hub.shelf().push(REPO, PROJECTOR, gguf(22));
    scene.refresh(TINY).unwrap();
    let [trashed] = &scene.trash()[..] else { panic!("{:?}", scene.trash()) };
    assert_eq!(fs::read(&trashed.path).unwrap(), gguf(2));
    assert!(trashed.path.canonicalize().unwrap().starts_with(&elsewhere), "{trashed:?}");
    assert_eq!(trashed.from, Some(pulled.folder.join(PROJECTOR)));
    // Of the payload, only the link is in the store.
    let removed = scene.store().remove(&pulled.payload, "").unwrap();
    assert!(elsewhere.join(MODEL).exists() && removed.path.is_symlink());
    scene.store().restore(&removed.id).unwrap();
    assert_eq!(fs::read(pulled.folder.join(MODEL)).unwrap(), gguf(1));
}

#[test]
fn what_would_have_to_be_copied_to_come_back_is_left_where_it_is() {
    let scene = Scene::tiny();
    let Some(drive) = other_drive(&scene) else { return };
    let pulled = scene.pull(TINY).unwrap();
    let removed = scene.store().remove(&pulled.payload, "").unwrap();
    // The folder of all payloads moves to another drive, and the trash stays.
    fs::remove_dir_all(scene.path("models")).unwrap();
    fs::create_dir(drive.path().join("models")).unwrap();
    symlink(drive.path().join("models"), scene.path("models")).unwrap();
    let error = scene.store().restore(&removed.id).unwrap_err();
    assert_eq!((error.reason(), error.kind()), ("io", FailureKind::Failed), "{error}");
    let hint = error.hint().unwrap();
    assert!(hint.contains(&removed.path.display().to_string()), "{hint}");
    assert_eq!(scene.trash(), [removed]);
}

/// A payload that was pulled and removed.
fn removed(scene: &Scene) -> (Pulled, Trashed) {
    let pulled = scene.pull(TINY).unwrap();
    let removed = scene.store().remove(&pulled.payload, "old").unwrap();
    (pulled, removed)
}

/// Where the note of a thing in the trash is.
fn note(trashed: &Trashed) -> PathBuf {
    let name = trashed.path.file_name().unwrap().to_str().unwrap();
    trashed.path.with_file_name(format!(".{name}.toml"))
}

/// Makes the note of a thing in the trash say that it was at `from`.
fn write_note(trashed: &Trashed, from: &str) {
    let text = format!("from = {from:?}\nreason = \"old\"\nbytes = {}\n", trashed.bytes);
    fs::write(note(trashed), text).unwrap();
}

#[test]
fn a_store_that_was_moved_restores_to_where_it_is_now() {
    let scene = Scene::tiny();
    let (pulled, removed) = removed(&scene);
    let text = fs::read_to_string(note(&removed)).unwrap();
    assert!(text.contains(&format!("from = \"{}\"\n", pulled.payload)), "{text}");
    fs::create_dir(scene.path("moved")).unwrap();
    for folder in ["models", "trash"] {
        fs::rename(scene.path(folder), scene.path(&format!("moved/{folder}"))).unwrap();
    }
    let store = Store::at(scene.path("moved/models"));
    let folder = scene.path("moved/models").join(&pulled.payload);
    assert_eq!(store.trash().unwrap()[0].from.as_ref(), Some(&folder));
    store.restore(&removed.id).unwrap();
    assert_eq!(fs::read(folder.join(MODEL)).unwrap(), gguf(1));
    assert!(!pulled.folder.exists());
}

#[test]
fn a_note_of_an_older_version_is_understood_wherever_the_store_was() {
    let scene = Scene::tiny();
    let (pulled, removed) = removed(&scene);
    for models in [scene.path("models"), PathBuf::from("/old/home/frank/models")] {
        let from = models.join(&pulled.payload);
        write_note(&removed, from.to_str().unwrap());
        let restored = scene.store().restore(&removed.id).unwrap();
        assert_eq!(restored.from.as_ref(), Some(&pulled.folder));
        assert!(pulled.folder.join(MODEL).exists());
        let again = scene.store().remove(&pulled.payload, "old").unwrap();
        assert_eq!(again.id, removed.id);
    }
}

#[test]
fn a_note_that_leads_out_of_the_store_restores_nothing() {
    let scene = Scene::tiny();
    let (pulled, removed) = removed(&scene);
    let escapes = [
        "../outside".to_owned(),
        format!("{}/../../outside", pulled.payload),
        "/etc/frank".to_owned(),
        "/old/models/../outside".to_owned(),
        ".locks/outside".to_owned(),
        "a/b/outside".to_owned(),
        scene.path("models/../outside").display().to_string(),
        String::new(),
    ];
    for from in escapes {
        write_note(&removed, &from);
        let error = scene.store().restore(&removed.id).unwrap_err();
        let told = (error.reason(), error.kind());
        assert_eq!(told, ("outside_store", FailureKind::Input), "{from}: {error}");
        assert!(error.to_string().contains(&from), "{error}");
        assert!(error.hint().unwrap().contains(removed.path.to_str().unwrap()), "{error:?}");
        assert!(removed.path.join(MODEL).exists(), "{from}");
        assert!(!scene.path("outside").exists(), "{from}");
    }
    write_note(&removed, &pulled.payload);
    scene.store().restore(&removed.id).unwrap();
}

#[test]
fn a_note_that_cannot_be_read_hides_nothing_of_the_trash() {
    let scene = Scene::tiny();
    let (_, removed) = removed(&scene);
    fs::remove_file(note(&removed)).unwrap();
    assert!(Command::new("mkfifo").arg(note(&removed)).status().unwrap().success());
    let [listed] = &scene.trash()[..] else { panic!("{:?}", scene.trash()) };
    assert_eq!((&listed.path, &listed.from, listed.bytes), (&removed.path, &None, removed.bytes));
    let error = scene.store().restore(&removed.id).unwrap_err();
    assert_eq!(error.reason(), "no_origin");
}

#[test]
fn a_trash_that_cannot_be_made_beside_the_store_is_made_inside_of_it() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    // Nobody makes a folder there, whoever they are.
    symlink("/sys/kernel", scene.path("trash")).unwrap();
    let removed = scene.store().remove(&pulled.payload, "").unwrap();
    assert!(removed.path.starts_with(scene.path("models/.trash")), "{removed:?}");
    assert!(scene.store().payloads().unwrap().is_empty());
    scene.store().restore(&removed.id).unwrap();
    assert_eq!(fs::read(pulled.folder.join(MODEL)).unwrap(), gguf(1));
}

#[test]
fn what_stands_in_the_place_of_the_trash_is_named() {
    let scene = Scene::tiny();
    let pulled = scene.pull(TINY).unwrap();
    let trash = scene.path("trash");
    assert!(Command::new("mkfifo").arg(&trash).status().unwrap().success());
    let error = scene.store().remove(&pulled.payload, "old").unwrap_err();
    let told = with_causes(&error);
    assert!(told.contains(&format!("{} is a pipe, not a folder", trash.display())), "{told}");
    let told = with_causes(&scene.store().trash().unwrap_err());
    assert!(told.contains(&format!("{} is a pipe, not a folder", trash.display())), "{told}");
    fs::remove_file(&trash).unwrap();
    let removed = scene.store().remove(&pulled.payload, "old").unwrap();
    let day = removed.path.parent().unwrap().to_owned();
    scene.store().restore(&removed.id).unwrap();
    fs::remove_dir(&day).unwrap();
    fs::write(&day, "a file").unwrap();
    let told = with_causes(&scene.store().remove(&pulled.payload, "old").unwrap_err());
    assert!(told.contains(&format!("{} is a file, not a folder", day.display())), "{told}");
    assert!(pulled.folder.join(MODEL).exists());
}

/// An error with all its causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut told = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        told = format!("{told}: {cause}");
        source = cause.source();
    }
    told
}
