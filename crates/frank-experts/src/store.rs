//! The expert store: gives a layer the experts that it wants, wherever they lie. Never multiplies.

use std::sync::Arc;

use frank_os::DataFile;
use frank_plan::Tier;

use crate::cache::SlotCache;
use crate::check::check;
use crate::error::StoreError;
use crate::reading::Readers;
use crate::residents::{Home, Residents};
use crate::slots::Slots;
use crate::statistics::StoreStatistics;
use crate::table::{ExpertTable, LayerExperts};

/// What a plan decided about the experts.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Where each expert lies, `[n_layers * n_experts]` with index `layer * n_experts + expert` over all layers of the
    /// model, those without experts too; `n_experts` is the largest of any layer.
    pub tiers: Vec<Tier>,
    /// Slots for streamed experts. More than there are streamed experts are not taken.
    pub cache_slots: usize,
    /// Threads that read; a few are used at most.
    pub n_threads: usize,
}

/// An expert in memory, lent for as long as a wave is computed.
#[derive(Debug, Clone, Copy)]
pub struct ResidentExpert<'a> {
    /// Its number in the layer.
    pub expert: u32,
    /// Its place among the experts that were wanted.
    pub index: usize,
    /// Its parts, each at its [`LayerExperts::part_range`], as `MatrixShape::pack` lays them out; `[slot_bytes]`. What
    /// lies between parts means nothing.
    pub bytes: &'a [u8],
}

/// The experts of a model: some resident, the others streamed through slots.
#[derive(Debug)]
pub struct ExpertStore {
    table: ExpertTable,
    residents: Residents,
    /// `None` when all experts are resident.
    slots: Option<Slots>,
    statistics: StoreStatistics,
}

/// An expert of a wave.
#[derive(Debug, Clone, Copy)]
struct Served {
    expert: u32,
    index: usize,
    place: Place,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    Device { device: u16, start: usize },
    Slot(usize),
}

impl ExpertStore {
    /// Takes all memory that the store will ever hold and reads the resident experts.
    ///
    /// The memory is a block for the experts of each device, a block of `cache_slots` slots as large as the largest
    /// streamed expert, each rounded up to [`frank_os::AnonBuffer::occupied`], and [`crate::staging_bytes`], which are
    /// given back at the end when nothing is streamed. Nothing grows later.
    ///
    /// # Errors
    /// [`StoreError`] when the table does not fit `files` or the tiers, there is no memory, or a read fails.
    pub fn open(
        table: ExpertTable,
        files: Vec<Arc<DataFile>>,
        options: &StoreOptions,
    ) -> Result<Self, StoreError> {
        let StoreOptions { ref tiers, cache_slots, n_threads } = *options;
        check(&table, &files, tiers)?;
        let mut residents = Residents::new(&table, tiers)?;
        let mut statistics = count_tiers(&table, &residents);
        let n_streamed = statistics.n_streamed;
        if n_streamed > 0 && cache_slots == 0 {
            return Err(StoreError::NoSlots { n_streamed });
        }
        let mut readers = Readers::new(files, table.row_bytes_max(), n_threads)?;
        residents.load(&table, &mut readers)?;
        let mut slots = None;
        if n_streamed > 0 {
            readers.expect_scattered_reads();
            statistics.n_slots = cache_slots.min(n_streamed);
            statistics.slot_bytes = slot_bytes(&table, &residents);
            let cache = SlotCache::new(&streamed(&table, &residents), statistics.n_slots);
            let (n_slots, slot_bytes) = (statistics.n_slots, statistics.slot_bytes);
            slots = Some(Slots::new(cache, n_slots, slot_bytes, readers)?);
        }
        Ok(Self { table, residents, slots, statistics })
    }

    /// The experts of layer `layer` of the model, `blk.{layer}`; `None` when it has none.
    #[must_use]
    pub fn layer(&self, layer: usize) -> Option<&LayerExperts> {
        self.position(layer).map(|position| &self.table.layers[position])
    }

    /// Calls `compute` with the experts `wanted` (ascending, distinct) of layer `layer` of the model, in one or more
    /// waves: each expert is in exactly one of them, ascending within a wave. Several waves are needed when more are
    /// wanted than the slots hold. Without `wanted` experts nothing is called.
    ///
    /// # Errors
    /// [`StoreError::Read`] when an expert cannot be read. Earlier waves have been computed then, and the store is as
    /// usable as before.
    ///
    /// # Panics
    /// When the layer has no experts, or `wanted` names one that is not there, out of order or twice.
    pub fn visit(
        &mut self,
        layer: usize,
        wanted: &[u32],
        compute: &mut dyn FnMut(&[ResidentExpert<'_>]),
    ) -> Result<(), StoreError> {
        let Some(position) = self.position(layer) else { panic!("layer {layer} has no experts") };
        self.check_wanted(position, wanted);
        let (mut wave, missing) = self.find(position, wanted);
        let n_found = wave.iter().filter(|served| matches!(served.place, Place::Slot(_))).count();
        let mut missing = &missing[..];
        let (mut room, later_room) = match &self.slots {
            Some(slots) => SlotCache::rooms(slots.cache.reach(position), n_found),
            None => (0, 0),
        };
        while !(wave.is_empty() && missing.is_empty()) {
            let (now, later) = missing.split_at(room.min(missing.len()));
            self.fetch(position, now, &mut wave)?;
            wave.sort_unstable_by_key(|served| served.index);
            self.statistics.waves += 1;
            compute(&self.lend(position, &wave));
            wave.clear();
            (missing, room) = (later, later_room);
            if let Some(slots) = &mut self.slots {
                slots.cache.end_wave();
            }
        }
        Ok(())
    }

    /// Bytes of memory that the store occupies, staging included; they never change.
    #[must_use]
    pub fn occupied(&self) -> u64 {
        self.residents.occupied() + self.slots.as_ref().map_or(0, Slots::occupied)
    }

    /// Counts since the store was opened.
    #[must_use]
    pub fn statistics(&self) -> StoreStatistics {
        self.statistics
    }

    /// Where layer `layer` of the model stands in the table.
    fn position(&self, layer: usize) -> Option<usize> {
        let layer = u32::try_from(layer).ok()?;
        self.table.layers.binary_search_by_key(&layer, |layer| layer.layer).ok()
    }

    fn check_wanted(&self, position: usize, wanted: &[u32]) {
        let LayerExperts { layer, n_experts, .. } = self.table.layers[position];
        assert!(
            wanted.is_sorted_by(|a, b| a < b) && wanted.last().is_none_or(|&last| last < n_experts),
            "experts {wanted:?} of layer {layer} with {n_experts}"
        );
    }

    /// The wanted experts that are in memory, and those that are not: `(expert, index)`.
    fn find(&mut self, position: usize, wanted: &[u32]) -> (Vec<Served>, Vec<(u32, usize)>) {
        let (mut found, mut missing) = (Vec::with_capacity(wanted.len()), Vec::new());
        if let Some(slots) = &mut self.slots {
            slots.cache.begin_visit(position);
        }
        for (index, &expert) in wanted.iter().enumerate() {
            match self.place(position, expert) {
                Some(place) => found.push(Served { expert, index, place }),
                None => missing.push((expert, index)),
            }
        }
        (found, missing)
    }

    /// Where an expert lies in memory; counts how it was found.
    fn place(&mut self, position: usize, expert: u32) -> Option<Place> {
        let counts = &mut self.statistics;
        if let Home::Resident { device, start } = self.residents.homes(position)[expert as usize] {
            *(if device == 0 {
                &mut counts.primary_visits
            } else {
                &mut counts.secondary_visits
            }) += 1;
            return Some(Place::Device { device, start });
        }
        let slots = self.slots.as_mut().expect("a store that streams has slots");
        let slot = slots.cache.find(position, expert);
        *(if slot.is_some() { &mut counts.hits } else { &mut counts.misses }) += 1;
        slot.map(Place::Slot)
    }

    /// Reads the experts `now` and adds them to the wave.
    fn fetch(
        &mut self,
        position: usize,
        now: &[(u32, usize)],
        wave: &mut Vec<Served>,
    ) -> Result<(), StoreError> {
        if now.is_empty() {
            return Ok(());
        }
        let slots = self.slots.as_mut().expect("only streamed experts are missing");
        let layer = &self.table.layers[position];
        let claims = slots.fetch(position, layer, now.iter().map(|&(expert, _)| expert))?;
        let counts = &mut self.statistics;
        counts.evictions += claims.iter().filter(|claim| claim.evicts).count() as u64;
        counts.bytes_read += layer.file_bytes().saturating_mul(now.len() as u64);
        wave.extend(now.iter().zip(claims).map(|(&(expert, index), claim)| {
            let place = Place::Slot(claim.slot);
            Served { expert, index, place }
        }));
        Ok(())
    }

    fn lend<'a>(&'a self, position: usize, wave: &[Served]) -> Vec<ResidentExpert<'a>> {
        let len = self.table.layers[position].slot_bytes();
        let lent = wave.iter().map(|&Served { expert, index, place }| {
            let bytes = match (place, &self.slots) {
                (Place::Device { device, start }, _) => self.residents.bytes(device, start, len),
                (Place::Slot(slot), Some(slots)) => slots.bytes(slot, len),
                (Place::Slot(_), None) => unreachable!("a store without slots finds nothing there"),
            };
            ResidentExpert { expert, index, bytes }
        });
        lent.collect()
    }
}

/// Counts the experts of each tier.
fn count_tiers(table: &ExpertTable, residents: &Residents) -> StoreStatistics {
    let mut counts = StoreStatistics::default();
    for home in (0..table.layers.len()).flat_map(|position| residents.homes(position)) {
        match home {
            Home::Resident { device: 0, .. } => counts.n_primary += 1,
            Home::Resident { .. } => counts.n_secondary += 1,
            Home::Streamed => counts.n_streamed += 1,
        }
    }
    counts
}

/// For each layer of the table how many experts it has and how many are streamed.
fn streamed(table: &ExpertTable, residents: &Residents) -> Vec<(usize, usize)> {
    let homes = (0..table.layers.len()).map(|position| residents.homes(position));
    homes
        .map(|homes| (homes.len(), homes.iter().filter(|home| home.is_streamed()).count()))
        .collect()
}

/// Bytes of the largest streamed expert.
fn slot_bytes(table: &ExpertTable, residents: &Residents) -> usize {
    let layers = table.layers.iter().enumerate();
    let streamed = layers
        .filter(|&(position, _)| residents.homes(position).iter().any(|home| home.is_streamed()));
    streamed.map(|(_, layer)| layer.slot_bytes()).max().unwrap_or(0)
}
