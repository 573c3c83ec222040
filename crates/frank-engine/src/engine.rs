//! The step loop: admits requests, runs one batch at a time, hands out tokens.
//!
//! One thread owns the model. Callers put requests into a bounded queue and read events from a channel of
//! their own; a caller that drops its channel is dropped before the next step.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use frank_models::{Batch, Model};
use frank_telemetry::Metrics;

use crate::kv_cache::KvBlocks;
use crate::request::{EngineEvent, Generation, Request, SubmitError};
use crate::scheduler::{Rows, plan_step};
use crate::sequence::{Outcome, Sequence, Waiting};

/// A waiting request and no finished step for this long means that the engine is stuck.
const STUCK_AFTER: Duration = Duration::from_secs(30);

/// Sizes that the plan gave.
#[derive(Debug, Clone, Copy)]
pub struct EngineOptions {
    /// Tokens of one request, prompt and answer.
    pub n_ctx: usize,
    /// Requests that run together.
    pub n_parallel: usize,
    /// Requests that may wait beside those that run.
    pub n_queue: usize,
    /// Blocks of the KV cache.
    pub kv_blocks: u32,
}

/// Counts for metrics and tests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Requests that wait for a place.
    pub waiting: usize,
    /// Requests that run.
    pub running: usize,
    /// Steps run since the start.
    pub steps: u64,
    /// KV blocks held by running requests.
    pub kv_blocks_used: usize,
    /// KV blocks in all.
    pub kv_blocks_total: usize,
}

/// Whether a token can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// Steps run, or nothing waits.
    Ok,
    /// A request waits and no step has ended for this long.
    Stuck(Duration),
    /// The engine is ending or has ended.
    Stopped,
}

/// A running engine. Clones share it.
#[derive(Debug, Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: EngineOptions,
    n_vocab: usize,
    state: Mutex<State>,
    wake: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct State {
    queue: VecDeque<Waiting>,
    accepts: bool,
    ended: bool,
    stats: EngineStats,
    /// When the last step ended, or when work arrived at an idle engine.
    last_progress: Instant,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Starts the step loop over `model` on a thread of its own.
    ///
    /// # Panics
    /// When the sizes contradict each other: more requests in parallel than rows or outputs in a step, or a KV
    /// cache that cannot hold one request.
    #[must_use]
    pub fn start(model: Box<dyn Model>, options: EngineOptions, metrics: Metrics) -> Self {
        assert!(options.n_parallel >= 1, "no request may run");
        assert!(options.n_parallel <= model.n_rows_max(), "a step must hold a row of each request");
        assert!(
            options.n_parallel <= model.n_outputs_max(),
            "a step must hold an output of each request"
        );
        let blocks = KvBlocks::new(options.kv_blocks);
        assert!(
            KvBlocks::blocks_for(options.n_ctx) <= blocks.total(),
            "the KV cache must hold one request"
        );
        let stats = EngineStats { kv_blocks_total: blocks.total(), ..EngineStats::default() };
        let shared = Arc::new(Shared {
            options,
            n_vocab: model.n_vocab(),
            state: Mutex::new(State {
                queue: VecDeque::new(),
                accepts: true,
                ended: false,
                stats,
                last_progress: Instant::now(),
            }),
            wake: Condvar::new(),
            thread: Mutex::new(None),
        });
        let step_loop = StepLoop::new(Arc::clone(&shared), model, blocks, metrics);
        let thread = std::thread::Builder::new()
            .name("frank-engine".to_owned())
            .spawn(move || step_loop.run())
            .expect("the system gives the process one more thread at start");
        *shared.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Self { shared }
    }

    /// Queues a request.
    ///
    /// # Errors
    /// [`SubmitError`]; nothing was queued then.
    pub fn submit(&self, mut request: Request) -> Result<Generation, SubmitError> {
        self.check(&request)?;
        request.max_tokens =
            request.max_tokens.min(self.shared.options.n_ctx - request.prompt.len());
        // The step loop never waits for a reader. A request makes `max_tokens + 1` events at most, and a bound would
        // take the memory of all of them now.
        let (sender, events) = async_channel::unbounded();
        let mut state = self.shared.lock();
        if !state.accepts {
            return Err(SubmitError::ShuttingDown);
        }
        state.queue.retain(|waiting| !waiting.events.is_closed());
        let limit = self.shared.options.n_queue;
        // A request that an idle place will take at once does not count as waiting.
        let idle = self.shared.options.n_parallel.saturating_sub(state.stats.running);
        if state.queue.len() >= limit.saturating_add(idle) {
            return Err(SubmitError::QueueFull { limit });
        }
        if state.stats.running == 0 && state.queue.is_empty() {
            state.last_progress = Instant::now();
        }
        state.queue.push_back(Waiting { request, events: sender });
        state.stats.waiting = state.queue.len();
        drop(state);
        self.shared.wake.notify_all();
        Ok(Generation { events })
    }

    fn check(&self, request: &Request) -> Result<(), SubmitError> {
        let (n_prompt, n_ctx) = (request.prompt.len(), self.shared.options.n_ctx);
        if n_prompt == 0 {
            return Err(SubmitError::EmptyPrompt);
        }
        if request.max_tokens == 0 {
            return Err(SubmitError::NoTokens);
        }
        if n_prompt >= n_ctx {
            return Err(SubmitError::PromptTooLong { n_prompt, n_ctx });
        }
        let n_vocab = self.shared.n_vocab;
        match request.prompt.iter().find(|&&token_id| token_id as usize >= n_vocab) {
            Some(&token_id) => Err(SubmitError::UnknownToken { token_id, n_vocab }),
            None => Ok(()),
        }
    }

    /// Tokens that one request may hold, prompt and answer.
    #[must_use]
    pub fn n_ctx(&self) -> usize {
        self.shared.options.n_ctx
    }

    /// Counts as of the last step.
    #[must_use]
    pub fn stats(&self) -> EngineStats {
        self.shared.lock().stats
    }

    /// Whether a token can be made.
    #[must_use]
    pub fn health(&self) -> Health {
        let state = self.shared.lock();
        let idle_for = state.last_progress.elapsed();
        if state.ended || !state.accepts {
            Health::Stopped
        } else if state.stats.running + state.queue.len() > 0 && idle_for > STUCK_AFTER {
            Health::Stuck(idle_for)
        } else {
            Health::Ok
        }
    }

    /// Takes no new request, lets those that run or wait end, and returns when the step loop has ended.
    pub fn shutdown(&self) {
        self.shared.lock().accepts = false;
        self.shared.wake.notify_all();
        // Held until the loop has ended, so that whoever shuts down second waits too.
        let mut thread = self.shared.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            // A loop that panicked has said so in the log and ended all the same.
            drop(thread.join());
        }
    }
}

/// What the engine thread owns.
struct StepLoop {
    shared: Arc<Shared>,
    model: Box<dyn Model>,
    blocks: KvBlocks,
    metrics: Metrics,
    running: Vec<Sequence>,
    /// Sequences that have left their places, with their last events.
    ended: Vec<(Sequence, EngineEvent)>,
    logits: Vec<f32>,
    n_steps: u64,
}

impl StepLoop {
    fn new(shared: Arc<Shared>, model: Box<dyn Model>, blocks: KvBlocks, metrics: Metrics) -> Self {
        let logits = vec![0.0; shared.options.n_parallel * model.n_vocab()];
        Self {
            shared,
            model,
            blocks,
            metrics,
            running: Vec::new(),
            ended: Vec::new(),
            logits,
            n_steps: 0,
        }
    }

    fn run(mut self) {
        while self.wait_for_work() {
            self.drop_cancelled();
            self.admit();
            if !self.running.is_empty() {
                self.step();
            }
            self.report();
            self.say_farewell();
        }
    }

    /// Waits while there is nothing to do; false when there will be nothing more.
    fn wait_for_work(&self) -> bool {
        let mut state = self.shared.lock();
        while self.running.is_empty() && state.queue.is_empty() {
            if !state.accepts {
                return false;
            }
            state = self.shared.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    fn drop_cancelled(&mut self) {
        let blocks = &mut self.blocks;
        self.running.retain_mut(|sequence| {
            let cancelled = sequence.is_cancelled();
            if cancelled {
                blocks.release(std::mem::take(&mut sequence.blocks));
            }
            !cancelled
        });
        self.shared.lock().queue.retain(|waiting| !waiting.events.is_closed());
    }

    /// Gives places to waiting requests in order. A request gets all the blocks that it may ever need, so it
    /// never ends for the lack of one.
    fn admit(&mut self) {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        while self.running.len() < shared.options.n_parallel
            && let Some(waiting) = state.queue.front()
        {
            let n_tokens = waiting.request.prompt.len() + waiting.request.max_tokens;
            let Some(blocks) = self.blocks.reserve(n_tokens) else { break };
            let waiting = state.queue.pop_front().expect("the front was just looked at");
            self.running.push(Sequence::new(waiting, blocks, rand::random()));
        }
        // Submitters count free places by these, so they change under the same lock as the queue.
        state.stats.running = self.running.len();
        state.stats.waiting = state.queue.len();
        state.stats.kv_blocks_used = self.blocks.used();
    }

    fn step(&mut self) {
        let started = Instant::now();
        let progress: Vec<_> = self.running.iter().map(Sequence::progress).collect();
        #[expect(clippy::cast_possible_truncation, reason = "a rotation may wrap")]
        let plan = plan_step(&progress, self.model.n_rows_max(), self.n_steps as usize);
        match self.forward(&plan) {
            Ok(()) => self.hand_out(&plan),
            Err(reason) => self.fail_all(&reason),
        }
        self.n_steps += 1;
        self.metrics.step_seconds.observe(started.elapsed().as_secs_f64());
    }

    /// Runs the rows of `plan` through the model. A panic in there becomes an error that ends the requests of
    /// this step and leaves the engine running.
    fn forward(&mut self, plan: &[Rows]) -> Result<(), String> {
        let rows = BatchRows::collect(plan, &self.running);
        let tables: Vec<&[u32]> = self.running.iter().map(|s| s.blocks.as_slice()).collect();
        let batch = Batch {
            token_ids: &rows.token_ids,
            positions: &rows.positions,
            sequences: &rows.sequences,
            block_tables: &tables,
            output_rows: &rows.output_rows,
        };
        let logits = &mut self.logits[..rows.output_rows.len() * self.model.n_vocab()];
        let model = &mut self.model;
        catch_unwind(AssertUnwindSafe(|| model.forward(&batch, logits))).map_err(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text =
                text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            format!("a step failed: {text}")
        })
    }

    /// Samples a token for each sequence whose last known token was computed.
    fn hand_out(&mut self, plan: &[Rows]) {
        let n_vocab = self.model.n_vocab();
        let mut ended = Vec::new();
        let mut outputs = self.logits.chunks_exact_mut(n_vocab);
        for rows in plan {
            let sequence = &mut self.running[rows.sequence];
            self.metrics.prompt_tokens.inc_by(sequence.advance(rows.n_rows) as u64);
            if !rows.samples {
                continue;
            }
            let logits =
                outputs.next().expect("the model gave a row of logits for each sampling sequence");
            let n_before = sequence.n_completion();
            if let Outcome::Ended(event) = sequence.sample(logits) {
                ended.push((rows.sequence, event));
            }
            self.metrics.completion_tokens.inc_by((sequence.n_completion() - n_before) as u64);
        }
        ended.sort_unstable_by_key(|(index, _)| *index);
        for (index, event) in ended.into_iter().rev() {
            let sequence = self.running.remove(index);
            self.leave(sequence, event);
        }
    }

    fn fail_all(&mut self, reason: &str) {
        for sequence in std::mem::take(&mut self.running) {
            self.leave(sequence, EngineEvent::Failed(reason.to_owned()));
        }
    }

    /// Frees the place of a sequence that ends with `event`.
    fn leave(&mut self, mut sequence: Sequence, event: EngineEvent) {
        self.blocks.release(std::mem::take(&mut sequence.blocks));
        self.ended.push((sequence, event));
    }

    /// Sends the last events, after the counts say that the places are free: who has seen an answer end may count
    /// on its place.
    fn say_farewell(&mut self) {
        for (sequence, event) in self.ended.drain(..) {
            sequence.send(event);
        }
    }

    fn report(&mut self) {
        let mut state = self.shared.lock();
        state.last_progress = Instant::now();
        state.stats = EngineStats {
            waiting: state.queue.len(),
            running: self.running.len(),
            steps: self.n_steps,
            kv_blocks_used: self.blocks.used(),
            kv_blocks_total: self.blocks.total(),
        };
    }
}

impl Drop for StepLoop {
    /// Says that no step will follow. It runs when a panic ends the thread too, so that nobody waits for an answer
    /// that cannot come.
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.accepts = false;
        state.ended = true;
        state.queue.clear();
        state.stats.running = 0;
        state.stats.waiting = 0;
    }
}

/// The rows of a step in the model's form.
#[derive(Default)]
struct BatchRows {
    token_ids: Vec<u32>,
    positions: Vec<u32>,
    sequences: Vec<usize>,
    output_rows: Vec<usize>,
}

impl BatchRows {
    fn collect(plan: &[Rows], running: &[Sequence]) -> Self {
        let mut batch = Self::default();
        for rows in plan {
            let sequence = &running[rows.sequence];
            batch.token_ids.extend_from_slice(sequence.uncomputed(rows.n_rows));
            let first = u32::try_from(sequence.progress().computed)
                .expect("a context has fewer than 2^32 tokens");
            batch.positions.extend((first..).take(rows.n_rows));
            batch.sequences.extend(std::iter::repeat_n(rows.sequence, rows.n_rows));
            if rows.samples {
                batch.output_rows.push(batch.token_ids.len() - 1);
            }
        }
        batch
    }
}
