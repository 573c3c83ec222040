//! What is left for more experts and slots on each device while a split grows. Never decides which of them grows.

use super::{Share, Split, Splitter, whole};
use crate::bounds::Bound;
use crate::kv::ARENA_BYTES;

/// What may still be added to a split that fits. Memory is taken in whole [`ARENA_BYTES`] for each device and for the
/// slots; one less than these is held back for each bound that several are under, so that a byte here is a byte there and
/// more memory never holds fewer experts.
pub(super) struct Rooms<'a> {
    rooms: Vec<(&'a Bound, u64)>,
}

impl<'a> Rooms<'a> {
    pub(super) fn new(splitter: &Splitter<'a>, least: &Split) -> Self {
        let Splitter { bounds, primary, cache_device, experts, .. } = *splitter;
        let protected = experts.bytes(0..least.primary);
        let slots = least.slots.saturating_mul(least.slot_bytes);
        let is_held = splitter.share != Share::Protected || least.primary > 0;
        let mut holders = vec![cache_device];
        holders.extend(is_held.then_some(primary));
        holders.extend(splitter.secondaries);
        let room = |bound: &'a Bound| {
            let is_in = |device: usize| bound.members.contains(&device);
            let fixed = bound.used(splitter.fixed);
            let staging = if is_in(primary) { splitter.staging } else { 0 };
            let arenas = holders.iter().filter(|&&device| is_in(device)).count() as u64;
            let rounding = arenas.saturating_sub(1) * ARENA_BYTES;
            let taken = if is_in(primary) { protected } else { 0 };
            let taken = taken.saturating_add(if is_in(cache_device) { slots } else { 0 });
            let left = bound.bytes.saturating_sub(fixed).saturating_sub(staging);
            (bound, whole(left).saturating_sub(rounding).saturating_sub(taken))
        };
        Self { rooms: bounds.list.iter().map(room).collect() }
    }

    pub(super) fn room(&self, device: usize) -> u64 {
        let rooms = self.rooms.iter().filter(|(bound, _)| bound.members.contains(&device));
        rooms.map(|&(_, room)| room).min().unwrap_or(0)
    }

    pub(super) fn take(&mut self, device: usize, bytes: u64) {
        for (bound, room) in &mut self.rooms {
            if bound.members.contains(&device) {
                *room = room.saturating_sub(bytes);
            }
        }
    }
}
