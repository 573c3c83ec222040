//! How many experts each device holds and how many slots the stream cache has: the cache is sized last. Never says which
//! expert it is.

mod rooms;

use std::ops::Range;

use self::rooms::Rooms;
use crate::bounds::Bounds;
use crate::kv::ARENA_BYTES;
use crate::ranked::Ranked;

/// Where the ranked experts lie. Those on one device are a range of ranks, and ranges follow each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Split {
    /// Experts beside the dense weights: the first ranks.
    pub(crate) primary: usize,
    /// Other devices, by index, with the rank that their experts end before.
    pub(crate) secondaries: Vec<(usize, usize)>,
    /// Slots of streamed experts.
    pub(crate) slots: u64,
    /// Bytes of one slot; 0 when nothing is streamed.
    pub(crate) slot_bytes: u64,
}

impl Split {
    /// The rank from which on experts are streamed.
    pub(crate) fn resident(&self) -> usize {
        self.secondaries.last().map_or(self.primary, |&(_, end)| end)
    }

    /// The ranks that lie on each device, by index; all that follow are streamed. `primary` is the device of the dense
    /// weights.
    pub(crate) fn ranges(
        &self,
        primary: usize,
    ) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        let ends = std::iter::once((primary, self.primary)).chain(self.secondaries.iter().copied());
        ends.scan(0, |start, (device, end)| Some((device, std::mem::replace(start, end)..end)))
    }

    /// Bytes of all slots.
    pub(crate) fn cache_bytes(&self) -> u64 {
        occupied(self.slots.saturating_mul(self.slot_bytes))
    }
}

/// How the memory beside the dense weights is shared among resident experts and slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Share {
    /// What is resident goes first, and slots get the rest.
    ResidentFirst,
    /// Of all beyond the floor, every other expert that fits is resident.
    Half,
    /// Only protected experts are resident.
    Protected,
}

/// What decides a split.
#[derive(Debug)]
pub(crate) struct Splitter<'a> {
    pub(crate) experts: &'a Ranked,
    pub(crate) bounds: &'a Bounds,
    /// Bytes that each device holds beside experts and slots.
    pub(crate) fixed: &'a [u64],
    /// Bytes that the primary device holds too as soon as anything is streamed.
    pub(crate) staging: u64,
    /// The device of the dense weights.
    pub(crate) primary: usize,
    /// Other devices that experts may lie on.
    pub(crate) secondaries: &'a [usize],
    /// The device of the slots.
    pub(crate) cache_device: usize,
    /// Bytes of resident experts that each device may hold.
    pub(crate) budgets: &'a [Option<u64>],
    /// Bytes of slots, where the operator says how many.
    pub(crate) cache: Option<u64>,
    pub(crate) share: Share,
}

impl Splitter<'_> {
    /// The split that fits; where none does, the one that is short of less.
    pub(crate) fn split(&self) -> Split {
        let resident = self.resident();
        if let Some(split) = resident.iter().find(|split| self.fits(split)) {
            return split.clone();
        }
        let least = self.least_streamed();
        if self.fits(&least) {
            return self.grown(&least);
        }
        resident
            .into_iter()
            .chain([least])
            .min_by_key(|split| self.shortage(split))
            .expect("there is the streamed one")
    }

    /// Bytes that each device holds with a split.
    pub(crate) fn used(&self, split: &Split) -> Vec<u64> {
        let mut used = self.fixed.to_vec();
        let mut add = |device: usize, bytes| used[device] = used[device].saturating_add(bytes);
        for (device, ranks) in split.ranges(self.primary) {
            add(device, occupied(self.experts.bytes(ranks)));
        }
        if self.is_streamed(split) {
            add(self.primary, self.staging);
            add(self.cache_device, split.cache_bytes());
        }
        used
    }

    /// The fewest slots with which a split works: one token's experts, or all that are streamed.
    pub(crate) fn floor(&self, split: &Split) -> u64 {
        self.experts.floor_slots.min((self.experts.len() - split.resident()) as u64)
    }

    /// Whether the operator's cache is below the floor of a split.
    pub(crate) fn is_below_floor(&self, split: &Split) -> bool {
        self.is_streamed(split) && split.slots < self.floor(split)
    }

    /// Whether the protected experts are more than the primary device may hold of experts.
    pub(crate) fn protected_excess(&self) -> Option<(u64, u64)> {
        let bytes = occupied(self.experts.bytes(0..self.experts.n_protected));
        self.budgets[self.primary].filter(|&budget| bytes > budget).map(|budget| (bytes, budget))
    }

    /// Whether a split leaves experts on the drive.
    pub(crate) fn is_streamed(&self, split: &Split) -> bool {
        split.resident() < self.experts.len()
    }

    fn fits(&self, split: &Split) -> bool {
        self.bounds.hold(&self.used(split))
    }

    fn shortage(&self, split: &Split) -> u64 {
        let used = self.used(split);
        self.bounds.worst(&used).map_or(0, |bound| bound.used(&used).saturating_sub(bound.bytes))
    }

    /// Ways to have every expert resident: with as many beside the dense weights as fit, as many as may be, as few as may
    /// be. Which of them takes least depends on how buffers are rounded.
    fn resident(&self) -> Vec<Split> {
        let experts = self.experts;
        let n_all = experts.len();
        let most = self.primary_end(self.budgets[self.primary].unwrap_or(u64::MAX));
        if experts.n_resident < n_all || self.filled(most).resident() < n_all {
            return Vec::new();
        }
        // More beside the dense weights is never more elsewhere.
        let (mut low, mut least) = (experts.n_protected, most);
        while low < least {
            let middle = low + (least - low) / 2;
            if self.filled(middle).resident() == n_all {
                least = middle;
            } else {
                low = middle + 1;
            }
        }
        let room = self.bounds.left(self.primary, self.fixed);
        let fitting = self.primary_end(room).clamp(least, most);
        [fitting, most, least].map(|primary| self.filled(primary)).to_vec()
    }

    /// The rank before which experts fit into `bytes` on the primary device, and protected ones do anyway.
    fn primary_end(&self, bytes: u64) -> usize {
        let experts = self.experts;
        experts.end_within(0, experts.n_primary, whole(bytes)).max(experts.n_protected)
    }

    /// `primary` experts beside the dense weights, and those that follow wherever else there is room for them alone.
    fn filled(&self, primary: usize) -> Split {
        let mut start = primary;
        let fill = |&device: &usize| {
            let bytes = self.bounds.most(device).min(self.budgets[device].unwrap_or(u64::MAX));
            start = self.experts.end_within(start, self.experts.n_resident, whole(bytes));
            (device, start)
        };
        let secondaries = self.secondaries.iter().map(fill).collect();
        Split { primary, secondaries, slots: 0, slot_bytes: 0 }
    }

    /// Protected experts, and the fewest slots or as many as the operator says.
    fn least_streamed(&self) -> Split {
        let primary = self.experts.n_protected;
        let slot_bytes = self.experts.largest(primary);
        let mut split = Split { primary, secondaries: Vec::new(), slots: 0, slot_bytes };
        split.slots =
            self.cache.map_or(self.floor(&split), |bytes| self.slots(&split, whole(bytes)));
        split
    }

    /// Slots of a split that `bytes` hold, and no more than it streams experts.
    fn slots(&self, split: &Split, bytes: u64) -> u64 {
        let slots = bytes.checked_div(split.slot_bytes).unwrap_or(u64::MAX);
        slots.min((self.experts.len() - split.resident()) as u64)
    }

    /// `least` with as many more experts and then slots as fit.
    fn grown(&self, least: &Split) -> Split {
        let experts = self.experts;
        let mut rooms = Rooms::new(self, least);
        let slot_bytes = least.slot_bytes;
        let primary = self.grown_primary(rooms.room(self.primary), slot_bytes);
        rooms.take(self.primary, experts.bytes(least.primary..primary));
        let mut start = primary;
        let mut secondaries = Vec::new();
        for &device in self.secondaries {
            let budget = whole(self.budgets[device].unwrap_or(u64::MAX));
            let room = rooms.room(device).min(budget);
            let end = experts.end_within(start, experts.n_resident, room);
            rooms.take(device, experts.bytes(start..end));
            secondaries.push((device, end));
            start = end;
        }
        // Those that are still streamed may be smaller than all that could be, and slots are then too.
        let mut split =
            Split { primary, secondaries, slots: 0, slot_bytes: experts.largest(start) };
        let room =
            rooms.room(self.cache_device).saturating_add(least.slots.saturating_mul(slot_bytes));
        split.slots = self.slots(&split, self.cache.map_or(room, |bytes| whole(bytes).min(room)));
        split
    }

    /// The rank that the experts of the primary device end before when `room` bytes are left beside the protected ones
    /// and the floor.
    fn grown_primary(&self, room: u64, slot_bytes: u64) -> usize {
        let experts = self.experts;
        let start = experts.n_protected;
        let most = self.primary_end(self.budgets[self.primary].unwrap_or(u64::MAX));
        let most_fitting = experts.end_within(start, most, room);
        match self.share {
            Share::Protected => start,
            Share::ResidentFirst => most_fitting,
            Share::Half => {
                // A slot beside each expert but the last.
                let pairs_fit = |n: usize| {
                    let slots = (n as u64).saturating_sub(1).saturating_mul(slot_bytes);
                    experts.bytes(start..start + n).saturating_add(slots) <= room
                };
                let (mut low, mut high) = (0, most_fitting - start);
                while low < high {
                    let middle = high - (high - low) / 2;
                    if pairs_fit(middle) { low = middle } else { high = middle - 1 }
                }
                start + low
            }
        }
    }
}

/// Bytes that a buffer of so many occupies; saturates.
pub(crate) fn occupied(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(ARENA_BYTES).unwrap_or(u64::MAX)
}

/// The largest buffer that occupies at most so many bytes.
fn whole(bytes: u64) -> u64 {
    bytes - bytes % ARENA_BYTES
}
