//! The warm start: while nobody waits, the experts of earlier runs go into free slots. Never evicts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use frank_kernels::Pool;
use frank_os::DataFile;

use super::Streaming;
use crate::fetches::Purpose;
use crate::statistics::StoreStatistics;
use crate::table::ExpertTable;

/// How long one step of the warm start lasts: a request that comes waits for it.
const WARM_STEP: Duration = Duration::from_millis(4);

impl Streaming {
    /// One step of the warm start, of a few milliseconds; whether there is more to do.
    pub(crate) fn warm_up(
        &mut self,
        (table, files): (&ExpertTable, &[Arc<DataFile>]),
        pool: &mut Pool,
        counts: &mut StoreStatistics,
    ) -> bool {
        // What was read ahead for a visit that nobody makes now is in the way.
        for id in self.fetches.pick(|fetch| fetch.purpose == Purpose::Prefetch) {
            self.drop_fetch(id, counts);
        }
        let end = Instant::now() + WARM_STEP;
        let mut wait = false;
        loop {
            self.start_warming(table, counts);
            // Only a visit that was broken off in the middle leaves something that makes an error; the next one drops it.
            if self.take(table, wait, counts).is_err() {
                return false;
            }
            if files.iter().any(|file| file.changed().is_some()) {
                // Whoever wants an expert of it is told.
                self.end_warming(counts);
                return false;
            }
            let any = self.lay_out_warm(table, pool, counts);
            wait = !any;
            let is_reading = self.fetches.queue().in_flight() > 0;
            if Instant::now() >= end && (is_reading || self.warm.next().is_some()) {
                return true;
            }
            if !any && !is_reading {
                self.end_warming(counts);
                return false;
            }
        }
    }

    /// Starts reads of what comes next, as many as there are free slots and room in staging.
    fn start_warming(&mut self, table: &ExpertTable, counts: &mut StoreStatistics) {
        let loading = self.fetches.pick(|fetch| fetch.purpose == Purpose::Load);
        let mut n_loading = loading.len();
        let mut has_room = loading.into_iter().all(|id| self.start_one(table, id, counts));
        while has_room && n_loading < self.cache.n_free() {
            let Some((position, expert)) = self.warm.next() else { break };
            self.warm.advance();
            if self.cache.holds(position, expert) || self.fetches.find(position, expert).is_some() {
                continue;
            }
            let id = self.fetches.add(position, expert, Purpose::Load);
            has_room = self.start_one(table, id, counts);
            n_loading += 1;
        }
        self.fetches.submit();
    }

    /// What still lies in staging never comes whole, and there are no slots for more.
    fn end_warming(&mut self, counts: &mut StoreStatistics) {
        self.warm.stop();
        for id in self.fetches.pick(|fetch| fetch.purpose == Purpose::Load) {
            self.drop_fetch(id, counts);
        }
    }

    /// Lays out experts that have come whole, each in a free slot.
    fn lay_out_warm(
        &mut self,
        table: &ExpertTable,
        pool: &mut Pool,
        counts: &mut StoreStatistics,
    ) -> bool {
        let Self { cache, fetches, memory, slot_bytes, .. } = self;
        let mut any = false;
        loop {
            let chosen = fetches.choose(|_, fetch| {
                if fetch.purpose == Purpose::Load && fetch.start.is_none() && fetch.is_here() {
                    let slot = cache.fill(fetch.position, fetch.expert);
                    fetch.start = slot.map(|slot| slot * *slot_bytes);
                }
                fetch.purpose == Purpose::Load && fetch.start.is_some()
            });
            if chosen.is_empty() {
                return any;
            }
            any = true;
            fetches.pack(table, pool, memory.as_mut_slice(), chosen, |_, _| counts.warmed += 1);
        }
    }
}
