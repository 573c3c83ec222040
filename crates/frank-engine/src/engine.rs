//! The engine as callers see it: a queue of requests in front of one thread that owns the model.
//!
//! One thread owns the model. Callers put requests into a bounded queue and read events from a channel of
//! their own; a caller that drops its channel is dropped before the next step.

mod batch;
mod compute;
mod counted;
mod disk;
mod step_loop;

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use frank_experts::StoreStatistics;
use frank_models::Model;
use frank_telemetry::Metrics;

use self::compute::Computed;
use self::step_loop::StepLoop;
use crate::disk_cache::DiskCache;
use crate::kv_cache::KvBlocks;
use crate::prefix_cache::PageKey;
use crate::request::{Generation, Request, SubmitError};
use crate::scheduler::{Job, Limits, RequestId, Scheduler};
use crate::sequence::Waiting;

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
    /// Whether pages of the KV cache stay findable after their request, for others that begin alike.
    pub prefix_cache: bool,
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
    /// KV blocks held by running requests, of all groups together.
    pub kv_blocks_used: usize,
    /// KV blocks that no running request holds and that are kept for those to come.
    pub kv_blocks_cached: usize,
    /// KV blocks in all.
    pub kv_blocks_total: usize,
}

/// Whether a token can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// Steps run, or nothing waits.
    Ok,
    /// Some rows of the last step could not be computed, because something of the model could not be read for this
    /// reason. Requests are taken all the same: the next step may go well. It is forgotten when nothing ran for 30 s.
    Failing(String),
    /// A request waits and no step has ended for this long.
    Stuck(Duration),
    /// The engine is ending or has ended.
    Stopped,
}

impl Health {
    /// That of an engine whose last step ended `since` ago, or to which work came then.
    fn of_running(is_idle: bool, unread: Option<&str>, since: Duration) -> Self {
        match unread {
            _ if !is_idle && since > STUCK_AFTER => Self::Stuck(since),
            // Only a request can show that reads work again, and who asks for health may send none before it is good.
            Some(reason) if since <= STUCK_AFTER => Self::Failing(reason.to_owned()),
            Some(_) | None => Self::Ok,
        }
    }
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
    scheduler: Scheduler,
    /// What the scheduler does not need to know of the requests that it has queued.
    waiting: BTreeMap<RequestId, Waiting>,
    accepts: bool,
    ended: bool,
    /// Set by whoever wakes the step loop, which waits while it is not set and there is nothing to do.
    has_news: bool,
    stats: EngineStats,
    /// As of the last step or the last work ahead.
    experts: Option<StoreStatistics>,
    /// As of the end of the last request.
    usage: Option<Vec<u64>>,
    /// Why something could not be read in the last step.
    unread: Option<String>,
    /// When the last step ended, or when work arrived at an idle engine.
    last_progress: Instant,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether nobody waits or runs.
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.scheduler.running().is_empty()
    }

    /// Forgets waiting requests to whose answers nobody listens any more.
    fn drop_cancelled(&mut self) {
        let Self { scheduler, waiting, .. } = self;
        waiting.retain(|&id, waiting| {
            let is_cancelled = waiting.events.is_closed();
            if is_cancelled {
                scheduler.cancel(id);
            }
            !is_cancelled
        });
    }

    fn note_counts(&mut self) {
        let sum =
            |count: fn(&KvBlocks) -> usize| self.scheduler.kv().groups.iter().map(count).sum();
        self.stats = EngineStats {
            waiting: self.scheduler.n_waiting(),
            running: self.scheduler.running().len(),
            steps: self.scheduler.totals().n_steps,
            kv_blocks_used: sum(KvBlocks::used),
            kv_blocks_cached: sum(KvBlocks::cached),
            kv_blocks_total: sum(KvBlocks::total),
        };
    }

    /// Notes whether everything could be read in a step. One whose rows all failed otherwise says nothing of that.
    fn note_computed(&mut self, computed: Computed) {
        if computed.any || computed.unread.is_some() {
            self.unread = computed.unread;
        }
    }

    /// Copies how often experts were chosen; some 100 KB for the largest models.
    fn note_usage(&mut self, model: &dyn Model) {
        let Some(usage) = model.expert_usage() else { return };
        let copy = self.usage.get_or_insert_default();
        copy.clear();
        copy.extend_from_slice(usage);
    }

    /// Notes that there will be no further step.
    fn end(&mut self) {
        self.accepts = false;
        self.ended = true;
        self.waiting.clear();
        self.stats.running = 0;
        self.stats.waiting = 0;
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
        Self::start_with_disk(model, options, None, metrics)
    }

    /// As [`Engine::start`], with `disk` to keep prefixes on and to find those of an earlier engine, if it is given and
    /// there is a prefix cache. Its fingerprint stands for `model`.
    ///
    /// # Panics
    /// As [`Engine::start`].
    #[must_use]
    pub fn start_with_disk(
        model: Box<dyn Model>,
        options: EngineOptions,
        disk: Option<DiskCache>,
        metrics: Metrics,
    ) -> Self {
        assert!(options.n_parallel >= 1, "no request may run");
        assert!(options.n_parallel <= model.n_rows_max(), "a step must hold a row of each request");
        assert!(
            options.n_parallel <= model.n_outputs_max(),
            "a step must hold an output of each request"
        );
        let limits = Limits {
            n_parallel: options.n_parallel,
            n_queue: options.n_queue,
            n_rows_max: model.n_rows_max(),
        };
        let scheduler = Scheduler::new(limits, model.kv_groups());
        assert!(scheduler.kv().holds(options.n_ctx), "the KV cache must hold one request");
        let mut state = State {
            scheduler,
            waiting: BTreeMap::new(),
            accepts: true,
            ended: false,
            has_news: false,
            stats: EngineStats::default(),
            experts: None,
            usage: None,
            unread: None,
            last_progress: Instant::now(),
        };
        state.note_counts();
        let shared = Arc::new(Shared {
            options,
            n_vocab: model.n_vocab(),
            state: Mutex::new(state),
            wake: Condvar::new(),
            thread: Mutex::new(None),
        });
        let step_loop = StepLoop::new(Arc::clone(&shared), model, disk, metrics);
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
    pub fn submit(&self, request: Request) -> Result<Generation, SubmitError> {
        let mut generations = self.submit_all(vec![request])?;
        Ok(generations.pop().expect("one request gives one generation"))
    }

    /// Queues several requests that may begin alike. They get places in this order, and all others only when the first
    /// has its first token (or has ended), so that they find in the cache what it has computed.
    ///
    /// # Errors
    /// [`SubmitError`]; none of them was queued then.
    pub fn submit_all(&self, requests: Vec<Request>) -> Result<Vec<Generation>, SubmitError> {
        requests.iter().try_for_each(|request| self.check(request))?;
        let mut state = self.shared.lock();
        if !state.accepts {
            return Err(SubmitError::ShuttingDown);
        }
        state.drop_cancelled();
        if state.is_idle() {
            state.last_progress = Instant::now();
        }
        let jobs = requests.iter().map(|request| self.job(request)).collect();
        let full = |_| SubmitError::QueueFull { limit: self.shared.options.n_queue };
        let ids = state.scheduler.submit(jobs).map_err(full)?;
        let mut generations = Vec::with_capacity(ids.len());
        for (id, mut request) in ids.into_iter().zip(requests) {
            request.max_tokens = self.max_tokens(&request);
            // The step loop never waits for a reader. A request makes `max_tokens + 2` events at most, and a bound
            // would take the memory of all of them now.
            let (sender, events) = async_channel::unbounded();
            state.waiting.insert(id, Waiting { request, events: sender });
            generations.push(Generation { events });
        }
        state.stats.waiting = state.scheduler.n_waiting();
        state.has_news = true;
        drop(state);
        self.shared.wake.notify_all();
        Ok(generations)
    }

    fn job(&self, request: &Request) -> Job {
        let scope = request.cache_scope.filter(|_| self.shared.options.prefix_cache);
        Job {
            prompt: request.prompt.clone(),
            max_tokens: self.max_tokens(request),
            root: scope.map(|scope| PageKey::root(&scope.0)),
        }
    }

    /// What the context leaves of the tokens that a request asks for.
    fn max_tokens(&self, request: &Request) -> usize {
        request.max_tokens.min(self.shared.options.n_ctx - request.prompt.len())
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

    /// What the expert store has done, as of the last step; `None` for a model without experts.
    #[must_use]
    pub fn expert_statistics(&self) -> Option<StoreStatistics> {
        self.shared.lock().experts
    }

    /// How often each expert was chosen, as [`Model::expert_usage`], as of the end of the last request; `None` for a
    /// model without experts.
    #[must_use]
    pub fn expert_usage(&self) -> Option<Vec<u64>> {
        self.shared.lock().usage.clone()
    }

    /// Whether a token can be made.
    #[must_use]
    pub fn health(&self) -> Health {
        let state = self.shared.lock();
        if state.ended || !state.accepts {
            return Health::Stopped;
        }
        Health::of_running(state.is_idle(), state.unread.as_deref(), state.last_progress.elapsed())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_read_is_forgotten_when_nobody_has_tried_again_for_long() {
        let late = STUCK_AFTER + Duration::from_millis(1);
        let failing = Health::Failing("bad sector".to_owned());
        assert_eq!(Health::of_running(true, Some("bad sector"), STUCK_AFTER), failing);
        assert_eq!(Health::of_running(true, Some("bad sector"), late), Health::Ok);
        assert_eq!(Health::of_running(false, Some("bad sector"), late), Health::Stuck(late));
        assert_eq!(Health::of_running(true, None, late), Health::Ok);
    }
}
