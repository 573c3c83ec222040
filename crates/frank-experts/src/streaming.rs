//! The memory of streamed experts: slots of one size, filled as experts are wanted, predicted, or remembered. Demand goes
//! before prediction, and a prediction evicts nothing.

mod warming;

use std::sync::Arc;
use std::time::Instant;

use frank_kernels::Pool;
use frank_os::{AnonBuffer, DataFile, OsError};

use crate::cache::SlotCache;
use crate::error::StoreError;
use crate::fetches::{Failed, Fetch, Fetches, Purpose};
use crate::statistics::StoreStatistics;
use crate::table::ExpertTable;
use crate::warm::WarmStart;

/// An expert that a visit may compute now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Served {
    pub(crate) expert: u32,
    pub(crate) index: usize,
    pub(crate) place: Place,
}

/// Where an expert lies in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    /// In the memory of a device, from byte `start`.
    Device {
        device: u16,
        start: usize,
    },
    Slot(usize),
}

/// Slots, their books, and what fills them.
#[derive(Debug)]
pub(crate) struct Streaming {
    pub(crate) cache: SlotCache,
    memory: AnonBuffer,
    slot_bytes: usize,
    pub(crate) fetches: Fetches,
    /// What the running visit waits for, in the order in which it is read.
    demand: Vec<usize>,
    /// Of `demand`, how many have been started.
    n_started: usize,
    /// Predicted experts that have been looked at in this visit.
    n_predicted: usize,
    prefetches: bool,
    pub(crate) warm: WarmStart,
}

impl Streaming {
    /// Takes the memory of `n_slots` slots.
    pub(crate) fn new(
        cache: SlotCache,
        (n_slots, slot_bytes): (usize, usize),
        fetches: Fetches,
        prefetches: bool,
        warm: WarmStart,
    ) -> Result<Self, OsError> {
        let mut memory = AnonBuffer::new((n_slots as u64).saturating_mul(slot_bytes as u64))?;
        memory.populate()?;
        // Where reads do not run beside the program, nothing would run ahead.
        let prefetches = prefetches && fetches.queue().backend().runs_beside();
        let demand = Vec::new();
        Ok(Self {
            cache,
            memory,
            slot_bytes,
            fetches,
            demand,
            n_started: 0,
            n_predicted: 0,
            prefetches,
            warm,
        })
    }

    /// Bytes of memory that slots and staging occupy.
    pub(crate) fn occupied(&self) -> u64 {
        AnonBuffer::occupied(self.memory.len() as u64) + self.fetches.queue().occupied()
    }

    /// The first `len` bytes of a slot.
    pub(crate) fn bytes(&self, slot: usize, len: usize) -> &[u8] {
        &self.memory.as_slice()[slot * self.slot_bytes..][..len]
    }

    /// Begins a visit: what is on its way and not among `wanted` is dropped.
    pub(crate) fn begin(&mut self, position: usize, wanted: &[u32], counts: &mut StoreStatistics) {
        self.cache.begin_visit(position);
        self.demand.clear();
        (self.n_started, self.n_predicted) = (0, 0);
        if self.fetches.is_empty() {
            return;
        }
        let unwanted = |fetch: &Fetch| {
            let is_wanted =
                fetch.position == position && wanted.binary_search(&fetch.expert).is_ok();
            !is_wanted || matches!(fetch.purpose, Purpose::Demand { .. })
        };
        for id in self.fetches.pick(unwanted) {
            self.drop_fetch(id, counts);
        }
    }

    /// The slot of an expert that the visit wants. One that has none is read.
    pub(crate) fn find(
        &mut self,
        position: usize,
        expert: u32,
        index: usize,
        counts: &mut StoreStatistics,
    ) -> Option<usize> {
        if let Some(slot) = self.cache.find(position, expert) {
            counts.hits += 1;
            return Some(slot);
        }
        counts.misses += 1;
        let purpose = Purpose::Demand { index };
        let Some(id) = self.fetches.find(position, expert) else {
            self.demand.push(self.fetches.add(position, expert, purpose));
            return None;
        };
        let fetch = self.fetches.get_mut(id);
        counts.prefetch_useful += u64::from(fetch.purpose == Purpose::Prefetch);
        fetch.purpose = purpose;
        // What already holds staging comes first, so that it is given back; of that what needs no more of it.
        let is_whole = self.fetches.get(id).is_started;
        let holds_staging = |&&id: &&usize| self.fetches.get(id).bytes > 0;
        let at = if is_whole { 0 } else { self.demand.iter().take_while(holds_staging).count() };
        self.demand.insert(at, id);
        None
    }

    /// Whether the visit still waits for experts.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.demand.is_empty()
    }

    /// The files of what the visit waits for, unless one has changed since it was opened.
    fn check_unchanged(
        &self,
        table: &ExpertTable,
        files: &[Arc<DataFile>],
    ) -> Result<(), StoreError> {
        let Some(&first) = self.demand.first() else { return Ok(()) };
        let layer = &table.layers[self.fetches.get(first).position];
        let (mut asked, mut last) = (0u128, None);
        for &id in &self.demand {
            let expert = self.fetches.get(id).expert as usize;
            for file in layer.parts.iter().map(|part| part.places[expert].file) {
                let bit = 1u128.checked_shl(file as u32).unwrap_or(0);
                if last == Some(file) || asked & bit != 0 {
                    continue;
                }
                (last, asked) = (Some(file), asked | bit);
                if let Some(source) = files[file].changed() {
                    return Err(StoreError::Changed { layer: layer.layer, source });
                }
            }
        }
        Ok(())
    }

    /// One round: takes in what has arrived, starts what there is room for, lays out what there are slots for and adds it
    /// to `ready`. Nothing is laid out that came from a file which has changed.
    pub(crate) fn advance(
        &mut self,
        (table, files): (&ExpertTable, &[Arc<DataFile>]),
        pool: &mut Pool,
        next: Option<(usize, &[u32])>,
        ready: &mut Vec<Served>,
        counts: &mut StoreStatistics,
    ) -> Result<(), StoreError> {
        if self.is_waiting() && !self.fetches.queue().backend().runs_beside() {
            // What was asked for is read now, while nothing is computed.
            self.take_in_time(table, false, counts)?;
        } else {
            self.take(table, false, counts)?;
        }
        self.check_unchanged(table, files)?;
        self.start(table, next, counts);
        while self.lay_out(table, pool, ready, counts) {
            // Staging is free again.
            self.start(table, next, counts);
        }
        Ok(())
    }

    /// Waits for a read of the visit.
    pub(crate) fn wait(
        &mut self,
        table: &ExpertTable,
        counts: &mut StoreStatistics,
    ) -> Result<(), StoreError> {
        let any = self.take_in_time(table, true, counts)?;
        assert!(any, "a visit waits for {} experts and nothing is read", self.demand.len());
        Ok(())
    }

    /// [`Streaming::take`] that the visit has to wait for.
    fn take_in_time(
        &mut self,
        table: &ExpertTable,
        wait: bool,
        counts: &mut StoreStatistics,
    ) -> Result<bool, StoreError> {
        let start = Instant::now();
        let taken = self.take(table, wait, counts);
        counts.demand_wait += start.elapsed();
        taken
    }

    /// The visit has computed what lies in a slot.
    pub(crate) fn give_back(&mut self, served: &Served) {
        if let Place::Slot(slot) = served.place {
            self.cache.give_back(slot);
        }
    }

    /// Drops all that the visit still waits for.
    pub(crate) fn abort(&mut self, counts: &mut StoreStatistics) {
        for id in std::mem::take(&mut self.demand) {
            self.drop_fetch(id, counts);
        }
    }

    /// Takes in what has ended; whether anything has. Only a read that the visit waits for makes an error.
    fn take(
        &mut self,
        table: &ExpertTable,
        wait: bool,
        counts: &mut StoreStatistics,
    ) -> Result<bool, StoreError> {
        loop {
            match self.fetches.take(wait) {
                Ok(any) => return Ok(any),
                Err(Failed { fetch: id, source }) => {
                    let &Fetch { position, expert, purpose, .. } = self.fetches.get(id);
                    match purpose {
                        Purpose::Demand { .. } => {
                            let layer = table.layers[position].layer;
                            return Err(StoreError::Read { layer, expert, source });
                        }
                        // What cannot be read is left alone until somebody wants it.
                        Purpose::Load => self.warm.stop(),
                        Purpose::Prefetch => {}
                    }
                    self.drop_fetch(id, counts);
                    if wait {
                        return Ok(true);
                    }
                }
            }
        }
    }

    /// Starts reads as far as there is room: what the visit waits for, and when all of that is here, what is predicted.
    fn start(
        &mut self,
        table: &ExpertTable,
        next: Option<(usize, &[u32])>,
        counts: &mut StoreStatistics,
    ) {
        while let Some(&id) = self.demand.get(self.n_started) {
            let all = self.start_one(table, id, counts);
            if !all {
                self.fetches.submit();
                return;
            }
            self.n_started += 1;
        }
        if let Some((position, predicted)) = next
            && self.prefetches
            && !self.demand.iter().any(|&id| self.fetches.is_reading(id))
        {
            self.prefetch(table, position, predicted, counts);
        }
        self.fetches.submit();
    }

    /// Starts reads of predicted experts that are not here, best first, as far as there is room.
    fn prefetch(
        &mut self,
        table: &ExpertTable,
        position: usize,
        predicted: &[u32],
        counts: &mut StoreStatistics,
    ) {
        while let Some(&expert) = predicted.get(self.n_predicted) {
            let under_way = self.fetches.find(position, expert);
            if under_way.is_none() && self.cache.holds(position, expert) {
                self.n_predicted += 1;
                continue;
            }
            let id =
                under_way.unwrap_or_else(|| self.fetches.add(position, expert, Purpose::Prefetch));
            let before = self.fetches.get(id).bytes;
            let all = self.start_one(table, id, counts);
            let after = self.fetches.get(id).bytes;
            if after == 0 {
                self.fetches.abandon(id);
                return;
            }
            counts.prefetch_started += u64::from(before == 0);
            counts.prefetch_bytes += after - before;
            if !all {
                return;
            }
            self.n_predicted += 1;
        }
    }

    /// Lays out what has arrived and may have a slot; whether anything was.
    fn lay_out(
        &mut self,
        table: &ExpertTable,
        pool: &mut Pool,
        ready: &mut Vec<Served>,
        counts: &mut StoreStatistics,
    ) -> bool {
        if self.demand.is_empty() {
            return false;
        }
        let Self { cache, fetches, memory, slot_bytes, demand, n_started, .. } = self;
        // Of what has not come whole only the first of all takes a slot: it is sure to end before the others need theirs.
        let first = demand[0];
        let chosen = fetches.choose(|id, fetch| {
            if !matches!(fetch.purpose, Purpose::Demand { .. }) {
                return false;
            }
            let may_begin = id == first || fetch.is_here();
            if fetch.start.is_none() && may_begin && cache.may_claim(fetch.position) {
                let claim = cache.claim(fetch.position, fetch.expert);
                counts.evictions += u64::from(claim.evicts);
                fetch.start = Some(claim.slot * *slot_bytes);
            }
            fetch.start.is_some()
        });
        if chosen.is_empty() {
            return false;
        }
        fetches.pack(table, pool, memory.as_mut_slice(), chosen, |id, fetch| {
            let Purpose::Demand { index } = fetch.purpose else { return };
            let slot = fetch.start.unwrap_or(0) / *slot_bytes;
            ready.push(Served { expert: fetch.expert, index, place: Place::Slot(slot) });
            let at = demand.iter().position(|&waiting| waiting == id);
            let at = at.expect("a visit waits for what it demanded");
            *n_started -= usize::from(at < *n_started);
            demand.remove(at);
        });
        true
    }

    /// Forgets a fetch, with the slot that it may have.
    fn drop_fetch(&mut self, id: usize, counts: &mut StoreStatistics) {
        let fetch = self.fetches.abandon(id);
        if let Some(start) = fetch.start {
            self.cache.release(start / self.slot_bytes);
        }
        if fetch.purpose == Purpose::Prefetch {
            counts.prefetch_wasted += 1;
            counts.prefetch_wasted_bytes += fetch.bytes;
        } else if fetch.purpose == Purpose::Load {
            self.warm.retreat(fetch.position, fetch.expert);
        }
    }

    /// Starts what there is room for of an expert; whether that is all of it.
    fn start_one(&mut self, table: &ExpertTable, id: usize, counts: &mut StoreStatistics) -> bool {
        let before = self.fetches.get(id).bytes;
        let all = self.fetches.start(table, id);
        counts.bytes_read += self.fetches.get(id).bytes - before;
        all
    }
}
