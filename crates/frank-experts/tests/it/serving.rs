//! Every wanted expert comes once, with its own bytes, wherever it lies and however few slots there are.

use std::collections::BTreeSet;

use frank_experts::{ExpertStore, StoreOptions};
use frank_kernels::Pool;
use frank_os::IoBackend;
use frank_plan::Tier;
use frank_testkit::property_cases;
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use crate::made::{LONG, MIXED, Made, SMALL, Waves, options, visit};

const N_LAYERS: usize = 5;
const N_EXPERTS: u32 = 9;
/// Which layers have experts, and how many; the second has fewer.
const LAYERS: [(u32, u32); 3] = [(1, 9), (2, 4), (4, 9)];

fn made() -> Made {
    let [first, second, third] = LAYERS;
    let layers =
        [(first.0, first.1, MIXED), (second.0, second.1, SMALL), (third.0, third.1, MIXED)];
    Made::new(N_LAYERS, &layers, 3)
}

fn tier() -> impl Strategy<Value = Tier> {
    prop_oneof![
        1 => Just(Tier::Primary),
        1 => (1..3u8).prop_map(Tier::Secondary),
        3 => Just(Tier::Stream)
    ]
}

/// A layer of the table and the experts that it wants.
fn wanted() -> impl Strategy<Value = (usize, BTreeSet<u32>)> {
    (0..LAYERS.len()).prop_flat_map(|position| {
        let n_experts = LAYERS[position].1;
        (Just(position), btree_set(0..n_experts, 0..=n_experts as usize))
    })
}

fn backend() -> impl Strategy<Value = Option<IoBackend>> {
    prop_oneof![Just(None), Just(Some(IoBackend::Pread)), Just(Some(IoBackend::Mmap)),]
}

/// Visits one layer and checks all that `compute` sees; gives the number of streamed experts in the largest wave.
fn check_visit(
    made: &Made,
    store: &mut ExpertStore,
    tiers: &[Tier],
    position: usize,
    wanted: &[u32],
    next: Option<(usize, &[u32])>,
) -> usize {
    let layer = LAYERS[position].0 as usize;
    let (mut seen, mut largest) = (Vec::new(), 0);
    let compute = |wave: &[frank_experts::ResidentExpert<'_>]| {
        assert!(!wave.is_empty() && wave.is_sorted_by(|a, b| a.expert < b.expert));
        for expert in wave {
            assert_eq!(wanted[expert.index], expert.expert);
            made.check(position, expert.expert, expert.bytes);
            seen.push(expert.expert);
        }
        let streamed = |expert: u32| tiers[layer * N_EXPERTS as usize + expert as usize];
        let n_streamed = wave.iter().filter(|e| streamed(e.expert) == Tier::Stream).count();
        largest = largest.max(n_streamed);
    };
    let mut waves = Waves { pool: Pool::new(2), compute };
    store.visit(layer, wanted, next, &mut waves).expect("files are whole");
    seen.sort_unstable();
    assert_eq!(seen, wanted, "each exactly once");
    largest
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(property_cases(64)))]

    #[test]
    fn every_wanted_expert_is_served_once_with_its_own_bytes(
        tiers in vec(tier(), N_LAYERS * N_EXPERTS as usize),
        cache_slots in 1..30usize,
        n_threads in 1..6usize,
        io in backend(),
        prefetch: bool,
        usage in vec(0..3u64, N_LAYERS * N_EXPERTS as usize),
        visits in vec((wanted(), wanted(), any::<bool>()), 0..24),
    ) {
        let made = made();
        let options = StoreOptions {
            io,
            prefetch,
            usage: Some(usage),
            ..options(tiers.clone(), cache_slots)
        };
        let pool = &mut Pool::new(n_threads);
        let mut store = ExpertStore::open(made.table.clone(), made.files(), &options, pool)
            .expect("the table fits the files");
        let mut n_wanted = 0;
        let before = store.occupied();
        for ((position, wanted), (next, predicted), idle) in visits {
            let wanted: Vec<u32> = wanted.into_iter().collect();
            let predicted: Vec<u32> = predicted.into_iter().collect();
            if idle {
                store.idle(&mut Pool::new(1));
            }
            let next = Some((LAYERS[next].0 as usize, &predicted[..]));
            n_wanted += wanted.len() as u64;
            let largest = check_visit(&made, &mut store, &tiers, position, &wanted, next);
            prop_assert!(largest <= cache_slots);
        }
        prop_assert_eq!(store.occupied(), before);
        let counts = store.statistics();
        prop_assert!(counts.prefetch_useful + counts.prefetch_wasted <= counts.prefetch_started);
        prop_assert!(prefetch || counts.prefetch_started == 0);
        let by_tier = counts.primary_visits + counts.secondary_visits + counts.hits + counts.misses;
        prop_assert_eq!(by_tier, n_wanted);
        prop_assert_eq!(counts.n_primary + counts.n_secondary + counts.n_streamed, 22);
        prop_assert!(counts.n_slots <= cache_slots && counts.n_slots <= counts.n_streamed);
    }
}

#[test]
fn nothing_is_computed_when_nothing_is_wanted() {
    let made = made();
    let tiers = vec![Tier::Stream; N_LAYERS * N_EXPERTS as usize];
    let options = options(tiers, 2);
    let mut store = made.open(&options);
    visit(&mut store, 1, &[], |_| panic!("called")).unwrap();
    assert_eq!(store.statistics().waves, 0);
}

#[test]
fn resident_experts_come_in_one_wave_and_read_nothing() {
    let made = made();
    let tiers = vec![Tier::Primary; N_LAYERS * N_EXPERTS as usize];
    let options = options(tiers, 0);
    let mut store = made.open(&options);
    // Whatever becomes of the files.
    for path in &made.paths {
        std::fs::write(path, b"").unwrap();
    }
    let all: Vec<u32> = (0..N_EXPERTS).collect();
    let check = |wave: &[frank_experts::ResidentExpert<'_>]| {
        wave.iter().for_each(|expert| made.check(2, expert.expert, expert.bytes));
    };
    visit(&mut store, 4, &all, check).unwrap();
    let counts = store.statistics();
    assert_eq!((counts.waves, counts.primary_visits, counts.bytes_read), (1, 9, 0));
}

#[test]
fn experts_longer_than_the_staging_come_in_pieces() {
    let made = Made::new(1, &[(0, 5, LONG)], 1);
    for (cache_slots, tier) in
        [(1, Tier::Stream), (2, Tier::Stream), (5, Tier::Stream), (0, Tier::Primary)]
    {
        let options = StoreOptions { prefetch: true, ..options(vec![tier; 5], cache_slots) };
        let mut store = made.open_tight(&options).unwrap();
        for wanted in [&[0, 1, 2, 3, 4][..], &[1, 3], &[0, 4], &[2]] {
            let mut seen = Vec::new();
            let compute = |wave: &[frank_experts::ResidentExpert<'_>]| {
                wave.iter().for_each(|expert| made.check(0, expert.expert, expert.bytes));
                seen.extend(wave.iter().map(|expert| expert.expert));
            };
            // What is predicted fills the staging with the first pieces of experts.
            let mut waves = Waves { pool: Pool::new(2), compute };
            store.visit(0, wanted, Some((0, &[3, 4, 0])), &mut waves).unwrap();
            seen.sort_unstable();
            assert_eq!(seen, wanted);
        }
    }
}
