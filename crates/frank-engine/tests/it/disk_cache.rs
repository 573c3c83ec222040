//! A disk cache through processes: what it finds, in which order it forgets, and what it may take.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use frank_engine::{DiskCache, EntryKey, Stored};
use frank_testkit::property_cases;
use proptest::collection::vec;
use proptest::prelude::*;
use tempfile::TempDir;

use crate::disk_damage::flip;

pub(crate) const MODEL: [u8; 32] = [7; 32];
pub(crate) const OTHER_MODEL: [u8; 32] = [8; 32];
pub(crate) const AMPLE: u64 = 1 << 30;

/// What an entry of 1,000 bytes takes of the budget: its file, and its share of the folders.
pub(crate) const CHARGE: u64 = 8192;

pub(crate) fn open(dir: &Path, budget: u64) -> DiskCache {
    DiskCache::open(dir, budget, MODEL).expect("a directory of its own")
}

pub(crate) fn key(n: u8) -> EntryKey {
    std::array::from_fn(|i| n.wrapping_mul(31).wrapping_add(i as u8))
}

pub(crate) fn payload(n: u8) -> Vec<u8> {
    (0..1000u32).map(|i| (i as u8).wrapping_mul(n | 1)).collect()
}

pub(crate) fn store(cache: &DiskCache, n: u8, parent: Option<u8>) -> Stored {
    cache.store(&key(n), parent.map(key).as_ref(), &payload(n))
}

/// The bytes of an entry, when it is there.
pub(crate) fn load(cache: &DiskCache, n: u8) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 1000];
    cache.load(&key(n), &mut bytes).then_some(bytes)
}

/// All files below `dir`, the lock apart.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for file in fs::read_dir(dir).expect("a directory").map(|file| file.expect("a file").path()) {
        if file.is_dir() {
            found.extend(files(&file));
        } else if !file.ends_with("frank-cache.lock") {
            found.push(file);
        }
    }
    found.sort();
    found
}

/// Bytes that everything below `dir` takes of the disk, folders included.
fn allocated(dir: &Path) -> u64 {
    let below = fs::read_dir(dir).expect("a directory").map(|file| {
        let path = file.expect("a file").path();
        let metadata = fs::symlink_metadata(&path).expect("it is there");
        let own = metadata.blocks() * 512;
        if metadata.is_dir() { own + allocated(&path) } else { own }
    });
    below.sum()
}

#[test]
fn an_entry_is_found_by_the_process_that_comes_after() {
    let dir = TempDir::new().unwrap();
    let cache = open(dir.path(), AMPLE);
    assert_eq!(load(&cache, 1), None);
    assert_eq!(store(&cache, 1, None), Stored::Written);
    assert_eq!(store(&cache, 2, Some(1)), Stored::Written);
    assert_eq!(store(&cache, 2, Some(1)), Stored::Present);
    assert_eq!(load(&cache, 2), Some(payload(2)));
    let stats = cache.stats();
    assert_eq!((stats.entries, stats.used_bytes), (2, 2 * CHARGE));
    drop(cache);
    let cache = open(dir.path(), AMPLE);
    assert_eq!(cache.stats(), stats);
    assert!(cache.contains(&key(1)) && !cache.contains(&key(3)));
    assert_eq!((load(&cache, 1), load(&cache, 2)), (Some(payload(1)), Some(payload(2))));
}

#[test]
fn models_share_a_budget_and_never_an_entry() {
    let dir = TempDir::new().unwrap();
    store(&open(dir.path(), AMPLE), 1, None);
    let other = DiskCache::open(dir.path(), 2 * CHARGE, OTHER_MODEL).unwrap();
    assert_eq!((other.contains(&key(1)), load(&other, 1)), (false, None));
    assert_eq!(other.stats().entries, 1);
    assert_eq!(store(&other, 2, None), Stored::Written);
    assert_eq!(store(&other, 3, None), Stored::Written, "the other model's entry went");
    assert_eq!(files(dir.path()).len(), 2);
    drop(other);
    assert_eq!(load(&open(dir.path(), AMPLE), 1), None);
}

#[test]
fn two_models_may_have_an_entry_of_one_key() {
    let dir = TempDir::new().unwrap();
    store(&open(dir.path(), AMPLE), 1, None);
    let other = DiskCache::open(dir.path(), AMPLE, OTHER_MODEL).unwrap();
    assert_eq!(other.store(&key(1), None, &payload(2)), Stored::Written);
    assert_eq!((load(&other, 1), other.stats().entries), (Some(payload(2)), 2));
    drop(other);
    assert_eq!(load(&open(dir.path(), AMPLE), 1), Some(payload(1)));
}

#[test]
fn a_budget_counts_all_that_lies_on_the_disk() {
    let dir = TempDir::new().unwrap();
    let budget = 20 * CHARGE + 100;
    let cache = open(dir.path(), budget);
    let frame = allocated(dir.path());
    let written =
        (0..200).filter(|n| cache.store(&key(*n), None, &payload(*n)) == Stored::Written).count();
    assert!(written > 30, "old ones made room: {written}");
    assert_eq!(cache.stats().entries, 20);
    let taken = allocated(dir.path()) - frame;
    assert!(taken <= budget, "{taken} of {budget}");
}

#[test]
fn what_is_larger_than_the_budget_is_never_written() {
    let dir = TempDir::new().unwrap();
    let cache = open(dir.path(), CHARGE - 1);
    assert_eq!(store(&cache, 1, None), Stored::Refused);
    assert_eq!(files(dir.path()), Vec::<PathBuf>::new());
    assert!(cache.is_storing());
}

#[test]
fn the_order_of_use_survives_a_restart() {
    let dir = TempDir::new().unwrap();
    let cache = open(dir.path(), AMPLE);
    for n in 1..=4 {
        store(&cache, n, None);
    }
    load(&cache, 1).expect("it was stored");
    drop(cache);
    let cache = open(dir.path(), 4 * CHARGE);
    assert_eq!(store(&cache, 5, None), Stored::Written);
    let there: Vec<u8> = (1..=5).filter(|n| cache.contains(&key(*n))).collect();
    assert_eq!(there, [1, 3, 4, 5]);
}

#[test]
fn a_smaller_budget_is_kept_from_the_start() {
    let dir = TempDir::new().unwrap();
    let cache = open(dir.path(), AMPLE);
    for n in 1..=4 {
        store(&cache, n, (n > 1).then(|| n - 1));
    }
    drop(cache);
    let cache = open(dir.path(), 2 * CHARGE);
    assert_eq!(files(dir.path()).len(), 2);
    assert_eq!((load(&cache, 1), load(&cache, 2)), (Some(payload(1)), Some(payload(2))));
}

#[test]
fn a_time_in_the_future_does_not_keep_an_entry_for_ever() {
    let dir = TempDir::new().unwrap();
    store(&open(dir.path(), AMPLE), 1, None);
    let file = File::options().write(true).open(files(dir.path()).remove(0)).unwrap();
    file.set_modified(SystemTime::now() + Duration::from_secs(1 << 30)).unwrap();
    let cache = open(dir.path(), AMPLE);
    store(&cache, 2, None);
    load(&cache, 1).expect("it was stored");
    load(&cache, 2).expect("it was stored");
    drop(cache);
    let cache = open(dir.path(), CHARGE);
    assert_eq!((load(&cache, 1), load(&cache, 2)), (None, Some(payload(2))));
}

#[test]
fn threads_may_store_and_load_side_by_side() {
    let dir = TempDir::new().unwrap();
    let cache = open(dir.path(), 10 * CHARGE);
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let cache = &cache;
            scope.spawn(move || {
                for n in 0..100u16 {
                    let n = ((n * 7 + u16::from(thread) * 13) % 40) as u8;
                    store(cache, n, None);
                    assert!(load(cache, n).is_none_or(|bytes| bytes == payload(n)));
                }
            });
        }
    });
    assert!(cache.stats().used_bytes <= 10 * CHARGE);
    assert!(cache.is_storing());
}

#[derive(Debug, Clone)]
enum Use {
    Store(u8, Option<u8>),
    Load(u8),
    Flip(usize, usize),
    Reopen,
}

fn any_use() -> impl Strategy<Value = Use> {
    prop_oneof![
        8 => (0..30u8, prop::option::of(0..30u8)).prop_map(|(n, parent)| Use::Store(n, parent)),
        4 => (0..30u8).prop_map(Use::Load),
        1 => (0..30usize, 0..1152usize).prop_map(|(file, at)| Use::Flip(file, at)),
        1 => Just(Use::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(property_cases(32)))]

    #[test]
    fn no_use_breaks_the_budget_or_brings_wrong_bytes(
        n_entries in 0..12u64,
        uses in vec(any_use(), 0..80),
    ) {
        let dir = TempDir::new().unwrap();
        let budget = n_entries * CHARGE + 17;
        let mut cache = open(dir.path(), budget);
        let frame = allocated(dir.path());
        // What was used last, and how much was refused since then: that lets it age.
        let mut just_used: Option<(u8, u64)> = None;
        for one in uses {
            match one {
                Use::Store(n, parent) if parent != Some(n) => {
                    let stored = store(&cache, n, parent);
                    prop_assert!(stored != Stored::Off);
                    prop_assert_eq!(stored != Stored::Refused, cache.contains(&key(n)));
                    if let Some((used, refused)) = just_used {
                        let is_there = cache.contains(&key(used));
                        prop_assert!(is_there || refused > budget / 4, "{used} was just used");
                    }
                    just_used = if stored == Stored::Refused {
                        just_used.map(|(used, refused)| (used, refused + CHARGE))
                    } else {
                        Some((n, 0))
                    };
                }
                Use::Store(..) => {}
                Use::Load(n) => {
                    let was_there = cache.contains(&key(n));
                    let loaded = load(&cache, n);
                    prop_assert!(loaded.as_ref().is_none_or(|bytes| *bytes == payload(n)));
                    prop_assert!(was_there || loaded.is_none());
                    if loaded.is_some() {
                        just_used = Some((n, 0));
                    } else if just_used.is_some_and(|(used, _)| used == n) {
                        just_used = None;
                    }
                }
                Use::Flip(file, at) => {
                    let files = files(dir.path());
                    if !files.is_empty() {
                        flip(&files[file % files.len()], at);
                    }
                }
                Use::Reopen => {
                    drop(cache);
                    cache = open(dir.path(), budget);
                    just_used = None;
                }
            }
            prop_assert!(cache.stats().used_bytes <= budget);
            prop_assert!(allocated(dir.path()) - frame <= budget);
        }
    }
}
