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

/// A wave after the first of a visit may take this part of a layer's slots: it evicts experts that this same visit
/// wanted, and most of them should be there for the next one.
const LATER_WAVES_SHARE: usize = 4;

/// No slot.
const NOWHERE: u32 = u32::MAX;

/// The books of all slots.
#[derive(Debug)]
pub(crate) struct SlotCache {
    layers: Vec<CachedLayer>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Number of the running wave. The slots that it uses carry it.
    wave: u64,
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
    /// The last wave that used it.
    wave: u64,
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
            wave: 1,
            clock: 0,
        }
    }

    /// Begins a visit of a layer: the time by which its experts cool.
    pub(crate) fn begin_visit(&mut self, layer: usize) {
        self.wave += 1;
        let layer = &mut self.layers[layer];
        layer.n_visits += 1;
        if layer.n_visits.is_multiple_of(HALF_LIFE_VISITS) {
            layer.experts.iter_mut().for_each(|expert| expert.heat /= 2);
        }
    }

    /// The slot of an expert that a visit wants, if it has one. The running wave keeps it.
    pub(crate) fn find(&mut self, layer: usize, expert: u32) -> Option<usize> {
        let cached = &mut self.layers[layer].experts[expert as usize];
        if cached.slot == NOWHERE {
            return None;
        }
        cached.heat = cached.heat.saturating_add(VISIT_HEAT);
        self.clock += 1;
        let slot = &mut self.slots[cached.slot as usize];
        (slot.proven, slot.used, slot.wave) = (true, self.clock, self.wave);
        Some(cached.slot as usize)
    }

    /// How many experts of a layer a wave can have in slots together without harm to other layers; at least 1.
    pub(crate) fn reach(&self, layer: usize) -> usize {
        let layer = &self.layers[layer];
        layer.share.max(layer.held.len() + self.free.len()).max(1)
    }

    /// How many experts each wave of a visit may read, the first one and the later ones, when `n_found` of `reach` slots
    /// have been found.
    pub(crate) fn rooms(reach: usize, n_found: usize) -> (usize, usize) {
        let first = reach - n_found;
        (first, first.max(reach.div_ceil(LATER_WAVES_SHARE)))
    }

    /// Ends a wave: what it used may be evicted now.
    pub(crate) fn end_wave(&mut self) {
        self.wave += 1;
    }

    /// Gives a slot to an expert that has none. The running wave keeps it.
    ///
    /// # Panics
    /// When the running wave uses more slots than the layer can reach.
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
        self.slots[slot as usize] =
            Slot { layer, expert, proven: false, used: self.clock, wave: self.wave };
        Claim { slot: slot as usize, evicts }
    }

    /// Takes a slot away from its expert, whose bytes did not arrive.
    pub(crate) fn release(&mut self, slot: usize) {
        self.forget(slot as u32);
        self.free.push(slot as u32);
    }

    /// Empties the slot that is worth least to the layer that has to give one to `layer`.
    fn evict(&mut self, layer: usize) -> u32 {
        let held = self.layers[self.donor(layer)].held.iter().copied();
        let unused = held.filter(|&slot| self.slots[slot as usize].wave != self.wave);
        let slot = unused.min_by_key(|&slot| self.worth(slot)).expect("a wave fits the slots");
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
