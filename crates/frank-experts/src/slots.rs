//! The memory of streamed experts: slots of one size, filled from the files as experts are wanted.

use frank_os::{AnonBuffer, OsError};

use crate::cache::{Claim, SlotCache};
use crate::error::StoreError;
use crate::reading::{Readers, reads};
use crate::table::LayerExperts;

/// Slots, their books, and what fills them.
#[derive(Debug)]
pub(crate) struct Slots {
    pub(crate) cache: SlotCache,
    memory: AnonBuffer,
    slot_bytes: usize,
    readers: Readers,
}

impl Slots {
    /// Takes the memory of `n_slots` slots.
    pub(crate) fn new(
        cache: SlotCache,
        n_slots: usize,
        slot_bytes: usize,
        readers: Readers,
    ) -> Result<Self, OsError> {
        let mut memory = AnonBuffer::new((n_slots as u64).saturating_mul(slot_bytes as u64))?;
        memory.populate()?;
        Ok(Self { cache, memory, slot_bytes, readers })
    }

    /// Reads `missing` experts of `layer`, which stands at `position` in the table, and gives the slot of each.
    ///
    /// After an error none of them has a slot.
    pub(crate) fn fetch(
        &mut self,
        position: usize,
        layer: &LayerExperts,
        missing: impl Iterator<Item = u32>,
    ) -> Result<Vec<Claim>, StoreError> {
        let claims: Vec<_> =
            missing.map(|expert| (self.cache.claim(position, expert), expert)).collect();
        let mut by_slot = claims.clone();
        by_slot.sort_unstable_by_key(|(claim, _)| claim.slot);
        let (mut rest, slot_bytes) = (self.memory.as_mut_slice(), self.slot_bytes);
        let mut n_passed = 0;
        let all = by_slot.iter().flat_map(move |&(claim, expert)| {
            let (_, tail) =
                std::mem::take(&mut rest).split_at_mut((claim.slot - n_passed) * slot_bytes);
            let (slot, tail) = tail.split_at_mut(slot_bytes);
            (rest, n_passed) = (tail, claim.slot + 1);
            reads(layer, expert, slot)
        });
        let ended = self.readers.read_all(all);
        if ended.is_err() {
            claims.iter().for_each(|(claim, _)| self.cache.release(claim.slot));
        }
        ended.map(|()| claims.into_iter().map(|(claim, _)| claim).collect())
    }

    /// Bytes of memory that slots and buffers occupy.
    pub(crate) fn occupied(&self) -> u64 {
        AnonBuffer::occupied(self.memory.len() as u64) + self.readers.occupied()
    }

    /// The first `len` bytes of a slot.
    pub(crate) fn bytes(&self, slot: usize, len: usize) -> &[u8] {
        &self.memory.as_slice()[slot * self.slot_bytes..][..len]
    }
}
