//! The thread that owns the model: asks the scheduler what to compute, computes it, draws tokens, tells who listens.
//! While nobody waits it lets the model do ahead what it can, in pieces so short that nobody waits for one.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use frank_models::Model;
use frank_telemetry::Metrics;

use super::Shared;
use super::batch::SequenceRows;
use super::compute::{Computed, compute, guarded};
use super::counted::{Counted, Prefixes};
use super::disk::Disk;
use crate::disk_cache::DiskCache;
use crate::request::EngineEvent;
use crate::scheduler::{Action, RequestId, RowsOutcome, Running, StepRows};
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
    /// Whether the model may have something to do ahead.
    has_idle_work: bool,
    /// What the system refused of reading experts, as far as somebody was told.
    io_fallback: Option<String>,
}

/// What the loop does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Step,
    Idle,
    End,
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
        let mut step_loop = Self {
            shared,
            // Whoever loaded the model told this.
            io_fallback: model.io_fallback().map(str::to_owned),
            model,
            metrics,
            sequences: BTreeMap::new(),
            failures: BTreeMap::new(),
            logits,
            counted: Counted::default(),
            disk,
            waits_for_disk: false,
            has_idle_work: true,
        };
        step_loop.tell_experts();
        step_loop.shared.lock().note_usage(step_loop.model.as_ref());
        step_loop
    }

    pub(super) fn run(mut self) {
        loop {
            match self.wait_for_work() {
                Turn::Step => self.turn(),
                Turn::Idle => self.idle(),
                Turn::End => break,
            }
        }
        if let Some(disk) = self.disk.take() {
            disk.finish(self.model.as_ref());
        }
    }

    /// A step, if anything can be computed.
    fn turn(&mut self) {
        let started = Instant::now();
        if let Some(disk) = &self.disk {
            disk.exchange(self.model.as_mut());
        }
        let Prepared { actions, rows } = self.prepare();
        self.act(&actions);
        if rows.is_empty() {
            return;
        }
        let ended = self.step(&rows);
        self.has_idle_work = true;
        self.metrics.step_seconds.observe(started.elapsed().as_secs_f64());
        // After the counts say that the places are free: who has seen an answer end may count on its place.
        for (sequence, event) in ended {
            sequence.send(event);
        }
    }

    /// A piece of what can be done ahead. No lock is held, so a request that comes waits for the rest of the piece only.
    fn idle(&mut self) {
        let more = guarded("work ahead", || self.model.idle());
        self.has_idle_work = more.unwrap_or_else(|reason| {
            tracing::error!(reason, "no more is done ahead");
            false
        });
        self.tell_experts();
    }

    /// Tells metrics and callers what the expert store has done.
    fn tell_experts(&mut self) {
        let Some(experts) = self.model.expert_statistics() else { return };
        self.shared.lock().experts = Some(experts);
        self.counted.count_experts(experts, &self.metrics);
        self.tell_fallback();
    }

    /// Says what the system refuses of reading experts when that is new: some file systems do only at the first read.
    fn tell_fallback(&mut self) {
        let fallback = self.model.io_fallback();
        if fallback == self.io_fallback.as_deref() {
            return;
        }
        self.io_fallback = fallback.map(str::to_owned);
        if let Some(fallback) = fallback {
            tracing::warn!(fallback, "experts are read in another way");
        }
    }

    /// Waits while there is nothing to do.
    fn wait_for_work(&self) -> Turn {
        let mut state = self.shared.lock();
        while !std::mem::take(&mut state.has_news) && (state.is_idle() || self.waits_for_disk) {
            if state.is_idle() && !state.accepts {
                return Turn::End;
            }
            if state.is_idle() && self.has_idle_work {
                return Turn::Idle;
            }
            state = self.shared.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Turn::Step
    }

    /// Drops who has left, gives places to who waits, and chooses the rows of the next step.
    fn prepare(&mut self) -> Prepared {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        state.drop_cancelled();
        let n_before = self.sequences.len();
        self.sequences.retain(|&id, sequence| {
            let is_cancelled = sequence.is_cancelled();
            if is_cancelled {
                state.scheduler.cancel(id);
                self.failures.remove(&id);
            }
            !is_cancelled
        });
        if self.sequences.len() < n_before {
            state.note_usage(self.model.as_ref());
        }
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
        let model = self.model.as_mut();
        let computed = compute(model, rows, &mut self.logits, &mut self.failures);
        let results = self.draw(rows);
        // Before the step is told of: who has seen its tokens may look at the counts.
        self.tell_experts();
        self.complete(rows, results, computed)
    }

    /// Does to the model's blocks what the scheduler wants.
    fn act(&mut self, actions: &[Action]) {
        for &Action::Copy { id, group, from, to } in actions {
            if let Err(reason) = guarded("a copy", || self.model.copy_block(group, from, to)) {
                self.failures.insert(id, reason);
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
        computed: Computed,
    ) -> Vec<(Sequence, EngineEvent)> {
        let rows: Vec<_> = rows.iter().map(|sequence| sequence.rows).collect();
        let outcomes: Vec<_> = results.iter().map(|(outcome, _)| *outcome).collect();
        let mut state = self.shared.lock();
        state.scheduler.complete(&rows, &outcomes);
        state.last_progress = Instant::now();
        // The pages of this step are to be stored, whether or not another step follows.
        state.has_news |= self.disk.is_some();
        state.note_computed(computed);
        if results.iter().any(|(_, event)| event.is_some()) {
            state.note_usage(self.model.as_ref());
        }
        state.note_counts();
        let prefixes = Prefixes::of(&state.scheduler);
        drop(state);
        self.counted.count_prefixes(prefixes, &self.metrics);
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
