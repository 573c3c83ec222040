//! A file without a name: nothing in its folder until it gets one, and never in place of another.

use std::io::Write;

use frank_os::NamelessFile;

#[test]
fn a_file_is_seen_only_when_it_has_its_name_and_never_replaces_one() {
    let dir = tempfile::tempdir().expect("a folder");
    let listed = || std::fs::read_dir(dir.path()).expect("the folder").count();
    // A file system without such files has nothing to show.
    let Some(file) = NamelessFile::create_in(dir.path()).expect("a folder to write to") else {
        return;
    };
    file.as_file().write_all(b"whole").expect("written");
    assert_eq!((listed(), std::fs::read(file.path()).expect("read")), (0, b"whole".to_vec()));
    let path = dir.path().join("name");
    std::fs::write(&path, "mine").expect("written");
    let error = file.give_name(&path).expect_err("it is taken");
    assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    std::fs::remove_file(&path).expect("removed");
    file.give_name(&path).expect("it is free");
    drop(file);
    assert_eq!((listed(), std::fs::read(&path).expect("read")), (1, b"whole".to_vec()));
}

#[test]
fn a_folder_that_is_not_there_is_an_error() {
    let dir = tempfile::tempdir().expect("a folder");
    assert!(NamelessFile::create_in(&dir.path().join("none")).is_err());
}
