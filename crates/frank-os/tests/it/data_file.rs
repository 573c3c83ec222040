//! Data files: whole ranges or a named error; only regular files.

use std::error::Error;
use std::ffi::CString;
use std::fs::{Metadata, Permissions};
use std::io::{Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

use frank_os::{DataFile, OsError, PAGE_BYTES};

#[test]
fn ranges_are_read_whole_from_any_offset() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    std::fs::write(&path, b"0123456789").unwrap();
    let file = DataFile::open(&path).unwrap();
    assert_eq!((file.len(), file.is_empty(), file.path()), (10, false, path.as_path()));
    let mut buf = [0; 4];
    file.read_at(6, &mut buf).unwrap();
    assert_eq!(&buf, b"6789");
    file.read_at(0, &mut buf).unwrap();
    assert_eq!(&buf, b"0123");
    file.read_at(10, &mut []).unwrap();
}

#[test]
fn a_range_past_the_end_is_refused_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    std::fs::write(&path, b"0123456789").unwrap();
    let file = DataFile::open(&path).unwrap();
    for offset in [7, 10, 1 << 40] {
        let error = file.read_at(offset, &mut [0; 4]).unwrap_err();
        assert!(
            matches!(error, OsError::PastEnd { offset: named, want: 4, .. } if named == offset),
            "{error}"
        );
    }
    // The offset does not fit the system's signed type: refused by it, not wrapped.
    assert!(file.read_at(u64::MAX, &mut [0; 4]).is_err());
}

#[test]
fn a_file_cut_while_open_is_an_error_and_not_zeroes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    std::fs::write(&path, b"0123456789").unwrap();
    let file = DataFile::open(&path).unwrap();
    std::fs::write(&path, b"01").unwrap();
    assert!(matches!(file.read_at(0, &mut [0; 4]), Err(OsError::PastEnd { .. })));
}

/// Writes other bytes of the same number to a file and puts its old time back, as tools that copy times do. Whatever the
/// ticks of the file system's clock are, one has passed.
fn rewrite(path: &Path, bytes: &[u8]) {
    let metadata = |file: &std::fs::File| file.metadata().expect("it is open");
    let touched = |metadata: &Metadata| (metadata.ctime(), metadata.ctime_nsec());
    let mut file = std::fs::File::options().write(true).open(path).expect("it is there");
    let before = metadata(&file);
    let written = before.modified().expect("files have times");
    while touched(&metadata(&file)) == touched(&before) {
        file.rewind().and_then(|()| file.write_all(bytes)).expect("it is written");
        file.set_modified(written).expect("its own file");
    }
}

#[test]
fn a_file_rewritten_in_place_with_its_old_time_put_back_has_changed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    std::fs::write(&path, b"0123456789").unwrap();
    let file = DataFile::open(&path).unwrap();
    assert!(file.changed().is_none());
    rewrite(&path, b"9876543210");
    for _ in 0..2 {
        let changed = file.changed().expect("it was written to");
        assert!(matches!(changed, OsError::Changed { was: 10, bytes: 10, .. }), "{changed}");
    }
}

#[test]
fn a_file_that_is_moved_linked_given_away_or_replaced_has_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    let [path, moved, linked] = ["data", "moved", "linked"].map(|name| dir.path().join(name));
    std::fs::write(&path, b"0123456789").unwrap();
    let file = DataFile::open(&path).unwrap();
    let unchanged = |what: &str| assert!(file.changed().is_none(), "{what}");
    std::fs::rename(&path, &moved).unwrap();
    unchanged("moved");
    std::fs::hard_link(&moved, &linked).unwrap();
    unchanged("linked");
    std::fs::set_permissions(&moved, Permissions::from_mode(0o400)).unwrap();
    unchanged("another mode");
    std::fs::remove_file(&linked).unwrap();
    std::fs::write(&path, b"other bytes").unwrap();
    std::fs::rename(&path, &moved).unwrap();
    unchanged("replaced by another file");
    let mut bytes = [0; 10];
    file.read_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"0123456789");
}

#[test]
fn a_write_after_a_move_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let [path, moved] = ["data", "moved"].map(|name| dir.path().join(name));
    std::fs::write(&path, b"0123456789").unwrap();
    let file = DataFile::open(&path).unwrap();
    std::fs::rename(&path, &moved).unwrap();
    assert!(file.changed().is_none());
    rewrite(&moved, b"9876543210");
    assert!(file.changed().is_some());
}

#[test]
fn a_missing_file_is_named_with_the_reason() {
    let error = DataFile::open(Path::new("/no/such/file")).unwrap_err();
    assert_eq!(error.to_string(), "cannot open /no/such/file");
    assert_eq!(error.source().unwrap().to_string(), "No such file or directory (os error 2)");
}

#[test]
fn what_is_not_a_file_is_refused_by_kind_without_waiting() {
    let dir = tempfile::tempdir().unwrap();
    check_kind(dir.path(), "directory");
    check_kind(Path::new("/dev/null"), "device");
    let pipe = dir.path().join("pipe");
    make_pipe(&pipe);
    check_kind(&pipe, "pipe");
    let socket = dir.path().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    check_kind(&socket, "socket");
}

#[test]
fn a_pipe_that_nobody_reads_is_not_waited_for_to_be_written_to() {
    let dir = tempfile::tempdir().unwrap();
    let (pipe, path) = (dir.path().join("pipe"), dir.path().join("file"));
    make_pipe(&pipe);
    let create = |path: &Path| {
        let mut options = std::fs::OpenOptions::new();
        frank_os::open_regular(path, options.write(true).create(true).truncate(true))
    };
    for (path, expected) in [(pipe.as_path(), "pipe"), (dir.path(), "directory")] {
        let error = create(path).unwrap_err();
        assert!(matches!(error, OsError::NotAFile { kind, .. } if kind == expected), "{error}");
    }
    create(&path).unwrap().write_all(b"written").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"written");
}

fn check_kind(path: &Path, expected: &str) {
    match DataFile::open(path) {
        Err(OsError::NotAFile { kind, .. }) => assert_eq!(kind, expected, "{}", path.display()),
        other => panic!("{}: {other:?}", path.display()),
    }
}

#[test]
fn pages_that_were_read_are_dropped_when_they_are_not_wanted_any_more() {
    const N_PAGES: usize = 64;
    let dir = tempfile::tempdir().unwrap();
    if frank_os::is_in_memory(dir.path()).unwrap() {
        return; // Its pages are the file.
    }
    let path = dir.path().join("data");
    let mut writer = std::fs::File::create_new(&path).unwrap();
    writer.write_all(&[7; N_PAGES * PAGE_BYTES as usize]).unwrap();
    writer.sync_all().unwrap();
    let file = DataFile::open(&path).unwrap();
    file.expect_scattered_reads();
    file.forget_cached(0, file.len());
    file.read_at(PAGE_BYTES + 1, &mut [0; 9 * PAGE_BYTES as usize]).unwrap();
    let reader = std::fs::File::open(&path).unwrap();
    let n_cached = cached_pages(&reader, N_PAGES);
    assert!((10..32).contains(&n_cached), "{n_cached} pages are held, 10 were asked for");
    // The ends lie inside of pages.
    file.forget_cached(PAGE_BYTES + 1, 9 * PAGE_BYTES);
    assert_eq!(cached_pages(&reader, N_PAGES), 0);
    // Past the end, and past what there can be.
    file.forget_cached(u64::MAX, u64::MAX);
    file.forget_cached(1 << 40, 0);
}

/// How many of these pages of a file the system holds.
pub(crate) fn cached_pages_of(path: &Path, pages: std::ops::Range<usize>) -> usize {
    let reader = std::fs::File::open(path).expect("the file is there");
    cached_pages(&reader, pages.end) - cached_pages(&reader, pages.start)
}

/// How many of the first `n_pages` pages of a file the system holds.
#[expect(unsafe_code, reason = "the standard library maps no files")]
fn cached_pages(file: &std::fs::File, n_pages: usize) -> usize {
    let (len, mut held) = (n_pages * PAGE_BYTES as usize, vec![0; n_pages]);
    let (nowhere, fd) = (std::ptr::null_mut(), file.as_raw_fd());
    // SAFETY: a new private mapping wherever the system likes; it replaces none.
    let start = unsafe { libc::mmap(nowhere, len, libc::PROT_READ, libc::MAP_PRIVATE, fd, 0) };
    assert_ne!(start, libc::MAP_FAILED);
    // SAFETY: the mapping above, and a byte in `held` for each of its pages.
    assert_eq!(unsafe { libc::mincore(start, len, held.as_mut_ptr()) }, 0);
    // SAFETY: the mapping above, which nothing refers to.
    assert_eq!(unsafe { libc::munmap(start, len) }, 0);
    held.iter().filter(|&&page: &&u8| page & 1 == 1).count()
}

#[expect(unsafe_code, reason = "the standard library makes no named pipes")]
fn make_pipe(path: &Path) {
    let c_path = CString::new(path.as_os_str().as_bytes()).expect("no zero byte");
    // SAFETY: `c_path` ends in a zero byte.
    assert_eq!(unsafe { libc::mkfifo(c_path.as_ptr(), 0o600) }, 0);
}
