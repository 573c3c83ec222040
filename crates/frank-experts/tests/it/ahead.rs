//! What is read before it is wanted: predictions and the warm start. Neither may cost anything that is wanted now.

use frank_experts::{ExpertStore, ResidentExpert, StoreError, StoreOptions, StoreStatistics};
use frank_kernels::Pool;
use frank_os::IoBackend;
use frank_plan::Tier;

use crate::made::{MIXED, Made, Waves, options, visit};

const N_EXPERTS: u32 = 16;

struct Run {
    made: Made,
    store: ExpertStore,
}

impl Run {
    /// Two layers of streamed experts.
    fn new(cache_slots: usize, usage: Option<Vec<u64>>) -> Self {
        let made = Made::new(2, &[(0, N_EXPERTS, MIXED), (1, N_EXPERTS, MIXED)], 2);
        let options = StoreOptions {
            prefetch: true,
            usage,
            n_used: 4,
            ..options(vec![Tier::Stream; 2 * N_EXPERTS as usize], cache_slots)
        };
        let store = made.open(&options);
        Self { made, store }
    }

    /// Visits a layer, checks all bytes, and gives what has changed in the counts.
    fn visit(&mut self, layer: usize, wanted: &[u32], predicted: &[u32]) -> StoreStatistics {
        let Self { made, store } = self;
        let mut n_served = 0;
        let compute = |wave: &[ResidentExpert<'_>]| {
            n_served += wave.len();
            wave.iter().for_each(|expert| made.check(layer, expert.expert, expert.bytes));
        };
        let mut waves = Waves { pool: Pool::new(2), compute };
        store
            .visit(layer, wanted, Some((1 - layer, predicted)), &mut waves)
            .expect("files are whole");
        assert_eq!(n_served, wanted.len());
        store.statistics()
    }

    fn expert_bytes(&self) -> u64 {
        self.made.table.layers[0].file_bytes()
    }

    fn warm_up(&mut self) {
        let mut pool = Pool::new(1);
        while self.store.idle(&mut pool) {}
    }
}

/// Bytes beside each other in the file are read along; no two experts of these lie so.
fn experts_read(run: &Run, counts: &StoreStatistics) -> u64 {
    let (bytes, gaps) = (run.expert_bytes(), 64);
    let n = counts.bytes_read / bytes;
    assert!(counts.bytes_read - n * bytes <= n * gaps, "{} bytes", counts.bytes_read);
    n
}

#[test]
fn a_right_prediction_is_read_once() {
    let mut run = Run::new(16, None);
    let counts = run.visit(0, &[1, 2], &[7, 3]);
    assert_eq!((counts.prefetch_started, experts_read(&run, &counts)), (2, 4));
    let counts = run.visit(1, &[3, 7], &[]);
    assert_eq!((counts.prefetch_useful, counts.prefetch_wasted), (2, 0));
    assert_eq!(experts_read(&run, &counts), 4, "nothing is read again");
    assert_eq!((counts.predicted, counts.predicted_right), (2, 2));
}

#[test]
fn a_wrong_prediction_evicts_nothing_and_is_counted() {
    let mut run = Run::new(8, None);
    run.visit(0, &[0, 1, 2, 3], &[]);
    let full = run.visit(1, &[0, 1, 2, 3], &[9, 10, 11]);
    assert_eq!((full.slots_used, full.prefetch_started), (8, 3));
    let counts = run.visit(0, &[0, 1, 2, 3], &[12]);
    assert_eq!((counts.prefetch_wasted, counts.prefetch_useful), (3, 0));
    assert_eq!((counts.evictions, counts.hits), (0, 4));
    let wasted = counts.prefetch_wasted_bytes;
    assert!(wasted >= 3 * run.expert_bytes(), "{wasted} bytes");
    // Nobody asks for the last one either.
    let counts = run.visit(1, &[0, 1, 2, 3], &[]);
    assert_eq!((counts.prefetch_wasted, counts.hits, counts.evictions), (4, 8, 0));
    assert_eq!((counts.predicted, counts.predicted_right), (4, 0));
}

#[test]
fn what_is_in_memory_is_not_read_for_a_prediction() {
    let mut run = Run::new(16, None);
    run.visit(1, &[4, 5], &[]);
    let counts = run.visit(0, &[1], &[5, 4]);
    assert_eq!((counts.prefetch_started, experts_read(&run, &counts)), (0, 3));
    let counts = run.visit(1, &[4, 5], &[]);
    assert_eq!((counts.predicted_right, counts.hits), (2, 2));
}

#[test]
fn experts_that_stay_in_memory_are_not_read_for_a_prediction() {
    let made = Made::new(2, &[(0, N_EXPERTS, MIXED), (1, N_EXPERTS, MIXED)], 1);
    let mut tiers = vec![Tier::Stream; 2 * N_EXPERTS as usize];
    tiers[N_EXPERTS as usize..][..4].fill(Tier::Primary);
    let options = StoreOptions { prefetch: true, n_used: 4, ..options(tiers, 8) };
    let store = made.open(&options);
    let mut run = Run { made, store };
    let counts = run.visit(0, &[1], &[0, 1, 2, 3, 9]);
    assert_eq!(counts.prefetch_started, 1, "only the streamed one");
    let counts = run.visit(1, &[0, 1, 2, 3, 9], &[]);
    assert_eq!((counts.prefetch_useful, counts.prefetch_wasted), (1, 0));
}

/// Says that a file was written to, however coarse the clock of its file system is.
fn touch(made: &Made) {
    let file = std::fs::File::options().write(true).open(&made.paths[0]).expect("a file");
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("its own file");
}

#[test]
fn what_arrives_from_a_file_that_changed_meanwhile_is_not_served() {
    let made = Made::new(1, &[(0, N_EXPERTS, MIXED)], 1);
    let options = options(vec![Tier::Stream; N_EXPERTS as usize], 8);
    let mut store = made.open(&options);
    let mut served = Vec::new();
    visit(&mut store, 0, &[1], |wave| made.check(0, wave[0].expert, wave[0].bytes)).unwrap();
    // The first is computed while the others are read.
    let visited = visit(&mut store, 0, &[1, 2, 3], |wave| {
        served.extend(wave.iter().map(|expert| expert.expert));
        touch(&made);
    });
    assert!(matches!(visited, Err(StoreError::Changed { layer: 0, .. })), "{visited:?}");
    assert_eq!(served, [1]);
}

#[test]
fn a_warm_start_takes_nothing_from_a_file_that_changed() {
    let mut run = Run::new(6, Some(usage()));
    touch(&run.made);
    run.warm_up();
    assert_eq!(run.store.statistics().warmed, 0);
}

#[test]
fn no_more_is_read_ahead_than_three_quarters_of_what_a_token_uses() {
    let mut run = Run::new(32, None);
    let counts = run.visit(0, &[1], &[0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(counts.prefetch_started, 3);
}

#[test]
fn a_count_as_large_as_there_is_counts_no_further() {
    let mut usage = vec![0; 2 * N_EXPERTS as usize];
    usage[3] = u64::MAX;
    let mut run = Run::new(8, Some(usage));
    run.store.note_routes(0, &[3, 3, 4]);
    assert_eq!(run.store.usage()[3..5], [u64::MAX, 1]);
}

#[test]
fn without_prefetch_nothing_is_read_ahead() {
    let made = Made::new(2, &[(0, N_EXPERTS, MIXED), (1, N_EXPERTS, MIXED)], 1);
    for (io, prefetch) in [(None, false), (Some(IoBackend::Mmap), true)] {
        let options = StoreOptions { io, prefetch, ..options(vec![Tier::Stream; 32], 8) };
        let mut store = made.open(&options);
        let mut waves = Waves { pool: Pool::new(1), compute: |_: &[ResidentExpert<'_>]| {} };
        store.visit(0, &[1, 2], Some((1, &[3, 4])), &mut waves).unwrap();
        store.visit(1, &[3, 5], None, &mut waves).unwrap();
        let counts = store.statistics();
        assert_eq!((counts.prefetch_started, counts.misses), (0, 4));
        assert_eq!((counts.predicted, counts.predicted_right), (2, 1), "the guess is judged");
    }
}

/// Counts of earlier runs: expert `e` of layer 1 was used `e` times, layer 0 never.
fn usage() -> Vec<u64> {
    (0..N_EXPERTS).map(|_| 0).chain((0..N_EXPERTS).map(u64::from)).collect()
}

#[test]
fn a_warm_start_fills_free_slots_with_the_hottest_and_stops() {
    let mut run = Run::new(6, Some(usage()));
    run.warm_up();
    let counts = run.store.statistics();
    assert_eq!((counts.warmed, counts.slots_used, experts_read(&run, &counts)), (6, 6, 6));
    let counts = run.visit(1, &[10, 11, 12, 13, 14, 15], &[]);
    assert_eq!((counts.hits, counts.misses), (6, 0));
    assert!(!run.store.idle(&mut Pool::new(1)));
}

#[test]
fn a_warm_start_never_evicts() {
    let mut run = Run::new(6, Some(usage()));
    run.visit(0, &[0, 1, 2], &[]);
    run.warm_up();
    let counts = run.store.statistics();
    assert_eq!((counts.warmed, counts.evictions), (3, 0));
    let counts = run.visit(0, &[0, 1, 2], &[]);
    assert_eq!((counts.hits, counts.evictions), (3, 0));
}

#[test]
fn a_warm_start_passes_over_what_is_here() {
    let mut run = Run::new(8, Some(usage()));
    run.visit(1, &[13, 15], &[]);
    run.warm_up();
    let counts = run.store.statistics();
    assert_eq!((counts.warmed, counts.slots_used, experts_read(&run, &counts)), (6, 8, 8));
    let hottest: Vec<u32> = (8..N_EXPERTS).collect();
    assert_eq!(run.visit(1, &hottest, &[]).misses, counts.misses, "the hottest are all there");
}

#[test]
fn a_visit_in_the_middle_of_a_warm_start_is_served_and_the_start_goes_on() {
    let mut run = Run::new(32, Some(usage()));
    let mut pool = Pool::new(1);
    for round in 0..4 {
        let more = run.store.idle(&mut pool);
        run.visit(round % 2, &[0, 15], &[2]);
        if !more {
            break;
        }
    }
    run.warm_up();
    let all: Vec<u32> = (1..N_EXPERTS).collect();
    let before = run.store.statistics().misses;
    assert_eq!(run.visit(1, &all, &[]).misses, before, "all that was ever used is there");
}

#[test]
fn usage_is_what_tokens_chose_added_to_earlier_runs() {
    let mut run = Run::new(4, Some(usage()));
    run.store.note_routes(1, &[3, 3, 15, 0]);
    run.store.note_routes(0, &[2]);
    let mut expected = usage();
    for at in [16 + 3, 16 + 3, 16 + 15, 16, 2] {
        expected[at] += 1;
    }
    assert_eq!(run.store.usage(), expected);
}

#[test]
fn only_a_layer_with_streamed_experts_is_worth_a_prediction() {
    let made = Made::new(3, &[(0, 2, MIXED), (2, 2, MIXED)], 1);
    let mut tiers = vec![Tier::Primary; 6];
    tiers[5] = Tier::Stream;
    let store = made.open(&options(tiers, 1));
    assert_eq!([0, 1, 2].map(|layer| store.is_resident(layer)), [true, true, false]);
}
