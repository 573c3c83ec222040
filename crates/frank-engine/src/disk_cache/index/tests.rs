//! The index against a plain list of what it holds, over random uses.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn id(n: u8) -> EntryId {
    EntryId { folder: 0, key: [n; 32] }
}

fn entry(parent: Option<u8>, charge: u64) -> Entry {
    Entry { parent: parent.map(|n| [n; 32]), charge }
}

/// Admits and commits; returns what was evicted.
fn store(
    index: &mut Index,
    n: u8,
    parent: Option<u8>,
    charge: u64,
) -> Result<Vec<EntryId>, Refusal> {
    let evicted = index.admit(parent.map(id).as_ref(), charge)?;
    index.commit(id(n), entry(parent, charge), charge);
    Ok(evicted)
}

fn filled(budget: u64, entries: &[(u8, Option<u8>, u64)]) -> Index {
    let mut index = Index::new(budget);
    let found = entries.iter().map(|&(n, parent, charge)| (id(n), entry(parent, charge)));
    assert_eq!(index.fill(found), []);
    index
}

#[test]
fn leaves_go_first_and_of_them_the_one_used_longest_ago() {
    let mut index =
        filled(100, &[(1, None, 20), (2, Some(1), 20), (3, Some(2), 20), (4, None, 20)]);
    assert_eq!(store(&mut index, 5, None, 40), Ok(vec![id(3)]));
    // Its parent is bare now and older than the other chain.
    assert_eq!(store(&mut index, 6, None, 40), Ok(vec![id(2), id(1)]));
}

#[test]
fn a_use_saves_an_entry() {
    let mut index = filled(40, &[(1, None, 10), (2, None, 10), (3, None, 10), (4, None, 10)]);
    index.touch(&id(1));
    assert_eq!(store(&mut index, 5, None, 10), Ok(vec![id(2)]));
}

#[test]
fn a_long_conversation_does_not_eat_its_own_beginning() {
    let mut index = Index::new(40);
    for n in 1..=4 {
        assert_eq!(store(&mut index, n, (n > 1).then(|| n - 1), 10), Ok(vec![]));
    }
    // However often it is tried: the only leaf is its parent.
    for _ in 0..20 {
        assert_eq!(store(&mut index, 5, Some(4), 10), Err(Refusal::NoRoom));
    }
    assert_eq!(index.len(), 4);
}

#[test]
fn what_was_just_stored_or_restored_is_not_evicted_for_something_new() {
    let mut index = filled(400, &[(1, None, 100), (2, None, 100), (3, None, 100)]);
    index.touch(&id(1));
    assert_eq!(store(&mut index, 4, None, 100), Ok(vec![]));
    assert_eq!(store(&mut index, 5, None, 300), Err(Refusal::NoRoom), "1 and 4 would go");
    assert_eq!((index.len(), index.used_bytes()), (4, 400));
}

#[test]
fn one_who_comes_again_gets_in_when_the_others_have_aged() {
    let mut index = Index::new(40);
    for n in 1..=4 {
        assert_eq!(store(&mut index, n, None, 10), Ok(vec![]));
    }
    for _ in 0..10 {
        index.touch(&id(4));
    }
    assert_eq!(store(&mut index, 5, None, 10), Ok(vec![id(1)]));
    let mut index = Index::new(10);
    assert_eq!(store(&mut index, 1, None, 10), Ok(vec![]));
    assert_eq!(store(&mut index, 2, None, 10), Err(Refusal::NoRoom));
    assert_eq!(store(&mut index, 2, None, 10), Ok(vec![id(1)]));
}

#[test]
fn what_can_never_be_used_is_refused() {
    let mut index = Index::new(100);
    assert_eq!(store(&mut index, 1, None, 101), Err(Refusal::TooLarge));
    assert_eq!(store(&mut index, 1, Some(9), 10), Err(Refusal::NoParent));
    assert_eq!(index.used_bytes(), 0);
}

#[test]
fn a_smaller_budget_than_last_time_is_kept_from_the_start() {
    let mut index = Index::new(25);
    let found = [(1, None), (2, Some(1)), (3, None), (3, None)];
    let surplus = index.fill(found.map(|(n, parent)| (id(n), entry(parent, 10))));
    assert_eq!(surplus, [id(3), id(2)], "the second of one key, then the oldest leaf");
    assert_eq!(index.used_bytes(), 20);
}

#[test]
fn equal_keys_of_two_models_are_two_entries() {
    let mut index = filled(100, &[(1, None, 10), (2, Some(1), 10)]);
    let other = EntryId { folder: 1, ..id(1) };
    assert_eq!(index.admit(None, 10), Ok(vec![]));
    index.commit(other, entry(None, 10), 10);
    assert_eq!((index.len(), index.used_bytes()), (3, 30));
    index.remove(&other);
    assert!(index.contains(&id(1)));
}

#[test]
fn parents_in_a_ring_do_not_stop_a_start() {
    let mut index = Index::new(15);
    let found = [(1, Some(2)), (2, Some(1))].map(|(n, parent)| (id(n), entry(parent, 10)));
    assert_eq!(index.fill(found).len(), 1);
    assert_eq!(index.used_bytes(), 10);
}

#[test]
fn children_of_a_removed_parent_are_its_children_again_when_it_returns() {
    let mut index = filled(50, &[(1, None, 10), (2, Some(1), 10), (3, None, 10)]);
    index.remove(&id(1));
    assert_eq!(store(&mut index, 1, None, 10), Ok(vec![]));
    index.touch(&id(3));
    index.touch(&id(3));
    assert_eq!(store(&mut index, 4, None, 30), Ok(vec![id(2)]), "not the parent before its child");
}

#[derive(Debug, Clone)]
enum Use {
    Store { n: u8, parent: Option<u8>, charge: u64 },
    Fail { parent: Option<u8>, charge: u64 },
    Touch(u8),
    Remove(u8),
}

fn any_use() -> impl Strategy<Value = Use> {
    let parent = || prop::option::weighted(0.7, 0..24u8);
    prop_oneof![
        6 => (0..24u8, parent(), 1..60u64)
            .prop_map(|(n, parent, charge)| Use::Store { n, parent, charge }),
        1 => (parent(), 1..60u64).prop_map(|(parent, charge)| Use::Fail { parent, charge }),
        2 => (0..24u8).prop_map(Use::Touch),
        1 => (0..24u8).prop_map(Use::Remove),
    ]
}

proptest! {
    #[test]
    fn the_budget_holds_and_no_parent_goes_before_its_child(
        budget in 0..400u64,
        uses in vec(any_use(), 0..200),
    ) {
        let mut index = Index::new(budget);
        // What was used last, and how much was refused since then: that lets it age.
        let mut just_used: Option<(EntryId, u64)> = None;
        for one in uses {
            let protected = just_used.filter(|(_, refused)| *refused <= budget / 4).map(|(k, _)| k);
            match one {
                Use::Store { n, parent, charge } if !index.contains(&id(n)) && parent != Some(n) => {
                    let before: Vec<EntryId> = index.entries.keys().copied().collect();
                    if let Ok(evicted) = store(&mut index, n, parent, charge) {
                        prop_assert!(protected.is_none_or(|used| !evicted.contains(&used)));
                        prop_assert!(parent.is_none_or(|parent| index.contains(&id(parent))));
                        for gone in &evicted {
                            let child = index.entries.values().find(|indexed| {
                                indexed.parent == Some(*gone)
                            });
                            prop_assert!(child.is_none(), "{gone:?} left a child");
                        }
                        prop_assert_eq!(before.len() + 1 - evicted.len(), index.len());
                        just_used = Some((id(n), 0));
                    } else {
                        prop_assert!(before.iter().all(|key| index.contains(key)));
                        just_used = just_used.map(|(key, refused)| (key, refused + charge));
                    }
                }
                Use::Store { .. } => {}
                Use::Fail { parent, charge } => {
                    if let Ok(evicted) = index.admit(parent.map(id).as_ref(), charge) {
                        prop_assert!(protected.is_none_or(|u| !evicted.contains(&u)));
                        index.cancel(charge);
                    } else {
                        just_used = just_used.map(|(key, refused)| (key, refused + charge));
                    }
                }
                Use::Touch(n) => {
                    index.touch(&id(n));
                    if index.contains(&id(n)) {
                        just_used = Some((id(n), 0));
                    }
                }
                Use::Remove(n) => {
                    index.remove(&id(n));
                }
            }
            check(&index);
        }
    }
}

/// What must be true of an index at any time.
fn check(index: &Index) {
    let sum: u64 = index.entries.values().map(|indexed| indexed.charge).sum();
    assert_eq!(sum, index.used_bytes);
    assert!(sum <= index.budget_bytes, "{sum} of {}", index.budget_bytes);
    for (key, indexed) in &index.entries {
        let n = index.entries.values().filter(|other| other.parent == Some(*key)).count();
        assert_eq!(index.n_children.get(key).copied().unwrap_or(0), n);
        assert_eq!(index.leaves.get(&indexed.used_at) == Some(key), n == 0);
    }
    assert!(index.leaves.len() <= index.entries.len());
}
