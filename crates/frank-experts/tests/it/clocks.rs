//! Times of the statistics: what they run for, and when they stand still.

use std::time::{Duration, Instant};

use frank_experts::{ResidentExpert, StoreOptions};
use frank_kernels::Pool;
use frank_os::IoBackend;
use frank_plan::Tier;

use crate::made::{MIXED, Made, Waves, options, visit};

const BACKENDS: [IoBackend; 3] = [IoBackend::Uring, IoBackend::Pread, IoBackend::Mmap];

#[test]
fn what_a_visit_waits_for_is_counted_whichever_way_it_is_read() {
    let made = Made::new(1, &[(0, 8, MIXED)], 1);
    for io in BACKENDS {
        let options = StoreOptions { io: Some(io), ..options(vec![Tier::Stream; 8], 8) };
        let mut store = made.open(&options);
        let start = Instant::now();
        visit(&mut store, 0, &[1, 2], |_| {}).unwrap();
        let (wait, took) = (store.statistics().demand_wait, start.elapsed());
        assert!(wait > Duration::ZERO && wait < took, "{io}: {wait:?} of {took:?}");
        visit(&mut store, 0, &[1, 2], |_| {}).unwrap();
        assert_eq!(store.statistics().demand_wait, wait, "{io}: nothing was missing");
    }
}

#[test]
fn reads_out_of_a_map_hold_up_what_is_at_hand_and_are_waited_for() {
    let made = Made::new(1, &[(0, 8, MIXED)], 1);
    let io = Some(IoBackend::Mmap);
    let mut store = made.open(&StoreOptions { io, ..options(vec![Tier::Stream; 8], 8) });
    visit(&mut store, 0, &[1], |_| {}).unwrap();
    let before = store.statistics().demand_wait;
    // The others are read when the first has been computed.
    visit(&mut store, 0, &[1, 2, 3], |_| {}).unwrap();
    assert!(store.statistics().demand_wait > before);
}

#[test]
fn seconds_and_bytes_are_of_the_same_reads_ahead_of_a_visit_too() {
    let made = Made::new(1, &[(0, 8, MIXED)], 1);
    let usage = Some((0..8).collect());
    let mut tiers = vec![Tier::Stream; 8];
    tiers[..2].fill(Tier::Primary);
    for io in [IoBackend::Uring, IoBackend::Pread] {
        let options = StoreOptions {
            io: Some(io),
            prefetch: true,
            usage: usage.clone(),
            ..options(tiers.clone(), 6)
        };
        let mut store = made.open(&options);
        let loaded = store.statistics();
        assert!(loaded.primary_bytes_read > 0 && loaded.primary_read_time > Duration::ZERO);
        assert_eq!((loaded.bytes_read, loaded.read_time), (0, Duration::ZERO), "{io}");
        let mut waves = Waves { pool: Pool::new(1), compute: |_: &[ResidentExpert<'_>]| {} };
        store.visit(0, &[], Some((0, &[3])), &mut waves).unwrap();
        let ahead = store.statistics();
        assert!(ahead.bytes_read > 0 && ahead.read_time > Duration::ZERO, "{io}");
        while store.idle(&mut waves.pool) {}
        let warmed = store.statistics();
        assert!(warmed.bytes_read > ahead.bytes_read && warmed.read_time > ahead.read_time);
        assert_eq!(store.statistics().read_time, warmed.read_time, "{io}: nothing is read");
        assert_eq!(warmed.primary_read_time, loaded.primary_read_time);
    }
}
