//! The store holds what it says, from the start and for good.

use allocation_counter::measure;
use frank_experts::{ExpertStore, ResidentExpert, staging_bytes};
use frank_os::AnonBuffer;
use frank_plan::Tier;

use crate::made::{LONG, MIXED, Made, Waves, options, visit};

const N_EXPERTS: usize = 1000;

/// Heap, stacks of threads, and pages that the kernel counts late.
const SLACK: u64 = 1 << 20;

/// A store with so many experts on the primary device, the next, and streamed through some slots.
fn open(n_primary: usize, n_secondary: usize, cache_slots: usize) -> (Made, ExpertStore) {
    let made = Made::new(1, &[(0, N_EXPERTS as u32, MIXED)], 1);
    let mut tiers = vec![Tier::Primary; n_primary];
    tiers.resize(n_primary + n_secondary, Tier::Secondary(1));
    tiers.resize(N_EXPERTS, Tier::Stream);
    let options = options(tiers, cache_slots);
    let store = made.open(&options);
    (made, store)
}

fn check(n_primary: usize, n_secondary: usize, cache_slots: usize, n_slots: usize) {
    let (made, store) = open(n_primary, n_secondary, cache_slots);
    let slot_bytes = made.table.layers[0].slot_bytes();
    let part = |n_experts: usize| AnonBuffer::occupied((n_experts * slot_bytes) as u64);
    let staging = if n_slots > 0 { staging_bytes(made.table.layers[0].file_bytes(), 2) } else { 0 };
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
fn the_process_holds_what_the_store_says_and_never_more_while_it_loads() {
    // So large that a mistake is more than the kernel's own rounding.
    let made = Made::new(1, &[(0, 12, LONG)], 1);
    for (n_primary, n_secondary, cache_slots) in [(12, 0, 0), (0, 0, 5), (4, 3, 3)] {
        let mut tiers = vec![Tier::Primary; n_primary];
        tiers.resize(n_primary + n_secondary, Tier::Secondary(1));
        tiers.resize(12, Tier::Stream);
        let before = frank_os::process_memory().unwrap();
        let store = made.open(&options(tiers, cache_slots));
        let after = frank_os::process_memory().unwrap();
        let (held, said) = (after.rss - before.rss, store.occupied());
        let buffers = 4 * frank_os::HUGE_PAGE_BYTES;
        assert!(held <= said + SLACK && held + buffers >= said, "{held} bytes of {said}");
        // Where nothing is streamed, the staging was there for a moment.
        let staging = if cache_slots == 0 { staging_bytes(0, 0) } else { 0 };
        let peak = before.rss_peak.max(before.rss + said + staging + SLACK);
        assert!(after.rss_peak <= peak, "{} bytes at most, {peak} at the peak", after.rss_peak);
    }
}

#[test]
fn traffic_leaves_nothing_behind() {
    let (made, mut store) = open(300, 200, 40);
    let all: Vec<u32> = (0..N_EXPERTS as u32).collect();
    let (before, mut n_bytes) = (store.occupied(), 0);
    let mut round = || {
        for wanted in all.chunks(100).chain([&all[..], &all[450..460]]) {
            let count = |wave: &[ResidentExpert<'_>]| {
                n_bytes += wave.iter().map(|e| e.bytes.len()).sum::<usize>();
            };
            visit(&mut store, 0, wanted, count).unwrap();
        }
    };
    // The books grow to what the largest visit needs, once.
    round();
    let counts = measure(round);
    assert_eq!(n_bytes, 2 * 2010 * made.table.layers[0].slot_bytes());
    assert_eq!(counts.bytes_current, 0);
    assert_eq!(store.occupied(), before);
    let resident = frank_os::process_memory().unwrap().rss;
    for _ in 0..5 {
        all.chunks(100).for_each(|wanted| visit(&mut store, 0, wanted, |_| {}).unwrap());
    }
    let grown = frank_os::process_memory().unwrap().rss.saturating_sub(resident);
    assert!(grown <= SLACK, "{grown} bytes that no counter of the heap sees");
}

#[test]
fn a_hit_takes_no_memory() {
    let (_made, mut store) = open(10, 0, 40);
    let wanted = [3, 5, 20, 30, 40];
    let mut waves =
        Waves { pool: frank_kernels::Pool::new(1), compute: |_: &[ResidentExpert<'_>]| {} };
    store.visit(0, &wanted, None, &mut waves).unwrap();
    let counts = measure(|| store.visit(0, &wanted, None, &mut waves).unwrap());
    assert_eq!((counts.count_total, store.statistics().hits), (0, 3));
}

#[test]
fn staging_holds_two_tokens_within_bounds() {
    assert_eq!(staging_bytes(0, 0), 2 << 20);
    assert_eq!(staging_bytes(2_650_000, 8), 42 << 20);
    assert_eq!(staging_bytes(100 << 20, 8), 128 << 20);
    assert_eq!(staging_bytes(u64::MAX, u64::MAX), 128 << 20);
}
