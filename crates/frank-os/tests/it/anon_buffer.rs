//! Anonymous buffers: zeroed, aligned, populated on request, given back on drop.

use frank_os::{AnonBuffer, HUGE_PAGE_BYTES, OsError, process_memory};

const MIB: u64 = 1 << 20;

#[test]
fn a_new_buffer_is_zeroed_aligned_and_writable_to_its_last_byte() {
    for bytes in [1, 4095, 4096, HUGE_PAGE_BYTES - 1, HUGE_PAGE_BYTES, HUGE_PAGE_BYTES + 1] {
        let mut buffer = AnonBuffer::new(bytes).unwrap();
        assert_eq!(buffer.len() as u64, bytes);
        assert_eq!(buffer.as_slice().as_ptr().align_offset(HUGE_PAGE_BYTES as usize), 0);
        assert!(buffer.as_slice().iter().all(|&byte| byte == 0));
        buffer.as_mut_slice().fill(0xa5);
        assert!(buffer.as_slice().iter().all(|&byte| byte == 0xa5));
    }
}

#[test]
fn an_empty_buffer_is_aligned_too() {
    let mut buffer = AnonBuffer::new(0).unwrap();
    assert!(buffer.is_empty());
    assert_eq!(buffer.as_mut_slice().as_ptr().align_offset(HUGE_PAGE_BYTES as usize), 0);
    buffer.populate().unwrap();
}

#[test]
fn occupied_bytes_are_whole_huge_pages() {
    assert_eq!(AnonBuffer::occupied(0), 0);
    assert_eq!(AnonBuffer::occupied(1), HUGE_PAGE_BYTES);
    assert_eq!(AnonBuffer::occupied(HUGE_PAGE_BYTES), HUGE_PAGE_BYTES);
    assert_eq!(AnonBuffer::occupied(HUGE_PAGE_BYTES + 1), 2 * HUGE_PAGE_BYTES);
    assert_eq!(AnonBuffer::occupied(u64::MAX) % HUGE_PAGE_BYTES, 0);
}

#[test]
fn a_buffer_larger_than_the_address_space_is_refused() {
    for bytes in [1 << 60, u64::MAX - 1, u64::MAX] {
        assert!(
            matches!(AnonBuffer::new(bytes), Err(OsError::Map { bytes: named, .. }) if named == bytes)
        );
    }
}

#[test]
fn memory_is_held_from_populate_to_drop_and_not_before() {
    let bytes = 64 * MIB;
    let slack = 8 * MIB;
    let before = process_memory().unwrap().rss;
    let mut buffer = AnonBuffer::new(bytes).unwrap();
    let reserved = process_memory().unwrap().rss;
    assert!(reserved < before + slack, "reserving holds nothing: {before} -> {reserved}");
    buffer.as_mut_slice()[0] = 9;
    buffer.populate().unwrap();
    let populated = process_memory().unwrap();
    assert!(
        populated.rss >= before + bytes - slack,
        "populating holds all: {before} -> {}",
        populated.rss
    );
    assert!(populated.rss_peak >= populated.rss);
    assert_eq!(buffer.as_slice()[0], 9);
    drop(buffer);
    let dropped = process_memory().unwrap();
    assert!(dropped.rss < before + slack, "dropping gives all back: {before} -> {}", dropped.rss);
    assert!(
        dropped.rss_peak >= populated.rss - slack,
        "the peak is remembered: {populated:?} then {dropped:?}"
    );
}

#[test]
fn a_buffer_is_read_by_other_threads() {
    let mut buffer = AnonBuffer::new(MIB).unwrap();
    buffer.as_mut_slice()[77] = 1;
    let sum = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2).map(|_| scope.spawn(|| buffer.as_slice()[77])).collect();
        readers.into_iter().map(|reader| reader.join().unwrap()).sum::<u8>()
    });
    assert_eq!(sum, 2);
    let moved = std::thread::spawn(move || buffer.as_slice()[77]);
    assert_eq!(moved.join().unwrap(), 1);
}
