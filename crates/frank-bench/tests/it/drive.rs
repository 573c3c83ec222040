//! A drive of this machine. How fast it is is nothing to assert.

use std::path::Path;
use std::time::Duration;

use frank_bench::{DriveError, drive_rate};

#[test]
fn a_drive_is_read_and_nothing_is_left_of_the_file() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    match drive_rate(folder.path(), Duration::from_millis(50)) {
        Ok(rate) => assert!(rate.bandwidth > 0.0, "{rate:?}"),
        // A full disk, or a folder in memory: refused before anything was made.
        Err(DriveError::NoRoom { .. } | DriveError::InMemory) => {}
        Err(error) => panic!("{error}"),
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_folder_in_memory_is_no_drive() {
    let shared_memory = Path::new("/dev/shm");
    if !shared_memory.is_dir() {
        return;
    }
    let error = drive_rate(shared_memory, Duration::ZERO).unwrap_err();
    assert!(matches!(error, DriveError::InMemory), "{error}");
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let error = drive_rate(Path::new("/no/such/folder"), Duration::ZERO).unwrap_err();
    assert!(error.to_string().contains("/no/such/folder"), "{error}");
}
