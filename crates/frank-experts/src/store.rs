//! The expert store: gives a layer the experts that it wants, wherever they lie. Never multiplies.

mod opening;

use std::sync::Arc;

use frank_kernels::Pool;
use frank_os::DataFile;

use crate::error::StoreError;
use crate::residents::{Home, Residents};
use crate::statistics::StoreStatistics;
use crate::streaming::{Place, Served, Streaming};
use crate::table::{ExpertTable, LayerExperts};
pub use opening::StoreOptions;

/// Who visits the experts of a layer.
pub trait Visit {
    /// The threads that lay out what was read.
    fn pool(&mut self) -> &mut Pool;

    /// Computes some of the wanted experts: all that are at hand. Each wanted one comes exactly once, ascending within a
    /// call; which come together depends on the drive.
    fn compute(&mut self, experts: &[ResidentExpert<'_>]);
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
    files: Vec<Arc<DataFile>>,
    residents: Residents,
    /// `None` when all experts are resident.
    streaming: Option<Streaming>,
    usage: Vec<u64>,
    statistics: StoreStatistics,
    /// What the last visit was told of the next one: its layer, and the experts.
    predicted: (usize, Vec<u32>),
    /// Experts that are read ahead for a visit at most.
    n_ahead_max: usize,
    /// Memory of [`ExpertStore::visit`]: what is worth reading ahead.
    ahead: Vec<u32>,
    /// Memory of [`ExpertStore::serve`], so that a visit takes none.
    ready: Vec<Served>,
    /// The same for what is lent; always empty.
    lent: Vec<ResidentExpert<'static>>,
}

impl ExpertStore {
    /// The experts of layer `layer` of the model, `blk.{layer}`; `None` when it has none.
    #[must_use]
    pub fn layer(&self, layer: usize) -> Option<&LayerExperts> {
        self.position(layer).map(|position| &self.table.layers[position])
    }

    /// Calls [`Visit::compute`] with the experts `wanted` (ascending, distinct) of layer `layer` of the model, in one or
    /// more waves: each expert is in exactly one of them, ascending within a wave. Those in memory come first, while the
    /// others are read; how many come together later depends on the drive and the slots. Without `wanted` experts nothing is
    /// called. What tokens chose is counted by [`ExpertStore::note_routes`], not here.
    ///
    /// `next` is the layer that will probably be visited next with the experts that it will probably want, the most
    /// probable first. While the drive is idle they are read, into staging only: nothing is evicted for them.
    ///
    /// # Errors
    /// [`StoreError::Read`] when an expert cannot be read, [`StoreError::Changed`] when a file that has to be read is not
    /// the one that was opened. Earlier waves have been computed then, and the store is as usable as before.
    ///
    /// # Panics
    /// When the layer has no experts, or `wanted` names one that is not there, out of order or twice.
    pub fn visit(
        &mut self,
        layer: usize,
        wanted: &[u32],
        next: Option<(usize, &[u32])>,
        visit: &mut dyn Visit,
    ) -> Result<(), StoreError> {
        let Some(position) = self.position(layer) else { panic!("layer {layer} has no experts") };
        self.check_wanted(position, wanted);
        self.judge_prediction(layer, wanted, next);
        self.find(position, wanted);
        let mut ahead = std::mem::take(&mut self.ahead);
        let next =
            next.and_then(|(layer, predicted)| self.choose_ahead(layer, predicted, &mut ahead));
        let served = self.serve(position, next.map(|position| (position, &ahead[..])), visit);
        self.ahead = ahead;
        if let (Err(_), Some(streaming)) = (&served, &mut self.streaming) {
            streaming.abort(&mut self.statistics);
        }
        served
    }

    /// Of the experts that are predicted for `layer` those that are worth reading ahead, and where the layer stands.
    fn choose_ahead(&self, layer: usize, predicted: &[u32], ahead: &mut Vec<u32>) -> Option<usize> {
        let position = self.position(layer)?;
        let homes = self.residents.homes(position);
        let is_streamed =
            |&expert: &u32| homes.get(expert as usize).is_some_and(|home| home.is_streamed());
        ahead.clear();
        ahead.extend(predicted.iter().copied().filter(is_streamed).take(self.n_ahead_max));
        Some(position)
    }

    /// Computes what is ready, and waits for the rest. `next` is a position in the table.
    fn serve(
        &mut self,
        position: usize,
        next: Option<(usize, &[u32])>,
        visit: &mut dyn Visit,
    ) -> Result<(), StoreError> {
        loop {
            let Self { streaming, table, files, ready, statistics: counts, .. } = self;
            if let Some(streaming) = streaming {
                streaming.advance((table, files), visit.pool(), next, ready, counts)?;
            }
            if !self.ready.is_empty() {
                self.compute(position, visit);
                continue;
            }
            let Self { streaming, table, statistics: counts, .. } = self;
            match streaming {
                Some(streaming) if streaming.is_waiting() => streaming.wait(table, counts)?,
                _ => return Ok(()),
            }
        }
    }

    /// Lends what is ready to the visit, and takes it back.
    fn compute(&mut self, position: usize, visit: &mut dyn Visit) {
        let len = self.table.layers[position].slot_bytes();
        self.ready.sort_unstable_by_key(|served| served.index);
        self.statistics.waves += 1;
        let mut lent: Vec<ResidentExpert<'_>> = std::mem::take(&mut self.lent);
        lent.extend(self.ready.iter().map(|&Served { expert, index, place }| {
            let bytes = match (place, &self.streaming) {
                (Place::Device { device, start }, _) => self.residents.bytes(device, start, len),
                (Place::Slot(slot), Some(streaming)) => streaming.bytes(slot, len),
                (Place::Slot(_), None) => unreachable!("a store without slots finds nothing there"),
            };
            ResidentExpert { expert, index, bytes }
        }));
        visit.compute(&lent);
        lent.clear();
        // The same memory for experts of another time.
        self.lent = lent.into_iter().map(|_| unreachable!("it was cleared")).collect();
        if let Some(streaming) = &mut self.streaming {
            self.ready.iter().for_each(|served| streaming.give_back(served));
        }
        self.ready.clear();
    }

    /// Whether all experts of layer `layer` stay in memory: then no prediction for it is of use. A layer without experts
    /// does too.
    #[must_use]
    pub fn is_resident(&self, layer: usize) -> bool {
        let homes = self.position(layer).map(|position| self.residents.homes(position));
        homes.is_none_or(|homes| homes.iter().all(|home| !home.is_streamed()))
    }

    /// A few milliseconds of the warm start: the experts that earlier runs used most often are read into free slots. Evicts
    /// nothing. Whether there is more to do.
    pub fn idle(&mut self, pool: &mut Pool) -> bool {
        let Self { streaming, table, files, statistics, .. } = self;
        let warm_up =
            |streaming: &mut Streaming| streaming.warm_up((table, files), pool, statistics);
        streaming.as_mut().is_some_and(warm_up)
    }

    /// Counts the experts that the tokens of a step chose in layer `layer`, one entry for each choice of each token.
    ///
    /// # Panics
    /// When there is no such layer or expert.
    pub fn note_routes(&mut self, layer: usize, chosen: &[u32]) {
        let n_experts = self.usage.len() / self.table.n_layers;
        let counts = &mut self.usage[layer * n_experts..][..n_experts];
        for &expert in chosen {
            // What earlier runs counted is a number from a file.
            let count = &mut counts[expert as usize];
            *count = count.saturating_add(1);
        }
    }

    /// How many tokens chose each expert, those of [`StoreOptions::usage`] included; as [`StoreOptions::tiers`].
    #[must_use]
    pub fn usage(&self) -> &[u64] {
        &self.usage
    }

    /// Bytes of memory that the store occupies, staging included; they never change.
    #[must_use]
    pub fn occupied(&self) -> u64 {
        self.residents.occupied() + self.streaming.as_ref().map_or(0, Streaming::occupied)
    }

    /// Counts since the store was opened.
    #[must_use]
    pub fn statistics(&self) -> StoreStatistics {
        let mut statistics = self.statistics;
        if let Some(streaming) = &self.streaming {
            let queue = streaming.fetches.queue();
            statistics.slots_used = statistics.n_slots - streaming.cache.n_free();
            (statistics.backend, statistics.direct) = (Some(queue.backend()), queue.is_direct());
            // The same queue has loaded what is resident.
            let loading = statistics.primary_read_time + statistics.secondary_read_time;
            statistics.read_time = queue.busy().saturating_sub(loading);
            statistics.reread = queue.n_reread();
        }
        statistics
    }

    /// Why files are read in another way than was preferred, in a sentence; `None` when nothing was refused.
    #[must_use]
    pub fn io_fallback(&self) -> Option<&str> {
        self.streaming.as_ref().and_then(|streaming| streaming.fetches.queue().fallback())
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

    /// Compares what was predicted for this visit with what it wants, and notes what is predicted for the next one.
    fn judge_prediction(&mut self, layer: usize, wanted: &[u32], next: Option<(usize, &[u32])>) {
        let (predicted_layer, predicted) = &mut self.predicted;
        if *predicted_layer == layer {
            let is_right = |expert: &&u32| wanted.binary_search(expert).is_ok();
            self.statistics.predicted += predicted.len() as u64;
            self.statistics.predicted_right += predicted.iter().filter(is_right).count() as u64;
        }
        predicted.clear();
        *predicted_layer = usize::MAX;
        if let Some((next_layer, experts)) = next {
            *predicted_layer = next_layer;
            predicted.extend_from_slice(experts);
        }
    }

    /// Makes ready the wanted experts that are in memory, and demands the others.
    fn find(&mut self, position: usize, wanted: &[u32]) {
        let Self { residents, streaming, ready, statistics: counts, .. } = self;
        ready.clear();
        if let Some(streaming) = streaming {
            streaming.begin(position, wanted, counts);
        }
        let homes = residents.homes(position);
        for (index, &expert) in wanted.iter().enumerate() {
            let place = match (homes[expert as usize], &mut *streaming) {
                (Home::Resident { device, start }, _) => {
                    counts.primary_visits += u64::from(device == 0);
                    counts.secondary_visits += u64::from(device > 0);
                    Some(Place::Device { device, start })
                }
                (Home::Streamed, Some(streaming)) => {
                    streaming.find(position, expert, index, counts).map(Place::Slot)
                }
                (Home::Streamed, None) => unreachable!("a store that streams has slots"),
            };
            ready.extend(place.map(|place| Served { expert, index, place }));
        }
    }
}
