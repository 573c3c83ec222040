//! Small files read whole: bounded, pipes included, and never a wait for a writer that is not there.

use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use frank_os::{SmallFileError, read_small_file};

#[test]
fn a_file_is_read_up_to_its_bound() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("keys");
    std::fs::write(&path, b"12345").expect("written");
    assert_eq!(read_small_file(&path, 5).expect("it fits"), b"12345");
    let error = read_small_file(&path, 4).expect_err("it does not fit");
    assert!(matches!(error, SmallFileError::TooLarge { bytes_max: 4 }), "{error}");
    let error = read_small_file(Path::new("/dev/zero"), 1000).expect_err("it has no end");
    assert!(matches!(error, SmallFileError::TooLarge { .. }), "{error}");
    for (path, said) in [(dir.path(), "Is a directory"), (Path::new("/no/such"), "No such file")] {
        let error = read_small_file(path, 5).expect_err("no file");
        assert!(error.to_string().starts_with(said), "{error}");
    }
}

#[test]
fn a_pipe_is_read_until_its_writers_close_it() {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let path = PathBuf::from(format!("/dev/fd/{}", reader.as_raw_fd()));
    let bytes = vec![7; 1 << 20];
    let written = bytes.clone();
    // More than a pipe holds: the writer waits for the reader, and the reader for the rest.
    let writing = std::thread::spawn(move || writer.write_all(&written).expect("it is read"));
    assert!(read_small_file(&path, 1 << 20).expect("it fits") == bytes);
    writing.join().expect("written");
}

#[test]
fn a_pipe_without_a_writer_is_refused_and_not_waited_for() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo runs").success());
    let error = read_small_file(&path, 100).expect_err("nobody writes");
    assert!(matches!(error, SmallFileError::NoWriter), "{error}");
}
