//! A disk cache in a directory that is somebody else's, that was damaged, or that is gone.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use frank_engine::{DiskCache, DiskCacheError, Stored};
use tempfile::TempDir;

use crate::disk_cache::{
    AMPLE, CHARGE, MODEL, OTHER_MODEL, files, key, load, open, payload, store,
};

#[test]
fn nobody_else_may_read_what_is_cached() {
    let dir = TempDir::new().unwrap();
    let place = dir.path().join("new/cache");
    store(&open(&place, AMPLE), 1, None);
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&place), 0o700);
    for file in files(&place) {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
        assert_eq!(mode(file.parent().unwrap()), 0o700);
        assert_eq!(mode(file.parent().unwrap().parent().unwrap()), 0o700);
    }
    assert_eq!(mode(&place.join("frank-cache.lock")), 0o600);
    fs::set_permissions(&place, Permissions::from_mode(0o755)).unwrap();
    drop(open(&place, AMPLE));
    assert_eq!(mode(&place), 0o700, "rights that were too wide are taken back");
}

#[test]
fn a_directory_that_is_not_ours_is_refused_and_left_as_it_was() {
    let dir = TempDir::new().unwrap();
    let refused = |path: &Path| DiskCache::open(path, AMPLE, MODEL).expect_err("refused");
    let file = dir.path().join("file");
    fs::write(&file, "text").unwrap();
    assert!(matches!(refused(&file), DiskCacheError::NotADirectory { .. }));
    assert!(matches!(refused(&file.join("below")), DiskCacheError::NotADirectory { .. }));
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let error = refused(dir.path());
    assert!(matches!(error, DiskCacheError::NotACache { .. }), "{error}");
    assert!(error.to_string().contains("\"file\""), "{error}");
    assert_eq!(fs::metadata(dir.path()).unwrap().mode() & 0o777, 0o755);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn entries_that_others_could_have_written_are_not_believed() {
    let dir = TempDir::new().unwrap();
    store(&open(dir.path(), AMPLE), 1, None);
    fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
    let error = DiskCache::open(dir.path(), AMPLE, MODEL).expect_err("refused");
    assert!(matches!(error, DiskCacheError::WritableByOthers { mode: 0o777, .. }), "{error}");
}

#[test]
fn a_directory_serves_one_process_at_a_time() {
    let dir = TempDir::new().unwrap();
    let first = open(dir.path(), AMPLE);
    let error = DiskCache::open(dir.path(), AMPLE, OTHER_MODEL).expect_err("it is locked");
    assert!(matches!(error, DiskCacheError::InUse { .. }), "{error}");
    assert_eq!(store(&first, 1, None), Stored::Written);
    drop(first);
    open(dir.path(), AMPLE);
}

/// Stores two entries, lets `damage` change the file of the second, and opens the directory again before or after.
fn check_damage(what: &str, damage: impl Fn(&Path)) {
    for while_open in [false, true] {
        let dir = TempDir::new().expect("a temporary folder");
        let cache = open(dir.path(), AMPLE);
        store(&cache, 1, None);
        let before = files(dir.path());
        store(&cache, 2, Some(1));
        let second = files(dir.path()).into_iter().find(|file| !before.contains(file));
        let second = second.expect("its file");
        let cache = if while_open {
            damage(&second);
            cache
        } else {
            drop(cache);
            damage(&second);
            open(dir.path(), AMPLE)
        };
        assert_eq!(load(&cache, 2), None, "{what}, while open: {while_open}");
        assert!(!cache.contains(&key(2)) && !second.exists(), "{what}: it is removed");
        assert_eq!(load(&cache, 1), Some(payload(1)), "{what}");
        assert_eq!(store(&cache, 2, Some(1)), Stored::Written, "{what}: it can be stored again");
        assert_eq!(load(&cache, 2), Some(payload(2)), "{what}");
    }
}

pub(crate) fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("an entry");
    bytes[at] ^= 1;
    fs::write(path, bytes).expect("an entry");
}

#[test]
fn a_damaged_entry_is_a_miss_and_is_removed() {
    for at in [0, 8, 12, 16, 48, 80, 112, 120, 152, 700, 1151] {
        check_damage(&format!("byte {at}"), |path| flip(path, at));
    }
    for len in [0, 7, 119, 151, 152, 1151] {
        check_damage(&format!("cut to {len} bytes"), |path| {
            File::options().write(true).open(path).unwrap().set_len(len).unwrap();
        });
    }
    check_damage("more bytes", |path| {
        let bytes = [fs::read(path).unwrap(), vec![0]].concat();
        fs::write(path, bytes).unwrap();
    });
    check_damage("another text", |path| fs::write(path, "not an entry").unwrap());
    check_damage("gone", |path| fs::remove_file(path).unwrap());
}

#[test]
fn an_entry_under_the_name_of_another_is_not_that_other() {
    check_damage("the file of the first", |second| {
        let root = second.ancestors().nth(3).unwrap();
        let first = files(root).into_iter().find(|file| file != second).unwrap();
        fs::copy(first, second).unwrap();
    });
}

#[test]
fn what_a_killed_process_left_unfinished_is_removed() {
    let dir = TempDir::new().unwrap();
    store(&open(dir.path(), AMPLE), 1, None);
    let entry = files(dir.path()).remove(0);
    let unfinished = entry.with_file_name(format!("unfinished-{}", "ab".repeat(32)));
    fs::write(&unfinished, [0; 5000]).unwrap();
    let cache = open(dir.path(), AMPLE);
    assert_eq!(files(dir.path()), [entry]);
    assert_eq!(cache.stats().used_bytes, CHARGE);
}

#[test]
fn a_directory_that_vanishes_ends_storing_and_nothing_else() {
    let dir = TempDir::new().unwrap();
    let place = dir.path().join("cache");
    let cache = open(&place, AMPLE);
    store(&cache, 1, None);
    fs::remove_dir_all(&place).unwrap();
    assert_eq!(load(&cache, 1), None);
    assert_eq!(store(&cache, 2, None), Stored::Off);
    assert!(!cache.is_storing());
    assert_eq!(store(&cache, 3, None), Stored::Off);
    assert_eq!(load(&cache, 3), None);
    assert!(!place.exists(), "it is not made anew under somebody's hands");
}
