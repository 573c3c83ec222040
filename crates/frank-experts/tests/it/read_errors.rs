//! A read that fails is named, and the store goes on as before.

use std::collections::BTreeSet;
use std::error::Error;

use frank_experts::{ExpertStore, ResidentExpert, StoreError, StoreOptions};
use frank_kernels::Pool;
use frank_os::{FaultWindow, Faults, IoBackend};
use frank_plan::Tier;
use frank_testkit::property_cases;
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use crate::made::{LONG, MIXED, Made, Parts, Waves, options, visit};

/// Visits layer 0 and checks what comes; how many experts that were.
fn served(made: &Made, store: &mut ExpertStore, wanted: &[u32]) -> Result<usize, StoreError> {
    let mut n_served = 0;
    visit(store, 0, wanted, |wave| {
        n_served += wave.len();
        wave.iter().for_each(|expert| made.check(0, expert.expert, expert.bytes));
    })?;
    Ok(n_served)
}

#[test]
fn a_file_cut_while_open_is_a_named_error_and_what_is_in_memory_is_served() {
    let made = Made::new(1, &[(0, 8, MIXED)], 1);
    let options = options(vec![Tier::Stream; 8], 4);
    let mut store = made.open(&options);
    assert_eq!(served(&made, &mut store, &[0, 3]).unwrap(), 2);
    std::fs::write(&made.paths[0], b"cut").unwrap();
    for _ in 0..20 {
        let error = served(&made, &mut store, &[0, 1, 2, 3, 4, 5, 6, 7]).unwrap_err();
        assert_eq!(error.to_string(), "experts of layer 0 cannot be read");
        let reason = error.source().expect("the file, and what became of it").to_string();
        assert!(reason.contains("0.gguf"), "{reason}");
        assert_eq!(served(&made, &mut store, &[0, 3]).unwrap(), 2);
    }
}

#[test]
fn a_resident_expert_that_cannot_be_read_is_named_when_the_store_is_opened() {
    let made = Made::new(1, &[(0, 8, MIXED)], 2);
    let files = made.files();
    std::fs::write(&made.paths[0], b"cut").unwrap();
    let options = options(vec![Tier::Primary; 8], 0);
    let pool = &mut Pool::new(1);
    let error = ExpertStore::open(made.table.clone(), files, &options, pool).unwrap_err();
    assert!(matches!(error, StoreError::Read { layer: 0, .. }), "{error}");
}

const BACKENDS: [IoBackend; 3] = [IoBackend::Uring, IoBackend::Pread, IoBackend::Mmap];

/// A store of 8 streamed experts whose reads fail as `faults` says.
fn faulty(made: &Made, io: IoBackend, cache_slots: usize, faults: Faults) -> ExpertStore {
    let io = Some(io);
    let options =
        StoreOptions { io, faults, prefetch: true, ..options(vec![Tier::Stream; 8], cache_slots) };
    made.open_tight(&options).expect("nothing is read yet")
}

fn read_error(after: u64, times: u64) -> Faults {
    Faults { read_error: Some(FaultWindow { after, times }), ..Faults::default() }
}

/// Fails for `times` reads and then never again: whatever went wrong, all of it is usable afterwards.
fn check_recovery(parts: Parts, io: IoBackend, cache_slots: usize, times: u64) {
    let made = Made::new(1, &[(0, 8, parts)], 2);
    let mut store = faulty(&made, io, cache_slots, read_error(2, times));
    let (before, mut n_failed) = (store.occupied(), 0);
    let all = [0, 1, 2, 3, 4, 5, 6, 7];
    while let Err(error) = served(&made, &mut store, &all) {
        assert!(matches!(error, StoreError::Read { layer: 0, .. }), "{error}");
        let source = error.source().expect("the file and the place").to_string();
        assert!(source.contains(".gguf"), "{source}");
        n_failed += 1;
        assert!(n_failed <= times, "{error}");
    }
    assert!(n_failed > 0, "{io}: no read has failed");
    for wanted in [&all[..], &all[..cache_slots], &all[..cache_slots], &all] {
        assert_eq!(served(&made, &mut store, wanted).expect("no read fails now"), wanted.len());
    }
    let counts = store.statistics();
    assert_eq!(counts.slots_used, cache_slots);
    assert_eq!(store.occupied(), before);
}

#[test]
fn nothing_is_lost_by_reads_that_fail() {
    for io in BACKENDS {
        check_recovery(MIXED, io, 4, 90);
        check_recovery(MIXED, io, 3, 300);
    }
    check_recovery(LONG, IoBackend::Uring, 2, 40);
    check_recovery(LONG, IoBackend::Pread, 8, 40);
}

#[test]
fn a_read_that_fails_for_a_moment_costs_no_answer_and_is_counted() {
    let made = Made::new(1, &[(0, 8, MIXED)], 2);
    for io in BACKENDS {
        for times in [1, 2] {
            let mut store = faulty(&made, io, 4, read_error(0, times));
            assert_eq!(served(&made, &mut store, &[5]).unwrap(), 1, "{io}");
            assert_eq!(store.statistics().reread, times, "{io}");
        }
        // So does a resident one, whose reads are counted before anything is streamed.
        let mut tiers = vec![Tier::Primary; 8];
        for n_streamed in 0..2 {
            tiers[..n_streamed].fill(Tier::Stream);
            let faults = read_error(3, 2);
            let options =
                StoreOptions { io: Some(io), faults, ..options(tiers.clone(), n_streamed) };
            assert_eq!(made.open(&options).statistics().reread, 2, "{io}");
        }
    }
}

#[test]
fn short_reads_are_continued() {
    let made = Made::new(1, &[(0, 8, MIXED)], 2);
    for io in BACKENDS {
        let short_read = Some(FaultWindow { after: 3, times: 50 });
        let mut store = faulty(&made, io, 4, Faults { short_read, ..Faults::default() });
        for wanted in [&[0, 1, 2, 3][..], &[0, 1, 2, 3, 4, 5, 6, 7]] {
            assert_eq!(served(&made, &mut store, wanted).unwrap(), wanted.len());
        }
    }
}

#[test]
fn refusals_of_the_system_change_no_byte() {
    let made = Made::new(1, &[(0, 8, MIXED)], 2);
    let direct = Faults { direct_refused_at_transfer: true, ..Faults::default() };
    for io in BACKENDS {
        let mut store = faulty(&made, io, 4, direct);
        assert_eq!(served(&made, &mut store, &[1, 5, 7]).unwrap(), 3);
        assert!(!store.statistics().direct);
    }
    let uring = Faults { uring_refused: true, ..Faults::default() };
    let options = StoreOptions { faults: uring, ..options(vec![Tier::Stream; 8], 4) };
    let mut store = made.open(&options);
    assert_eq!(served(&made, &mut store, &[1, 5, 7]).unwrap(), 3);
    assert_eq!(store.statistics().backend, Some(IoBackend::Pread));
    assert!(store.io_fallback().is_some_and(|said| said.contains("io_uring")));
}

/// A visit of layer 0 that predicts for the next one.
fn predicting(
    made: &Made,
    store: &mut ExpertStore,
    wanted: &[u32],
    predicted: &[u32],
) -> Result<usize, StoreError> {
    let mut n_served = 0;
    let compute = |wave: &[ResidentExpert<'_>]| {
        n_served += wave.len();
        wave.iter().for_each(|expert| made.check(0, expert.expert, expert.bytes));
    };
    let mut waves = Waves { pool: Pool::new(1), compute };
    store.visit(0, wanted, Some((0, predicted)), &mut waves)?;
    Ok(n_served)
}

#[test]
fn while_a_visit_waits_nothing_is_read_ahead() {
    let made = Made::new(1, &[(0, 8, MIXED)], 1);
    for io in [IoBackend::Uring, IoBackend::Pread] {
        // Six reads, each of which is tried three times.
        let mut store = faulty(&made, io, 4, read_error(0, 18));
        let mut n_failed = 0;
        while predicting(&made, &mut store, &[0, 1], &[5, 6]).is_err() {
            assert_eq!(store.statistics().prefetch_started, 0, "{io}: the first reads are wanted");
            n_failed += 1;
        }
        assert!((1..=6).contains(&n_failed), "{io}: {n_failed} visits have failed");
        assert_eq!(store.statistics().prefetch_started, 2);
    }
}

#[test]
fn a_prefetch_that_fails_is_read_again_when_it_is_wanted() {
    // Three reads for each expert; those of the prediction fail.
    let made = Made::new(1, &[(0, 8, LONG)], 1);
    let options = StoreOptions {
        faults: read_error(0, u64::MAX),
        prefetch: true,
        usage: Some(vec![1; 8]),
        ..options(vec![Tier::Stream; 8], 4)
    };
    let mut store = made.open(&options);
    predicting(&made, &mut store, &[], &[5, 6]).unwrap();
    let error = predicting(&made, &mut store, &[5], &[]).unwrap_err();
    assert!(matches!(error, StoreError::Read { expert: 5, .. }), "{error}");
    let counts = store.statistics();
    assert_eq!(counts.prefetch_started, counts.prefetch_useful + counts.prefetch_wasted);
    // A warm start that cannot read gives up, and nobody hears of it.
    let mut pool = Pool::new(1);
    while store.idle(&mut pool) {}
    assert_eq!(store.statistics().slots_used, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(property_cases(48)))]

    #[test]
    fn whatever_fails_what_is_served_is_right_and_all_is_served_afterwards(
        backend in 0..BACKENDS.len(),
        cache_slots in 1..9usize,
        after in 0..40u64,
        times in 1..30u64,
        usage in vec(0..3u64, 8),
        visits in vec((btree_set(0..8u32, 0..=8), btree_set(0..8u32, 0..4), any::<bool>()), 1..24),
    ) {
        let made = Made::new(1, &[(0, 8, MIXED)], 2);
        let options = StoreOptions {
            io: Some(BACKENDS[backend]),
            faults: read_error(after, times),
            prefetch: true,
            usage: Some(usage),
            ..options(vec![Tier::Stream; 8], cache_slots)
        };
        let mut store = made.open(&options);
        let list = |experts: BTreeSet<u32>| experts.into_iter().collect::<Vec<_>>();
        for (wanted, predicted, idle) in visits {
            let (wanted, predicted) = (list(wanted), list(predicted));
            if idle {
                store.idle(&mut Pool::new(1));
            }
            if let Ok(n_served) = predicting(&made, &mut store, &wanted, &predicted) {
                prop_assert_eq!(n_served, wanted.len());
            }
        }
        let all: Vec<u32> = (0..8).collect();
        // Each round reads something as long as not all are in slots, and so the last failure is behind it.
        let n_failed = (0..80).filter(|_| predicting(&made, &mut store, &all, &[]).is_err()).count();
        prop_assert!(n_failed as u64 <= times);
        predicting(&made, &mut store, &all, &[]).unwrap();
        prop_assert_eq!(store.statistics().slots_used, cache_slots);
        let kept = &all[..cache_slots];
        predicting(&made, &mut store, kept, &[]).unwrap();
        let before = store.statistics().hits;
        predicting(&made, &mut store, kept, &[]).unwrap();
        prop_assert_eq!(store.statistics().hits - before, cache_slots as u64, "every slot is of use");
    }
}
