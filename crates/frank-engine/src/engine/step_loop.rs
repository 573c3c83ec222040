//! The thread that owns the model: asks the scheduler what to compute, computes it, draws tokens, tells who listens.
//!
//! A step that panics is run again one sequence at a time. Those that panic alone end; the others go on with the same
//! tokens, since a row does not depend on its batch mates and each writes to blocks of its own.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use frank_models::Model;
use frank_telemetry::{Metrics, TierLabels};

use super::Shared;
use super::batch::{SequenceRows, forward};
use super::disk::Disk;
use crate::disk_cache::DiskCache;
use crate::request::EngineEvent;
use crate::scheduler::{Action, RequestId, RowsOutcome, Running, Scheduler, StepRows, Totals};
use crate::sequence::{Outcome, Sequence};

/// What the engine thread owns.
pub(super) struct StepLoop {
    shared: Arc<Shared>,
    model: Box<dyn Model>,
    metrics: Metrics,
    /// The answers of the running requests.
    sequences: BTreeMap<RequestId, Sequence>,
    /// Why the next rows of some of them cannot be computed.
    failures: BTreeMap<RequestId, String>,
    logits: Vec<f32>,
    /// What the metrics say of the scheduler and the model.
    counted: Counted,
    disk: Option<Disk>,
    /// Whether all that runs waits for the disk.
    waits_for_disk: bool,
}

/// What a step is made of.
struct Prepared {
    actions: Vec<Action>,
    rows: Vec<SequenceRows>,
}

impl StepLoop {
    pub(super) fn new(
        shared: Arc<Shared>,
        model: Box<dyn Model>,
        disk: Option<DiskCache>,
        metrics: Metrics,
    ) -> Self {
        let disk = disk.map(|cache| Disk::start(cache, Arc::clone(&shared), model.as_ref()));
        let logits = vec![0.0; shared.options.n_parallel * model.n_vocab()];
        tell_tiers(model.as_ref(), &metrics);
        Self {
            shared,
            model,
            metrics,
            sequences: BTreeMap::new(),
            failures: BTreeMap::new(),
            logits,
            counted: Counted::default(),
            disk,
            waits_for_disk: false,
        }
    }

    pub(super) fn run(mut self) {
        while self.wait_for_work() {
            let started = Instant::now();
            if let Some(disk) = &self.disk {
                disk.exchange(self.model.as_mut());
            }
            let Prepared { actions, rows } = self.prepare();
            self.act(&actions);
            if rows.is_empty() {
                continue;
            }
            let ended = self.step(&rows);
            self.metrics.step_seconds.observe(started.elapsed().as_secs_f64());
            // After the counts say that the places are free: who has seen an answer end may count on its place.
            for (sequence, event) in ended {
                sequence.send(event);
            }
        }
        if let Some(disk) = self.disk.take() {
            disk.finish(self.model.as_ref());
        }
    }

    /// Waits while there is nothing to do; false when there will be nothing more.
    fn wait_for_work(&self) -> bool {
        let mut state = self.shared.lock();
        while !std::mem::take(&mut state.has_news) && (state.is_idle() || self.waits_for_disk) {
            if state.is_idle() && !state.accepts {
                return false;
            }
            state = self.shared.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    /// Drops who has left, gives places to who waits, and chooses the rows of the next step.
    fn prepare(&mut self) -> Prepared {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        state.drop_cancelled();
        self.sequences.retain(|&id, sequence| {
            let is_cancelled = sequence.is_cancelled();
            if is_cancelled {
                state.scheduler.cancel(id);
                self.failures.remove(&id);
            }
            !is_cancelled
        });
        for id in state.scheduler.admit() {
            let waiting = state.waiting.remove(&id).expect("a request that is queued waits");
            self.sequences.insert(id, Sequence::new(waiting, rand::random()));
        }
        if let Some(disk) = &self.disk {
            disk.ask(&mut state);
        }
        let rows = state.scheduler.plan();
        let running = state.scheduler.running();
        self.waits_for_disk = rows.is_empty() && running.iter().any(Running::is_restoring);
        let rows = rows.into_iter().map(|rows| SequenceRows::collect(rows, &running[rows.place]));
        let rows = rows.collect();
        let actions = state.scheduler.take_actions();
        state.note_counts();
        Prepared { actions, rows }
    }

    /// Computes a step and returns the answers that end with it, with their last events.
    fn step(&mut self, rows: &[SequenceRows]) -> Vec<(Sequence, EngineEvent)> {
        for SequenceRows { rows, .. } in rows {
            let sequence = self.sequences.get_mut(&rows.id).expect("a running request has one");
            sequence.n_cached = rows.n_cached;
            if rows.is_first {
                sequence.send(EngineEvent::Started { cached_tokens: rows.n_cached });
            }
        }
        self.compute(rows);
        let results = self.draw(rows);
        self.complete(rows, results)
    }

    /// Does to the model's blocks what the scheduler wants.
    fn act(&mut self, actions: &[Action]) {
        for &Action::Copy { id, group, from, to } in actions {
            if let Err(reason) = guarded("a copy", || self.model.copy_block(group, from, to)) {
                self.failures.insert(id, reason);
            }
        }
    }

    /// Computes the rows of all sequences that have not failed. The logits of the `n`th one that samples are the `n`th
    /// row of `self.logits`.
    fn compute(&mut self, rows: &[SequenceRows]) {
        let model = self.model.as_mut();
        let mut logits = self.logits.as_mut_slice();
        if self.failures.is_empty() {
            match guarded("a step", || forward(model, rows, logits)) {
                Ok(()) => return,
                Err(reason) if rows.len() == 1 => {
                    self.failures.insert(rows[0].rows.id, reason);
                }
                Err(_) => {}
            }
        }
        for sequence in rows {
            let n_logits = model.n_vocab() * usize::from(sequence.rows.samples);
            let (own, others) = logits.split_at_mut(n_logits);
            logits = others;
            if self.failures.contains_key(&sequence.rows.id) {
                continue;
            }
            let alone = std::slice::from_ref(sequence);
            if let Err(reason) = guarded("a step", || forward(model, alone, own)) {
                self.failures.insert(sequence.rows.id, reason);
            }
        }
    }

    /// Draws a token for each sequence whose last known token was computed.
    fn draw(&mut self, rows: &[SequenceRows]) -> Vec<RowsResult> {
        let mut outputs = self.logits.chunks_exact_mut(self.model.n_vocab());
        let mut results = Vec::with_capacity(rows.len());
        for SequenceRows { rows, .. } in rows {
            let logits = if rows.samples { outputs.next() } else { None };
            let sequence = self.sequences.get_mut(&rows.id).expect("a running request has one");
            if let Some(reason) = self.failures.remove(&rows.id) {
                results.push((RowsOutcome::Failed, Some(EngineEvent::Failed(reason))));
                continue;
            }
            self.metrics.prompt_tokens.inc_by(rows.n_prompt_rows as u64);
            let n_before = sequence.n_completion();
            results.push(logits.map_or((RowsOutcome::Read, None), |logits| draw(sequence, logits)));
            self.metrics.completion_tokens.inc_by((sequence.n_completion() - n_before) as u64);
        }
        results
    }

    fn complete(
        &mut self,
        rows: &[SequenceRows],
        results: Vec<RowsResult>,
    ) -> Vec<(Sequence, EngineEvent)> {
        let rows: Vec<_> = rows.iter().map(|sequence| sequence.rows).collect();
        let outcomes: Vec<_> = results.iter().map(|(outcome, _)| *outcome).collect();
        let mut state = self.shared.lock();
        state.scheduler.complete(&rows, &outcomes);
        state.last_progress = Instant::now();
        // The pages of this step are to be stored, whether or not another step follows.
        state.has_news |= self.disk.is_some();
        state.note_counts();
        let counted = Counted::of(&state.scheduler, self.model.as_ref());
        drop(state);
        self.counted.count_up_to(counted, &self.metrics);
        let events = results.into_iter().map(|(_, event)| event);
        let last = |(rows, event): (StepRows, Option<EngineEvent>)| {
            event.and_then(|event| Some((self.sequences.remove(&rows.id)?, event)))
        };
        rows.into_iter().zip(events).filter_map(last).collect()
    }
}

impl Drop for StepLoop {
    /// Says that no step will follow. It runs when a panic ends the thread too, so that nobody waits for an answer
    /// that cannot come.
    fn drop(&mut self) {
        self.shared.lock().end();
    }
}

/// Says where the routed experts of a model are. A model without any has no such series.
fn tell_tiers(model: &dyn Model, metrics: &Metrics) {
    let Some(store) = model.expert_statistics() else { return };
    let tiers = [("resident", store.n_primary + store.n_secondary), ("streamed", store.n_streamed)];
    for (tier, n_experts) in tiers {
        let gauge = metrics.experts.get_or_create(&TierLabels { tier });
        gauge.set(i64::try_from(n_experts).unwrap_or(i64::MAX));
    }
}

/// What the prefix cache and the expert store have done since the start.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    n_looked_up: u64,
    n_found: u64,
    n_evicted: u64,
    expert_hits: u64,
    expert_misses: u64,
    expert_bytes_read: u64,
}

impl Counted {
    fn of(scheduler: &Scheduler, model: &dyn Model) -> Self {
        let Totals { n_looked_up, n_found, .. } = scheduler.totals();
        let store = model.expert_statistics().unwrap_or_default();
        Self {
            n_looked_up,
            n_found,
            n_evicted: scheduler.kv().pages.n_evicted(),
            expert_hits: store.hits,
            expert_misses: store.misses,
            expert_bytes_read: store.bytes_read,
        }
    }

    /// Adds to `metrics` what has come since the last time.
    fn count_up_to(&mut self, now: Self, metrics: &Metrics) {
        metrics.prefix_cache_lookup_tokens.inc_by(now.n_looked_up - self.n_looked_up);
        metrics.prefix_cache_hit_tokens.inc_by(now.n_found - self.n_found);
        metrics.prefix_cache_evictions.inc_by(now.n_evicted - self.n_evicted);
        metrics.expert_hits.inc_by(now.expert_hits - self.expert_hits);
        metrics.expert_misses.inc_by(now.expert_misses - self.expert_misses);
        metrics.expert_read.inc_by(now.expert_bytes_read - self.expert_bytes_read);
        *self = now;
    }
}

/// What became of the rows of a request, and its last event if they are its last rows.
type RowsResult = (RowsOutcome, Option<EngineEvent>);

/// Draws a token. A panic of the sampler or of a constraint ends this answer only.
fn draw(sequence: &mut Sequence, logits: &mut [f32]) -> RowsResult {
    match guarded("the choice of a token", || sequence.sample(logits)) {
        Ok(Outcome::Running(token_id)) => (RowsOutcome::Token(token_id), None),
        Ok(Outcome::Ended(event)) => (RowsOutcome::Ended, Some(event)),
        Err(reason) => (RowsOutcome::Ended, Some(EngineEvent::Failed(reason))),
    }
}

/// Runs `work`; a panic in it becomes an error.
pub(super) fn guarded<T>(what: &str, work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        format!("{what} failed: {text}")
    })
}
