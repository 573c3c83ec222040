//! The store holds what it says, from the start and for good.

use allocation_counter::measure;
use frank_experts::{ExpertStore, StoreOptions, staging_bytes};
use frank_os::AnonBuffer;
use frank_plan::Tier;

use crate::made::{MIXED, Made};

const N_EXPERTS: usize = 1000;

/// A store with so many experts on the primary device, the next, and streamed through some slots.
fn open(n_primary: usize, n_secondary: usize, cache_slots: usize) -> (Made, ExpertStore) {
    let made = Made::new(1, &[(0, N_EXPERTS as u32, MIXED)], 1);
    let mut tiers = vec![Tier::Primary; n_primary];
    tiers.resize(n_primary + n_secondary, Tier::Secondary(1));
    tiers.resize(N_EXPERTS, Tier::Stream);
    let options = StoreOptions { tiers, cache_slots, n_threads: 1 };
    let store = ExpertStore::open(made.table.clone(), made.files(), &options)
        .expect("the table fits the file");
    (made, store)
}

fn check(n_primary: usize, n_secondary: usize, cache_slots: usize, n_slots: usize) {
    let (made, store) = open(n_primary, n_secondary, cache_slots);
    let slot_bytes = made.table.layers[0].slot_bytes();
    let part = |n_experts: usize| AnonBuffer::occupied((n_experts * slot_bytes) as u64);
    let staging = if n_slots > 0 { staging_bytes(made.table.row_bytes_max(), 1) } else { 0 };
    let expected = part(n_primary) + part(n_secondary) + part(n_slots) + staging;
    assert_eq!(store.occupied(), expected, "{n_primary}, {n_secondary}, {cache_slots} slots");
}

#[test]
fn memory_is_the_residents_the_slots_and_the_staging() {
    check(1000, 0, 0, 0);
    check(0, 0, 17, 17);
    check(600, 300, 60, 60);
    // No more slots than there is to stream.
    check(500, 400, usize::MAX, 100);
}

#[test]
fn traffic_leaves_nothing_behind() {
    let (made, mut store) = open(300, 200, 40);
    let all: Vec<u32> = (0..N_EXPERTS as u32).collect();
    let before = store.occupied();
    let mut n_bytes = 0;
    let counts = measure(|| {
        for wanted in all.chunks(100).chain([&all[..], &all[450..460]]) {
            store
                .visit(0, wanted, &mut |wave| {
                    n_bytes += wave.iter().map(|e| e.bytes.len()).sum::<usize>()
                })
                .unwrap();
        }
    });
    assert_eq!(n_bytes, 2010 * made.table.layers[0].slot_bytes());
    assert_eq!((counts.bytes_current, store.occupied()), (0, before));
}

#[test]
fn staging_is_bounded_whatever_is_asked_for() {
    assert_eq!(staging_bytes(0, 0), 2 << 20);
    assert_eq!(staging_bytes(0, 4), 4 << 20);
    assert_eq!(staging_bytes(3 << 20, 2), 6 << 20);
    assert_eq!(staging_bytes(1, usize::MAX), 4 << 20);
    assert_eq!(staging_bytes(u64::MAX, usize::MAX), u64::MAX - u64::MAX % (2 << 20));
}
