//! Which streamed expert lies in which slot, and whose slot is taken next. Never touches a byte of an expert.
//!
//! Each layer has a share of the slots. It may fill free slots beyond its share, and gives them back when another layer
//! is below its own; apart from that it evicts from itself, so that no layer can push out another one's experts.
//!
//! An expert's heat is the number of visits that wanted it, halved from time to time, and is remembered while the
//! expert is not here. The coldest is evicted; of equals the one used longest ago. An expert that was not wanted again
//! since it was read counts without the visit that brought it, and of equals it goes first, the latest first. So a
//! scan over more experts than there are slots runs through a few slots only, and what lies in the others is hit each
//! time round.

use crate::shares::shares;

/// The heat that one visit gives.
const VISIT_HEAT: u32 = 1 << 8;

/// Visits of a layer after which the heat of its experts is halved.
const HALF_LIFE_VISITS: u64 = 32;

/// A visit that wants more than the slots of its layer evicts experts that it wanted itself. It runs through this part of
/// them at a time: most of the others should be there for the next one.
const SCAN_SHARE: usize = 4;

/// The heat of an expert that each token of earlier runs chose, in visits.
const PRIOR_VISITS: f64 = 32.0;

/// No slot.
const NOWHERE: u32 = u32::MAX;

/// The books of all slots.
#[derive(Debug)]
pub(crate) struct SlotCache {
    layers: Vec<CachedLayer>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Number of the running visit. The slots that are lent to it carry it.
    visit: u64,
    /// Slots that the running visit found.
    n_found: usize,
    /// Slots that are lent to it, and those of them that it claimed.
    n_lent: usize,
    n_claimed: usize,
    /// Counts uses of slots.
    clock: u64,
}

#[derive(Debug)]
struct CachedLayer {
    /// `[n_experts]`.
    experts: Vec<CachedExpert>,
    /// The slots with experts of this layer.
    held: Vec<u32>,
    share: usize,
    n_visits: u64,
}

#[derive(Debug, Clone, Copy)]
struct CachedExpert {
    slot: u32,
    heat: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    layer: usize,
    expert: u32,
    /// Whether it was wanted again since it was read.
    proven: bool,
    /// The time of its last use.
    used: u64,
    /// The last visit that wanted it; 0 for none.
    visit: u64,
    /// Whether that visit has not given it back.
    is_lent: bool,
}

/// A slot that an expert was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) slot: usize,
    /// Whether another expert had to leave it.
    pub(crate) evicts: bool,
}

impl SlotCache {
    /// Empty slots for layers with this many experts, of which this many are streamed: `(n_experts, n_streamed)`.
    pub(crate) fn new(layers: &[(usize, usize)], n_slots: usize) -> Self {
        let n_streamed: Vec<usize> = layers.iter().map(|&(_, n_streamed)| n_streamed).collect();
        let cached = layers.iter().zip(shares(&n_streamed, n_slots)).map(|(layer, share)| {
            let &(n_experts, n_streamed) = layer;
            CachedLayer {
                experts: vec![CachedExpert { slot: NOWHERE, heat: 0 }; n_experts],
                held: Vec::with_capacity(n_streamed.min(n_slots)),
                share,
                n_visits: 0,
            }
        });
        Self {
            layers: cached.collect(),
            slots: vec![Slot::default(); n_slots],
            free: (0..n_slots as u32).rev().collect(),
            visit: 0,
            n_found: 0,
            n_lent: 0,
            n_claimed: 0,
            clock: 0,
        }
    }

    /// Warms the experts of a layer by how often earlier runs used them, `[n_experts]`, when a token uses `n_used`.
    pub(crate) fn expect(&mut self, layer: usize, counts: &[u64], n_used: usize) {
        let sum = counts.iter().fold(0u64, |sum, &count| sum.saturating_add(count)).max(1) as f64;
        for (expert, &count) in self.layers[layer].experts.iter_mut().zip(counts) {
            let chance = (count as f64 * n_used as f64 / sum).min(1.0);
            expert.heat = (chance * PRIOR_VISITS * f64::from(VISIT_HEAT)) as u32;
        }
    }

    /// Begins a visit of a layer: the time by which its experts cool. Nothing is lent to the last one any more.
    pub(crate) fn begin_visit(&mut self, layer: usize) {
        self.visit += 1;
        (self.n_found, self.n_lent, self.n_claimed) = (0, 0, 0);
        let layer = &mut self.layers[layer];
        layer.n_visits += 1;
        if layer.n_visits.is_multiple_of(HALF_LIFE_VISITS) {
            layer.experts.iter_mut().for_each(|expert| expert.heat /= 2);
        }
    }

    /// The slot of an expert that a visit wants, if it has one. It is lent to the visit.
    pub(crate) fn find(&mut self, layer: usize, expert: u32) -> Option<usize> {
        let cached = &mut self.layers[layer].experts[expert as usize];
        if cached.slot == NOWHERE {
            return None;
        }
        cached.heat = cached.heat.saturating_add(VISIT_HEAT);
        self.clock += 1;
        let slot = &mut self.slots[cached.slot as usize];
        (slot.proven, slot.used) = (true, self.clock);
        (slot.visit, slot.is_lent) = (self.visit, true);
        self.n_found += 1;
        self.n_lent += 1;
        Some(cached.slot as usize)
    }

    /// Whether an expert lies in a slot.
    pub(crate) fn holds(&self, layer: usize, expert: u32) -> bool {
        self.layers[layer].experts[expert as usize].slot != NOWHERE
    }

    /// How many slots can be lent to a visit of a layer at once without harm to other layers; at least 1.
    fn reach(&self, layer: usize) -> usize {
        let layer = &self.layers[layer];
        layer.share.max(layer.held.len() + self.free.len()).max(1)
    }

    /// Whether the running visit, which is one of `layer`, may claim a further slot before it gives others back.
    pub(crate) fn may_claim(&self, layer: usize) -> bool {
        let reach = self.reach(layer);
        let room = reach.saturating_sub(self.n_found).max(reach.div_ceil(SCAN_SHARE));
        self.n_lent < reach && self.n_claimed < room
    }

    /// The visit has done with a slot that was lent to it: it may be evicted now.
    pub(crate) fn give_back(&mut self, slot: usize) {
        let slot = &mut self.slots[slot];
        if slot.visit == self.visit && std::mem::take(&mut slot.is_lent) {
            self.n_lent -= 1;
            self.n_claimed -= usize::from(!slot.proven);
        }
    }

    /// Gives a slot to an expert that has none. It is lent to the running visit.
    ///
    /// # Panics
    /// When the visit may not claim one.
    pub(crate) fn claim(&mut self, layer: usize, expert: u32) -> Claim {
        let (slot, evicts) = match self.free.pop() {
            Some(slot) => (slot, false),
            None => (self.evict(layer), true),
        };
        let cached = &mut self.layers[layer];
        cached.held.push(slot);
        let entry = &mut cached.experts[expert as usize];
        entry.slot = slot;
        entry.heat = entry.heat.saturating_add(VISIT_HEAT);
        self.clock += 1;
        self.slots[slot as usize] = Slot {
            layer,
            expert,
            proven: false,
            used: self.clock,
            visit: self.visit,
            is_lent: true,
        };
        self.n_lent += 1;
        self.n_claimed += 1;
        Claim { slot: slot as usize, evicts }
    }

    /// Gives a free slot to an expert that has none and that no visit wanted; `None` when all slots are taken.
    pub(crate) fn fill(&mut self, layer: usize, expert: u32) -> Option<usize> {
        let slot = self.free.pop()?;
        let cached = &mut self.layers[layer];
        cached.held.push(slot);
        cached.experts[expert as usize].slot = slot;
        self.clock += 1;
        self.slots[slot as usize] =
            Slot { layer, expert, proven: true, used: self.clock, visit: 0, is_lent: false };
        Some(slot as usize)
    }

    /// Slots without an expert.
    pub(crate) fn n_free(&self) -> usize {
        self.free.len()
    }

    /// Takes a slot away from its expert, whose bytes did not arrive.
    pub(crate) fn release(&mut self, slot: usize) {
        self.give_back(slot);
        self.forget(slot as u32);
        self.free.push(slot as u32);
    }

    /// Empties the slot that is worth least to the layer that has to give one to `layer`.
    fn evict(&mut self, layer: usize) -> u32 {
        let held = self.layers[self.donor(layer)].held.iter().copied();
        // What this visit wanted goes last, computed or not: the next one may want the same.
        let order = |&slot: &u32| (self.is_wanted(slot), self.worth(slot));
        let free =
            held.filter(|&slot| !(self.is_wanted(slot) && self.slots[slot as usize].is_lent));
        let slot = free.min_by_key(order).expect("a visit claims what it may");
        self.forget(slot);
        slot
    }

    /// The layer that gives a slot to `layer`: the one furthest above its share, when `layer` is below its own.
    fn donor(&self, layer: usize) -> usize {
        let own = &self.layers[layer];
        if own.held.len() >= own.share.max(1) {
            return layer;
        }
        let others = self.layers.iter().enumerate().filter(|(_, other)| !other.held.is_empty());
        let surplus = |other: &CachedLayer| other.held.len() as i64 - other.share as i64;
        let (donor, _) = others
            .rev()
            .max_by_key(|(_, other)| surplus(other))
            .expect("without free slots some layer has one");
        donor
    }

    /// Whether the running visit wanted what lies in a slot.
    fn is_wanted(&self, slot: u32) -> bool {
        self.slots[slot as usize].visit == self.visit
    }

    /// The order in which slots are given up, the least first.
    fn worth(&self, slot: u32) -> (u32, bool, u64) {
        let Slot { layer, expert, proven, used, .. } = self.slots[slot as usize];
        let heat = self.layers[layer].experts[expert as usize].heat;
        if proven { (heat, true, used) } else { (heat.saturating_sub(VISIT_HEAT), false, !used) }
    }

    fn forget(&mut self, slot: u32) {
        let Slot { layer, expert, .. } = self.slots[slot as usize];
        let layer = &mut self.layers[layer];
        layer.experts[expert as usize].slot = NOWHERE;
        let place = layer.held.iter().position(|&held| held == slot);
        layer.held.swap_remove(place.expect("a layer holds the slots of its experts"));
    }
}

#[cfg(test)]
mod tests;
