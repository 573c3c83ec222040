//! Queues of reads: the same bytes whichever way they come, within bounded memory, and one named error for what cannot
//! be read.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use frank_os::{
    DataFile, FaultWindow, Faults, Finished, IoBackend, OsError, QueueOptions, ReadQueue,
};
use tempfile::TempDir;

const BACKENDS: [IoBackend; 3] = [IoBackend::Uring, IoBackend::Pread, IoBackend::Mmap];

/// The staging memory of most tests: the smallest there is.
const STAGING: usize = 2 << 20;

/// A file whose byte at each offset is known.
struct Written {
    _folder: TempDir,
    path: PathBuf,
    file: Arc<DataFile>,
}

fn byte_at(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn written(bytes: u64) -> Written {
    // Not in /tmp: it may be memory, which knows no page cache.
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = folder.path().join("data");
    std::fs::write(&path, (0..bytes).map(byte_at).collect::<Vec<_>>()).expect("it is written");
    let file = Arc::new(DataFile::open(&path).expect("it is there"));
    Written { _folder: folder, path, file }
}

fn queue(written: &Written, backend: Option<IoBackend>, faults: Faults) -> ReadQueue {
    let options = QueueOptions { backend, staging_bytes: STAGING, faults };
    ReadQueue::open(&[Arc::clone(&written.file)], &options)
        .expect("the system has this way to read")
}

/// Every way to read, past the page cache and through it.
fn ways() -> impl Iterator<Item = (IoBackend, Faults)> {
    let buffered = Faults { direct_refused_at_open: true, ..Faults::default() };
    BACKENDS
        .into_iter()
        .flat_map(move |backend| [(backend, Faults::default()), (backend, buffered)])
}

fn check_bytes(queue: &ReadQueue, finished: &Finished, offset: u64, len: usize, way: &str) {
    assert!(finished.result.is_ok(), "{way}: {:?}", finished.result);
    let expected: Vec<u8> = (offset..offset + len as u64).map(byte_at).collect();
    assert!(queue.bytes(finished) == expected, "{way}: {len} bytes from {offset} are others");
}

fn check_read(queue: &mut ReadQueue, offset: u64, len: usize, way: &str) {
    assert!(queue.start(0, offset, len, 7), "{way}");
    let finished = queue.finish(true).expect("one is in flight");
    assert_eq!((finished.tag, queue.in_flight()), (7, 0), "{way}");
    check_bytes(queue, &finished, offset, len, way);
    queue.give_back(finished);
}

/// The error of one read.
fn failure(queue: &mut ReadQueue, offset: u64, len: usize) -> OsError {
    assert!(queue.start(0, offset, len, 0));
    let finished = queue.finish(true).expect("one is in flight");
    assert!(queue.bytes(&finished).is_empty());
    finished.result.expect_err("it cannot be read")
}

#[test]
fn bytes_at_any_offset_and_length_are_those_of_the_file_whichever_way_they_come() {
    const BYTES: u64 = 900_001;
    let written = written(BYTES);
    for (backend, faults) in ways() {
        let mut queue = queue(&written, Some(backend), faults);
        let way = format!("{backend}, direct: {}", queue.is_direct());
        assert_eq!(queue.backend(), backend);
        let edges = [(0, 1), (0, 4096), (1, 4096), (4095, 2), (4096, 8192), (12_345, 300_007)];
        let last = [(BYTES - 1, 1), (BYTES - 5000, 5000), (0, BYTES as usize)];
        for (offset, len) in edges.into_iter().chain(last) {
            check_read(&mut queue, offset, len, &way);
        }
        assert!(queue.finish(false).is_none() && queue.finish(true).is_none(), "{way}");
    }
}

#[test]
fn many_reads_share_little_memory_and_each_gives_its_own_bytes() {
    const LEN: usize = 150_001;
    const N_READS: u64 = 60;
    let written = written(1_000_000);
    for (backend, faults) in ways() {
        let mut queue = queue(&written, Some(backend), faults);
        assert_eq!(queue.occupied(), STAGING as u64);
        let offset = |tag: u64| tag * 13_337;
        let (mut started, mut refused, mut seen) = (0, 0, vec![false; N_READS as usize]);
        while seen.contains(&false) {
            while started < N_READS && queue.start(0, offset(started), LEN, started) {
                started += 1;
            }
            refused += usize::from(started < N_READS);
            queue.submit();
            let finished = queue.finish(true).expect("some are in flight");
            check_bytes(&queue, &finished, offset(finished.tag), LEN, &backend.to_string());
            assert!(!std::mem::replace(&mut seen[finished.tag as usize], true));
            queue.give_back(finished);
        }
        assert!(refused > 0, "there was room for all");
    }
}

#[test]
fn memory_is_free_only_when_it_was_given_back() {
    let written = written(STAGING as u64);
    for backend in BACKENDS {
        let mut queue = queue(&written, Some(backend), Faults::default());
        assert!(queue.start(0, 0, STAGING, 1));
        assert!(!queue.start(0, 0, 1, 2));
        let finished = queue.finish(true).unwrap();
        assert!(!queue.start(0, 0, 1, 2), "its bytes are still looked at");
        check_bytes(&queue, &finished, 0, STAGING, "whole");
        queue.give_back(finished);
        check_read(&mut queue, 0, STAGING, "again");
        assert!(!queue.start(0, 0, STAGING + 1, 3), "more than there is");
    }
}

#[test]
fn no_more_is_in_flight_than_the_system_takes_at_once() {
    let written = written(8192);
    for backend in BACKENDS {
        let mut queue = queue(&written, Some(backend), Faults::default());
        let n_started = (0..200).take_while(|&tag| queue.start(0, tag, 10, tag)).count();
        assert_eq!((n_started, queue.in_flight()), (64, 64));
        let mut n_ended = 0;
        while let Some(finished) = queue.finish(true) {
            check_bytes(&queue, &finished, finished.tag, 10, "small");
            queue.give_back(finished);
            n_ended += 1;
        }
        assert_eq!(n_ended, 64);
    }
}

#[test]
fn what_ended_first_is_given_first() {
    let written = written(100_000);
    // A map is read in the order of the calls.
    let mut queue = queue(&written, Some(IoBackend::Mmap), Faults::default());
    for tag in 0..5 {
        assert!(queue.start(0, 100 * tag, 5000, tag));
    }
    let order: Vec<u64> = std::iter::from_fn(|| queue.finish(false)).map(|read| read.tag).collect();
    assert_eq!(order, [0, 1, 2, 3, 4]);
}

#[test]
fn a_read_past_the_end_is_an_error_with_its_place() {
    let written = written(10_000);
    for (backend, faults) in ways() {
        let mut queue = queue(&written, Some(backend), faults);
        for (offset, len) in [(9_000, 2_000), (10_000, 1), (12_288, 5), (1 << 40, 1), (u64::MAX, 9)]
        {
            let error = failure(&mut queue, offset, len);
            assert!(
                matches!(error, OsError::PastEnd { offset: at, want, .. } if at == offset && want == len as u64),
                "{backend}: {error}"
            );
        }
        check_read(&mut queue, 0, 10_000, "after errors");
    }
}

#[test]
fn a_file_cut_under_the_reader_is_an_error_and_never_the_end_of_the_process() {
    for (backend, faults) in ways() {
        let written = written(500_000);
        let mut queue = queue(&written, Some(backend), faults);
        check_read(&mut queue, 300_000, 100_000, "whole");
        assert!(written.file.changed().is_none());
        OpenOptions::new().write(true).open(&written.path).unwrap().set_len(301_000).unwrap();
        let error = failure(&mut queue, 300_000, 100_000);
        assert!(matches!(error, OsError::PastEnd { .. }), "{backend}: {error}");
        let error = failure(&mut queue, 400_000, 100_000);
        assert!(matches!(error, OsError::PastEnd { .. }), "{backend}: {error}");
        let changed = written.file.changed().expect("it has another size");
        assert!(matches!(changed, OsError::Changed { was: 500_000, bytes: 301_000, .. }));
        check_read(&mut queue, 0, 301_000, "what is left");
    }
}

#[test]
fn a_path_that_names_another_file_now_changes_nothing() {
    let written = written(50_000);
    let other = written.path.with_extension("new");
    std::fs::write(&other, [0; 10]).unwrap();
    std::fs::rename(&other, &written.path).unwrap();
    assert!(written.file.changed().is_none());
    for backend in BACKENDS {
        check_read(&mut queue(&written, Some(backend), Faults::default()), 0, 50_000, "old");
    }
}

#[test]
fn a_failed_read_is_named_and_those_after_it_go_well() {
    let written = written(50_000);
    for backend in BACKENDS {
        // Each is tried three times.
        let read_error = Some(FaultWindow { after: 2, times: 6 });
        let mut queue = queue(&written, Some(backend), Faults { read_error, ..Faults::default() });
        check_read(&mut queue, 0, 100, "first");
        check_read(&mut queue, 0, 100, "second");
        for _ in 0..2 {
            let error = failure(&mut queue, 4_000, 1_000);
            let OsError::Read { offset: 4_000, want: 1_000, source, .. } = error else {
                panic!("{backend}: {error}");
            };
            assert_eq!(source.raw_os_error(), Some(libc::EIO));
        }
        check_read(&mut queue, 0, 50_000, "after errors");
    }
}

#[test]
fn a_read_that_fails_for_a_moment_is_read_again_through_the_page_cache() {
    let written = written(900_000);
    std::fs::File::open(&written.path).unwrap().sync_all().unwrap();
    written.file.forget_cached(0, 900_000);
    for (backend, faults) in ways() {
        for times in [1, 2] {
            let read_error = Some(FaultWindow { after: 1, times });
            let mut queue = queue(&written, Some(backend), Faults { read_error, ..faults });
            let was_direct = queue.is_direct();
            check_read(&mut queue, 5, 800_000, "before");
            check_read(&mut queue, 4_097, 800_001, "failed and read again");
            check_read(&mut queue, 5, 800_000, "after");
            assert_eq!((queue.n_reread(), queue.is_direct()), (times, was_direct), "{backend}");
            drop(queue);
            let n_cached = crate::data_file::cached_pages_of(&written.path, 2..190);
            assert_eq!(n_cached, 0, "{backend}");
        }
    }
}

#[test]
fn several_reads_that_fail_in_the_middle_of_others_give_their_own_bytes() {
    let written = written(900_000);
    for (backend, faults) in ways() {
        let read_error = Some(FaultWindow { after: 3, times: 7 });
        let short_read = Some(FaultWindow { after: 5, times: 9 });
        let faults = Faults { read_error, short_read, ..faults };
        let mut queue = queue(&written, Some(backend), faults);
        for tag in 0..12 {
            assert!(queue.start(0, tag * 50_001, 100_000, tag));
        }
        while let Some(finished) = queue.finish(true) {
            check_bytes(&queue, &finished, finished.tag * 50_001, 100_000, "one of many");
            queue.give_back(finished);
        }
        assert_eq!(queue.n_reread(), 7, "{backend}");
    }
}

#[test]
fn the_time_of_reads_runs_while_any_is_in_flight_and_stands_still_otherwise() {
    let written = written(900_000);
    for (backend, faults) in ways() {
        let mut queue = queue(&written, Some(backend), faults);
        assert_eq!(queue.busy(), Duration::ZERO);
        assert!(queue.start(0, 0, 100_000, 0) && queue.start(0, 200_000, 300_000, 1));
        let begun = queue.busy();
        let first = queue.finish(true).unwrap();
        let one_left = queue.busy();
        let second = queue.finish(true).unwrap();
        let ended = queue.busy();
        assert!(begun > Duration::ZERO && begun < one_left && one_left < ended, "{backend}");
        queue.give_back(first);
        queue.give_back(second);
        assert!(queue.finish(true).is_none());
        assert_eq!(queue.busy(), ended, "{backend}");
        // A read that needs no transfer takes no time.
        assert!(queue.start(0, u64::MAX, 9, 2) && queue.finish(true).is_some());
        assert_eq!(queue.busy(), ended, "{backend}");
    }
}

#[test]
fn a_short_read_is_continued() {
    let written = written(777_777);
    let short_read = Some(FaultWindow { after: 0, times: u64::MAX });
    for (backend, faults) in ways() {
        let mut queue = queue(&written, Some(backend), Faults { short_read, ..faults });
        check_read(&mut queue, 5_001, 700_000, &backend.to_string());
        check_read(&mut queue, 777_776, 1, &backend.to_string());
        assert!(matches!(failure(&mut queue, 777_776, 2), OsError::PastEnd { .. }), "{backend}");
    }
}

#[test]
fn a_file_system_that_refuses_direct_reads_is_read_through_the_page_cache_and_it_is_said() {
    let written = written(300_000);
    for backend in [IoBackend::Uring, IoBackend::Pread] {
        let at_open = Faults { direct_refused_at_open: true, ..Faults::default() };
        let mut buffered = queue(&written, Some(backend), at_open);
        check_refused(&buffered);
        check_read(&mut buffered, 3, 200_000, "refused at open");

        let at_transfer = Faults { direct_refused_at_transfer: true, ..Faults::default() };
        let mut late = queue(&written, Some(backend), at_transfer);
        if !late.is_direct() {
            continue; // The file system of this test refuses by itself.
        }
        for tag in 0..8 {
            assert!(late.start(0, tag * 10_001, 100_000, tag));
        }
        for _ in 0..8 {
            let finished = late.finish(true).unwrap();
            check_bytes(&late, &finished, finished.tag * 10_001, 100_000, "refused at transfer");
        }
        check_refused(&late);
    }
}

fn check_refused(queue: &ReadQueue) {
    let fallback = queue.fallback().expect("it was refused");
    assert!(!queue.is_direct() && fallback.contains("O_DIRECT refused"), "{fallback}");
    assert_eq!(fallback.matches("O_DIRECT").count(), 1, "said once: {fallback}");
}

#[test]
fn a_way_that_was_asked_for_and_is_refused_is_an_error_and_one_that_was_not_is_replaced() {
    let written = written(10_000);
    let faults = Faults { uring_refused: true, ..Faults::default() };
    let files = [Arc::clone(&written.file)];
    let asked = QueueOptions { backend: Some(IoBackend::Uring), staging_bytes: STAGING, faults };
    let error = ReadQueue::open(&files, &asked).unwrap_err();
    assert_eq!(error.to_string(), "cannot read files with io_uring");
    let mut replaced = queue(&written, None, faults);
    assert_eq!(replaced.backend(), IoBackend::Pread);
    let fallback = replaced.fallback().expect("it was refused");
    assert!(fallback.starts_with("reads with pread: io_uring refused: "), "{fallback}");
    check_read(&mut replaced, 1, 9_000, "replaced");
}

#[test]
fn where_the_system_gives_neither_a_ring_nor_threads_files_are_mapped() {
    let written = written(10_000);
    let faults = Faults { uring_refused: true, threads_refused: true, ..Faults::default() };
    let mut mapped = queue(&written, None, faults);
    assert_eq!(mapped.backend(), IoBackend::Mmap);
    let fallback = mapped.fallback().expect("two were refused");
    assert!(fallback.starts_with("reads with mmap: io_uring refused: "), "{fallback}");
    assert!(fallback.contains("; pread refused: "), "{fallback}");
    check_read(&mut mapped, 1, 9_000, "mapped");
    let files = [Arc::clone(&written.file)];
    let asked = QueueOptions { backend: Some(IoBackend::Pread), staging_bytes: STAGING, faults };
    let error = ReadQueue::open(&files, &asked).unwrap_err();
    assert_eq!(error.to_string(), "cannot read files with pread");
    // Threads are of no use to a ring.
    let faults = Faults { threads_refused: true, ..Faults::default() };
    assert_eq!(queue(&written, None, faults).backend(), IoBackend::Uring);
}

#[test]
fn memory_that_cannot_be_registered_is_read_into_all_the_same_and_it_is_said() {
    let written = written(10_000);
    let faults = Faults { registering_refused: true, ..Faults::default() };
    let mut queue = queue(&written, Some(IoBackend::Uring), faults);
    let fallback = queue.fallback().expect("it was refused");
    assert!(fallback.contains("not registered"), "{fallback}");
    check_read(&mut queue, 1, 9_000, "plain");
}

#[test]
fn a_queue_with_reads_in_flight_can_be_dropped_and_moved() {
    let written = written(STAGING as u64);
    for (backend, faults) in ways() {
        for submitted in [false, true] {
            let mut dropped = queue(&written, Some(backend), faults);
            for tag in 0..16 {
                assert!(dropped.start(0, tag * 100_000, 100_000, tag));
            }
            if submitted {
                dropped.submit();
            }
            drop(dropped);
        }
        // Begun by a thread that ends, finished by another.
        let mut moved = queue(&written, Some(backend), faults);
        let begin = std::thread::spawn(move || {
            assert!(moved.start(0, 5, 1_000_000, 1));
            moved.submit();
            moved
        });
        let mut moved = begin.join().unwrap();
        let finished = moved.finish(true).unwrap();
        check_bytes(&moved, &finished, 5, 1_000_000, "moved");
    }
}

#[test]
#[should_panic(expected = "a read belongs to its queue")]
fn a_read_of_another_queue_is_not_looked_up() {
    let written = written(10);
    let [mut one, other] =
        [0, 1].map(|_| queue(&written, Some(IoBackend::Pread), Faults::default()));
    assert!(one.start(0, 0, 10, 0));
    let finished = one.finish(true).unwrap();
    let _bytes = other.bytes(&finished);
}

#[test]
fn reads_leave_nothing_in_the_page_cache() {
    let written = written(400_000);
    std::fs::File::open(&written.path).unwrap().sync_all().unwrap();
    written.file.forget_cached(0, 400_000);
    for (backend, faults) in ways() {
        let mut queue = queue(&written, Some(backend), faults);
        check_read(&mut queue, 10_001, 300_000, "held");
        drop(queue);
        let n_cached = crate::data_file::cached_pages_of(&written.path, 3..76);
        assert_eq!(n_cached, 0, "{backend}, {faults:?}");
    }
}

#[test]
fn an_empty_file_and_no_file_at_all_make_a_queue() {
    let written = written(0);
    let options = |backend| QueueOptions { backend, staging_bytes: 0, faults: Faults::default() };
    for backend in BACKENDS {
        let mut queue = queue(&written, Some(backend), Faults::default());
        assert!(matches!(failure(&mut queue, 0, 1), OsError::PastEnd { .. }), "{backend}");
        let mut nothing = ReadQueue::open(&[], &options(Some(backend))).unwrap();
        assert!(nothing.finish(true).is_none() && nothing.occupied() == 0);
    }
}
