//! What lies in a disk cache, as it is kept in memory: sizes, order of use, whose parent is whose. Never touches a
//! file.

use std::collections::{BTreeMap, BTreeSet};

use super::EntryKey;

/// Entries in all. Each takes about 200 bytes here, so the index stays below 16 MiB whatever the budget is.
pub(super) const ENTRIES_MAX: usize = 65_536;

/// What has been stored or restored within this part of the budget is not evicted for something new. Without it two
/// conversations that do not fit together would evict each other page by page, each writing what nobody reads.
const PROTECTED_PART: u64 = 4;

/// Names an entry among those of all fingerprints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EntryId {
    /// The folder of its fingerprint.
    pub(super) folder: usize,
    pub(super) key: EntryKey,
}

/// One file on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    /// The entry of the same folder without which this one cannot be found.
    pub(super) parent: Option<EntryKey>,
    /// Bytes that it takes of the budget.
    pub(super) charge: u64,
}

/// Why an entry is not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It is larger than the budget.
    TooLarge,
    /// Nobody would find it: its parent is not here.
    NoParent,
    /// Only what was just stored or restored could make room.
    NoRoom,
}

#[derive(Debug)]
struct Indexed {
    charge: u64,
    parent: Option<EntryId>,
    /// [`Index::clock`] at the last use. Differs for all entries, since each use moves the clock.
    used_at: u64,
}

/// All entries of a directory and the order in which they would be evicted.
#[derive(Debug)]
pub(super) struct Index {
    budget_bytes: u64,
    used_bytes: u64,
    /// Bytes stored, restored or refused so far. Use is ordered by it, and it says how long ago a use was.
    clock: u64,
    entries: BTreeMap<EntryId, Indexed>,
    /// How many entries name another as their parent, whether or not that one is here.
    n_children: BTreeMap<EntryId, usize>,
    /// Entries without children by their last use.
    leaves: BTreeMap<u64, EntryId>,
}

impl Index {
    pub(super) fn new(budget_bytes: u64) -> Self {
        Self {
            budget_bytes,
            used_bytes: 0,
            clock: 0,
            entries: BTreeMap::new(),
            n_children: BTreeMap::new(),
            leaves: BTreeMap::new(),
        }
    }

    /// Takes in what an earlier process left, given from the one used longest ago to the last. Returns what the budget
    /// has no room for any more, and the entries whose id was there already.
    pub(super) fn fill(
        &mut self,
        found: impl IntoIterator<Item = (EntryId, Entry)>,
    ) -> Vec<EntryId> {
        let mut surplus = Vec::new();
        for (id, entry) in found {
            if self.entries.contains_key(&id) {
                surplus.push(id);
            } else {
                self.used_bytes += entry.charge;
                self.insert(id, entry);
            }
        }
        while self.used_bytes > self.budget_bytes || self.entries.len() > ENTRIES_MAX {
            let oldest = self.leaves.first_key_value().map(|(_, id)| *id);
            // Parents that name each other in a ring have no leaf; whoever wrote them gets no thanks.
            let victim = oldest.or_else(|| self.entries.first_key_value().map(|(id, _)| *id));
            let Some(victim) = victim else { break };
            self.remove(&victim);
            surplus.push(victim);
        }
        // Nothing was used by this process yet.
        self.clock += self.protected_bytes();
        surplus
    }

    pub(super) fn contains(&self, id: &EntryId) -> bool {
        self.entries.contains_key(id)
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Notes that an entry was used now.
    pub(super) fn touch(&mut self, id: &EntryId) {
        let Some(indexed) = self.entries.get_mut(id) else { return };
        self.clock += indexed.charge.max(1);
        let before = std::mem::replace(&mut indexed.used_at, self.clock);
        if self.leaves.remove(&before).is_some() {
            self.leaves.insert(self.clock, *id);
        }
    }

    /// Makes room for `charge` bytes and takes them, before anything is written. Returns what was evicted for it and is
    /// to be deleted. [`Index::commit`] or [`Index::cancel`] must follow.
    ///
    /// # Errors
    /// Says why the entry must not be written; nothing was evicted then.
    pub(super) fn admit(
        &mut self,
        parent: Option<&EntryId>,
        charge: u64,
    ) -> Result<Vec<EntryId>, Refusal> {
        let victims = self.victims(parent, charge);
        if matches!(victims, Err(Refusal::NoParent | Refusal::NoRoom)) {
            // Whoever comes again and again gets in at last, when what was in the way is no longer new.
            self.clock += charge.max(1);
        }
        let victims = victims?;
        victims.iter().for_each(|victim| self.remove(victim));
        self.used_bytes += charge;
        Ok(victims)
    }

    /// Notes that the admitted entry lies on disk. `admitted` bytes were asked for; it may take more or less of them.
    pub(super) fn commit(&mut self, id: EntryId, entry: Entry, admitted: u64) {
        self.used_bytes = self.used_bytes - admitted + entry.charge;
        self.insert(id, entry);
    }

    /// Gives admitted bytes back.
    pub(super) fn cancel(&mut self, admitted: u64) {
        self.used_bytes -= admitted;
    }

    /// Forgets an entry, whose children stay: when their parent is stored again they are found again.
    pub(super) fn remove(&mut self, id: &EntryId) {
        let Some(Indexed { charge, parent, used_at }) = self.entries.remove(id) else { return };
        self.leaves.remove(&used_at);
        self.used_bytes -= charge;
        if let Some(parent) = parent {
            self.lose_child(&parent);
        }
    }

    fn insert(&mut self, id: EntryId, entry: Entry) {
        self.clock += entry.charge.max(1);
        let used_at = self.clock;
        let parent = entry.parent.map(|parent| EntryId { key: parent, ..id });
        if let Some(parent) = parent {
            *self.n_children.entry(parent).or_default() += 1;
            if let Some(indexed) = self.entries.get(&parent) {
                self.leaves.remove(&indexed.used_at);
            }
        }
        if !self.n_children.contains_key(&id) {
            self.leaves.insert(used_at, id);
        }
        self.entries.insert(id, Indexed { charge: entry.charge, parent, used_at });
    }

    fn lose_child(&mut self, parent: &EntryId) {
        let Some(n) = self.n_children.get_mut(parent) else { return };
        *n -= 1;
        if *n == 0 {
            self.n_children.remove(parent);
            if let Some(indexed) = self.entries.get(parent) {
                self.leaves.insert(indexed.used_at, *parent);
            }
        }
    }

    fn protected_bytes(&self) -> u64 {
        self.budget_bytes / PROTECTED_PART
    }

    /// What has to go so that `charge` bytes find room: leaves first, the one used longest ago before the others.
    fn victims(&self, parent: Option<&EntryId>, charge: u64) -> Result<Vec<EntryId>, Refusal> {
        if charge > self.budget_bytes {
            return Err(Refusal::TooLarge);
        }
        if parent.is_some_and(|parent| !self.contains(parent)) {
            return Err(Refusal::NoParent);
        }
        let mut victims = Vec::new();
        let mut freed_bytes = 0;
        let mut order = EvictionOrder::new(self);
        while self.used_bytes - freed_bytes + charge > self.budget_bytes
            || self.entries.len() - victims.len() >= ENTRIES_MAX
        {
            let id = order.next_except(parent).ok_or(Refusal::NoRoom)?;
            let indexed = &self.entries[&id];
            if self.clock - indexed.used_at <= self.protected_bytes() {
                return Err(Refusal::NoRoom);
            }
            freed_bytes += indexed.charge;
            victims.push(id);
        }
        Ok(victims)
    }
}

/// The order in which entries would go, found without taking one out.
struct EvictionOrder<'a> {
    index: &'a Index,
    leaves: std::iter::Peekable<std::collections::btree_map::Iter<'a, u64, EntryId>>,
    /// Parents that are leaves once those named before are gone.
    bared: BTreeSet<(u64, EntryId)>,
    n_gone: BTreeMap<EntryId, usize>,
}

impl<'a> EvictionOrder<'a> {
    fn new(index: &'a Index) -> Self {
        let leaves = index.leaves.iter().peekable();
        Self { index, leaves, bared: BTreeSet::new(), n_gone: BTreeMap::new() }
    }

    /// The next to go, `kept` never.
    fn next_except(&mut self, kept: Option<&EntryId>) -> Option<EntryId> {
        loop {
            let id = self.next()?;
            if kept != Some(&id) {
                self.bare_parent(&id);
                return Some(id);
            }
        }
    }

    fn next(&mut self) -> Option<EntryId> {
        let leaf = self.leaves.peek().map(|(used_at, id)| (**used_at, **id));
        let bared = self.bared.first().copied();
        if bared.is_some_and(|bared| leaf.is_none_or(|leaf| bared < leaf)) {
            self.bared.pop_first().map(|(_, id)| id)
        } else {
            self.leaves.next().map(|(_, id)| *id)
        }
    }

    fn bare_parent(&mut self, id: &EntryId) {
        let Some(parent) = self.index.entries[id].parent else { return };
        let n_gone = self.n_gone.entry(parent).or_default();
        *n_gone += 1;
        if Some(&*n_gone) == self.index.n_children.get(&parent)
            && let Some(indexed) = self.index.entries.get(&parent)
        {
            self.bared.insert((indexed.used_at, parent));
        }
    }
}

#[cfg(test)]
mod tests;
