//! How a store is opened: the table is checked against its files and tiers, memory is taken, residents are read. Nothing
//! grows later.

use std::sync::Arc;

use frank_kernels::Pool;
use frank_os::{AnonBuffer, DataFile, Faults, IoBackend, PAGE_BYTES, QueueOptions};
use frank_plan::Tier;

use super::ExpertStore;
use crate::cache::SlotCache;
use crate::check::check;
use crate::error::StoreError;
use crate::fetches::Fetches;
use crate::residents::{Home, Residents};
use crate::staging::{check_rows, staging_bytes};
use crate::statistics::StoreStatistics;
use crate::streaming::Streaming;
use crate::table::{ExpertTable, LayerExperts};
use crate::warm::WarmStart;

/// What a plan decided about the experts.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Where each expert lies, `[n_layers * n_experts]` with index `layer * n_experts + expert` over all layers of the
    /// model, those without experts too; `n_experts` is the largest of any layer.
    pub tiers: Vec<Tier>,
    /// Slots for streamed experts. More than there are streamed experts are not taken.
    pub cache_slots: usize,
    /// How files are read; `None` takes what the system gives, io_uring first.
    pub io: Option<IoBackend>,
    /// Whether predicted experts are read while the drive is idle.
    pub prefetch: bool,
    /// Failures that tests inject into reads.
    pub faults: Faults,
    /// How many tokens chose each expert in earlier runs, as `tiers`: what a warm start reads first, and what is kept at
    /// first.
    pub usage: Option<Vec<u64>>,
    /// Experts that a token uses.
    pub n_used: usize,
}

impl ExpertStore {
    /// Takes all memory that the store will ever hold and reads the resident experts.
    ///
    /// The memory is a block for the experts of each device, a block of `cache_slots` slots as large as the largest
    /// streamed expert, each rounded up to [`frank_os::AnonBuffer::occupied`], and [`crate::staging_bytes`], which are
    /// given back at the end when nothing is streamed. Nothing grows later.
    ///
    /// `pool` lays out the resident experts.
    ///
    /// # Errors
    /// [`StoreError`] when the table does not fit `files` or the tiers, there is no memory, or a read fails.
    pub fn open(
        table: ExpertTable,
        files: Vec<Arc<DataFile>>,
        options: &StoreOptions,
        pool: &mut Pool,
    ) -> Result<Self, StoreError> {
        let largest = table.layers.iter().map(LayerExperts::file_bytes).max().unwrap_or(0);
        let staging = if options.tiers.contains(&Tier::Stream) {
            staging_bytes(largest, options.n_used as u64)
        } else {
            // Only for the load, beside which little is planned then.
            staging_bytes(table.row_bytes_max().saturating_add(2 * PAGE_BYTES), 0)
        };
        Self::open_with_staging(table, files, options, pool, staging)
    }

    /// [`ExpertStore::open`] with another size of staging, whole huge pages of it: less than an expert is enough, reads are
    /// shorter then and fewer run at once.
    ///
    /// # Errors
    /// As [`ExpertStore::open`], and [`StoreError::LongRow`] when a row does not fit.
    pub fn open_with_staging(
        table: ExpertTable,
        files: Vec<Arc<DataFile>>,
        options: &StoreOptions,
        pool: &mut Pool,
        staging_bytes: u64,
    ) -> Result<Self, StoreError> {
        let StoreOptions { ref tiers, io, faults, .. } = *options;
        check(&table, &files, tiers)?;
        let usage = options.usage.clone().unwrap_or_else(|| vec![0; tiers.len()]);
        if usage.len() != tiers.len() {
            return Err(StoreError::Usage { got: usage.len(), want: tiers.len() });
        }
        let staging_bytes = AnonBuffer::occupied(staging_bytes);
        check_rows(&table, staging_bytes)?;
        let mut residents = Residents::new(&table, tiers)?;
        let mut statistics = count_tiers(&table, &residents);
        let n_streamed = statistics.n_streamed;
        if n_streamed > 0 && options.cache_slots == 0 {
            return Err(StoreError::NoSlots { n_streamed });
        }
        let staging_bytes = usize::try_from(staging_bytes).unwrap_or(usize::MAX);
        let queue = QueueOptions { backend: io, staging_bytes, faults };
        let mut fetches = Fetches::new(&table, &files, &queue)?;
        residents.load(&table, &mut fetches, pool, &mut statistics)?;
        let n_experts_max =
            table.layers.iter().map(|layer| layer.n_experts).max().unwrap_or(0) as usize;
        // The least certain quarter of a token's experts is wrong as often as right, and keeps the drive from what is.
        let n_ahead_max = options.n_used - options.n_used / 4;
        let mut store = Self {
            ready: Vec::with_capacity(n_experts_max),
            table,
            files,
            residents,
            streaming: None,
            usage,
            statistics,
            predicted: (usize::MAX, Vec::new()),
            n_ahead_max,
            ahead: Vec::with_capacity(n_ahead_max.min(n_experts_max)),
            lent: Vec::with_capacity(n_experts_max),
        };
        if n_streamed > 0 {
            store.streaming = Some(store.slots(fetches, options)?);
        }
        Ok(store)
    }

    /// The slots of streamed experts, as yet empty.
    fn slots(&mut self, fetches: Fetches, options: &StoreOptions) -> Result<Streaming, StoreError> {
        let Self { table, residents, usage, statistics, .. } = self;
        statistics.n_slots = options.cache_slots.min(statistics.n_streamed);
        statistics.slot_bytes = slot_bytes(table, residents);
        let (n_slots, slot_bytes) = (statistics.n_slots, statistics.slot_bytes);
        let mut cache = SlotCache::new(&streamed(table, residents), n_slots);
        let per_layer = usage.len() / table.n_layers.max(1);
        let counts = |layer: &LayerExperts| {
            &usage[layer.layer as usize * per_layer..][..layer.n_experts as usize]
        };
        for (position, layer) in table.layers.iter().enumerate() {
            cache.expect(position, counts(layer), options.n_used);
        }
        let candidates = table.layers.iter().enumerate().flat_map(|(position, layer)| {
            let homes = residents.homes(position).iter().zip(counts(layer)).zip(0..);
            let streamed = homes.filter(|((home, _), _)| home.is_streamed());
            streamed.map(move |((_, &count), expert)| (position, expert, count))
        });
        let warm = WarmStart::new(candidates, n_slots);
        let size = (n_slots, slot_bytes);
        Ok(Streaming::new(cache, size, fetches, options.prefetch, warm)?)
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
