//! A disk cache through processes, damage and other people's files.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use frank_engine::{DiskCache, DiskCacheError, EntryKey, Stored};
use frank_testkit::property_cases;
use proptest::collection::vec;
use proptest::prelude::*;
use tempfile::TempDir;

const MODEL: [u8; 32] = [7; 32];
const OTHER_MODEL: [u8; 32] = [8; 32];
const AMPLE: u64 = 1 << 30;

/// What an entry of 1,000 bytes takes of the budget: its file, and its share of the folders.
const CHARGE: u64 = 8192;

fn open(dir: &Path, budget: u64) -> DiskCache {
    DiskCache::open(dir, budget, MODEL).expect("a directory of its own")
}

fn key(n: u8) -> EntryKey {
    std::array::from_fn(|i| n.wrapping_mul(31).wrapping_add(i as u8))
}

fn payload(n: u8) -> Vec<u8> {
    (0..1000u32).map(|i| (i as u8).wrapping_mul(n | 1)).collect()
}

fn store(cache: &DiskCache, n: u8, parent: Option<u8>) -> Stored {
    cache.store(&key(n), parent.map(key).as_ref(), &payload(n))
}

/// The bytes of an entry, when it is there.
fn load(cache: &DiskCache, n: u8) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 1000];
    cache.load(&key(n), &mut bytes).then_some(bytes)
}

/// All files below `dir`, the lock apart.
fn files(dir: &Path) -> Vec<PathBuf> {
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
fn nobody_else_may_read_what_is_cached() {
    let dir = TempDir::new().unwrap();
    let place = dir.path().join("new/cache");
    store(&open(&place, AMPLE), 1, None);
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&place), 0o700);
    for file in files(&place) {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
        assert_eq!(mode(file.parent().unwrap()), 0o700);
        assert_eq!(mode(file.parent().unwrap().parent().unwrap()), 0o700);
    }
    assert_eq!(mode(&place.join("frank-cache.lock")), 0o600);
    fs::set_permissions(&place, Permissions::from_mode(0o755)).unwrap();
    drop(open(&place, AMPLE));
    assert_eq!(mode(&place), 0o700, "rights that were too wide are taken back");
}

#[test]
fn a_directory_that_is_not_ours_is_refused_and_left_as_it_was() {
    let dir = TempDir::new().unwrap();
    let refused = |path: &Path| DiskCache::open(path, AMPLE, MODEL).expect_err("refused");
    let file = dir.path().join("file");
    fs::write(&file, "text").unwrap();
    assert!(matches!(refused(&file), DiskCacheError::NotADirectory { .. }));
    assert!(matches!(refused(&file.join("below")), DiskCacheError::NotADirectory { .. }));
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let error = refused(dir.path());
    assert!(matches!(error, DiskCacheError::NotACache { .. }), "{error}");
    assert!(error.to_string().contains("\"file\""), "{error}");
    assert_eq!(fs::metadata(dir.path()).unwrap().mode() & 0o777, 0o755);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn entries_that_others_could_have_written_are_not_believed() {
    let dir = TempDir::new().unwrap();
    store(&open(dir.path(), AMPLE), 1, None);
    fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
    let error = DiskCache::open(dir.path(), AMPLE, MODEL).expect_err("refused");
    assert!(matches!(error, DiskCacheError::WritableByOthers { mode: 0o777, .. }), "{error}");
}

#[test]
fn a_directory_serves_one_process_at_a_time() {
    let dir = TempDir::new().unwrap();
    let first = open(dir.path(), AMPLE);
    let error = DiskCache::open(dir.path(), AMPLE, OTHER_MODEL).expect_err("it is locked");
    assert!(matches!(error, DiskCacheError::InUse { .. }), "{error}");
    assert_eq!(store(&first, 1, None), Stored::Written);
    drop(first);
    open(dir.path(), AMPLE);
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

/// Stores two entries, lets `damage` change the file of the second, and opens the directory again before or after.
fn check_damage(what: &str, damage: impl Fn(&Path)) {
    for while_open in [false, true] {
        let dir = TempDir::new().expect("a temporary folder");
        let cache = open(dir.path(), AMPLE);
        store(&cache, 1, None);
        let before = files(dir.path());
        store(&cache, 2, Some(1));
        let second = files(dir.path()).into_iter().find(|file| !before.contains(file));
        let second = second.expect("its file");
        let cache = if while_open {
            damage(&second);
            cache
        } else {
            drop(cache);
            damage(&second);
            open(dir.path(), AMPLE)
        };
        assert_eq!(load(&cache, 2), None, "{what}, while open: {while_open}");
        assert!(!cache.contains(&key(2)) && !second.exists(), "{what}: it is removed");
        assert_eq!(load(&cache, 1), Some(payload(1)), "{what}");
        assert_eq!(store(&cache, 2, Some(1)), Stored::Written, "{what}: it can be stored again");
        assert_eq!(load(&cache, 2), Some(payload(2)), "{what}");
    }
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("an entry");
    bytes[at] ^= 1;
    fs::write(path, bytes).expect("an entry");
}

#[test]
fn a_damaged_entry_is_a_miss_and_is_removed() {
    for at in [0, 8, 12, 16, 48, 80, 112, 120, 152, 700, 1151] {
        check_damage(&format!("byte {at}"), |path| flip(path, at));
    }
    for len in [0, 7, 119, 151, 152, 1151] {
        check_damage(&format!("cut to {len} bytes"), |path| {
            File::options().write(true).open(path).unwrap().set_len(len).unwrap();
        });
    }
    check_damage("more bytes", |path| {
        let bytes = [fs::read(path).unwrap(), vec![0]].concat();
        fs::write(path, bytes).unwrap();
    });
    check_damage("another text", |path| fs::write(path, "not an entry").unwrap());
    check_damage("gone", |path| fs::remove_file(path).unwrap());
}

#[test]
fn an_entry_under_the_name_of_another_is_not_that_other() {
    check_damage("the file of the first", |second| {
        let root = second.ancestors().nth(3).unwrap();
        let first = files(root).into_iter().find(|file| file != second).unwrap();
        fs::copy(first, second).unwrap();
    });
}

#[test]
fn what_a_killed_process_left_unfinished_is_removed() {
    let dir = TempDir::new().unwrap();
    store(&open(dir.path(), AMPLE), 1, None);
    let entry = files(dir.path()).remove(0);
    let unfinished = entry.with_file_name(format!("unfinished-{}", "ab".repeat(32)));
    fs::write(&unfinished, [0; 5000]).unwrap();
    let cache = open(dir.path(), AMPLE);
    assert_eq!(files(dir.path()), [entry]);
    assert_eq!(cache.stats().used_bytes, CHARGE);
}

#[test]
fn a_directory_that_vanishes_ends_storing_and_nothing_else() {
    let dir = TempDir::new().unwrap();
    let place = dir.path().join("cache");
    let cache = open(&place, AMPLE);
    store(&cache, 1, None);
    fs::remove_dir_all(&place).unwrap();
    assert_eq!(load(&cache, 1), None);
    assert_eq!(store(&cache, 2, None), Stored::Off);
    assert!(!cache.is_storing());
    assert_eq!(store(&cache, 3, None), Stored::Off);
    assert_eq!(load(&cache, 3), None);
    assert!(!place.exists(), "it is not made anew under somebody's hands");
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
