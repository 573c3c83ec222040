//! What runs in the next step: queue, running requests, their blocks, and what can be found of earlier ones. A state
//! machine without I/O, threads or a clock: everything that happens is an argument.
//!
//! **Admission** is first come, first served. A request gets a place when one is free and when all the blocks that it
//! may hold at the same time can be promised to it, so it never ends for the lack of one. When the first of the queue
//! has to wait, those behind it wait too, however small they are. Only requests that wait for another one to go ahead
//! ([`Scheduler::submit`]) are passed over until it has its first token.
//!
//! **Rows** of a step go to those that decode first, one each, in turns when there are more than rows; prompts share the
//! rest equally, so that each of them moves in every step in which rows are left. There is no prefill phase and no
//! decode phase: each sequence catches up with the tokens that it knows. A prompt that is about to compute the same
//! page as an older one waits for it and finds it in the cache.
//!
//! **Pages** are findable as soon as they are computed, and stay so when their request ends or is cancelled, until
//! their memory is wanted. What a failed step wrote is never among them.

mod disk;
mod rows;
mod running;
#[cfg(test)]
mod simulation;

use std::collections::{BTreeSet, HashSet, VecDeque};

use frank_models::KvGroup;

use self::rows::share_rows;
pub(crate) use self::running::{DiskBlock, Running};
use crate::kv_cache::KvCache;
use crate::prefix_cache::PageKey;

/// Names a request for as long as the scheduler lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RequestId(u64);

/// Sizes that do not change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) n_parallel: usize,
    pub(crate) n_queue: usize,
    /// Rows of one step.
    pub(crate) n_rows_max: usize,
}

/// What the scheduler has to know of a request.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    /// At least one token.
    pub(crate) prompt: Vec<u32>,
    /// At least 1; prompt and answer fit a context.
    pub(crate) max_tokens: usize,
    /// Whose pages it finds and adds to; `None` does neither.
    pub(crate) root: Option<PageKey>,
}

impl Job {
    fn n_tokens_max(&self) -> usize {
        self.prompt.len() + self.max_tokens
    }
}

#[derive(Debug)]
struct Queued {
    id: RequestId,
    job: Job,
    /// It gets no place before this one has its first token, or has ended.
    after: Option<RequestId>,
}

/// Something that has to be done to the KV cache of the model. The order matters, and all of it comes before the next
/// step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Make block `to` of `group` the same as `from`, for request `id`.
    Copy { id: RequestId, group: usize, from: u32, to: u32 },
}

/// Rows of one request in a step: its next `n_rows` tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StepRows {
    pub(crate) id: RequestId,
    /// Its place among [`Scheduler::running`] until the step is completed.
    pub(crate) place: usize,
    pub(crate) n_rows: usize,
    /// Of these, rows of the prompt.
    pub(crate) n_prompt_rows: usize,
    /// Whether the last row is the last known token, so that its logits give the next one.
    pub(crate) samples: bool,
    /// Whether the request had no rows in an earlier step.
    pub(crate) is_first: bool,
    /// Tokens that it has found in the cache so far.
    pub(crate) n_cached: usize,
}

/// What became of the rows of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowsOutcome {
    /// They are computed, and more of what is known follows.
    Read,
    /// They are computed and gave this token, after which the answer goes on.
    Token(u32),
    /// They are computed and the answer has ended.
    Ended,
    /// They could not be computed. The answer has ended.
    Failed,
}

/// As many requests wait as may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueFull;

/// Counts since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) n_steps: u64,
    /// Tokens of prompts that were looked for in the cache, of requests that have had rows.
    pub(crate) n_looked_up: u64,
    /// Of these, tokens found.
    pub(crate) n_found: u64,
}

/// The state of all requests and of all blocks.
#[derive(Debug)]
pub(crate) struct Scheduler {
    limits: Limits,
    kv: KvCache,
    queue: VecDeque<Queued>,
    /// Oldest first.
    running: Vec<Running>,
    /// Requests without a first token.
    starting: BTreeSet<RequestId>,
    actions: Vec<Action>,
    totals: Totals,
    n_submitted: u64,
}

impl Scheduler {
    /// Nothing queued, all blocks of `groups` free.
    pub(crate) fn new(limits: Limits, groups: &[KvGroup]) -> Self {
        Self {
            limits,
            kv: KvCache::new(groups, limits.n_rows_max),
            queue: VecDeque::new(),
            running: Vec::new(),
            starting: BTreeSet::new(),
            actions: Vec::new(),
            totals: Totals::default(),
            n_submitted: 0,
        }
    }

    /// Queues `jobs`, which get places in this order; the others wait until the first has its first token or has ended.
    ///
    /// # Errors
    /// [`QueueFull`] when not all of them may wait; none is queued then. A request that an idle place will take at once
    /// does not count as waiting.
    pub(crate) fn submit(&mut self, jobs: Vec<Job>) -> Result<Vec<RequestId>, QueueFull> {
        let idle = self.limits.n_parallel - self.running.len();
        if self.queue.len() + jobs.len() > self.limits.n_queue.saturating_add(idle) {
            return Err(QueueFull);
        }
        let first = RequestId(self.n_submitted);
        let queue = |job| {
            let id = RequestId(self.n_submitted);
            self.n_submitted += 1;
            self.starting.insert(id);
            self.queue.push_back(Queued { id, job, after: (id != first).then_some(first) });
            id
        };
        Ok(jobs.into_iter().map(queue).collect())
    }

    /// Forgets a request, whether it waits, runs or has ended.
    pub(crate) fn cancel(&mut self, id: RequestId) {
        self.queue.retain(|queued| queued.id != id);
        self.end(|running| running.id == id);
        self.starting.remove(&id);
    }

    /// Gives places to waiting requests, in order, and returns who got one.
    pub(crate) fn admit(&mut self) -> Vec<RequestId> {
        let mut admitted = Vec::new();
        while self.running.len() < self.limits.n_parallel
            && let Some(at) = self.queue.iter().position(|queued| self.may_start(queued))
            && self.kv.promise(self.queue[at].job.n_tokens_max())
            && let Some(Queued { id, job, .. }) = self.queue.remove(at)
        {
            let mut running = Running::new(id, job, self.kv.groups.len());
            running.catch_up(&mut self.kv, &mut self.actions);
            self.running.push(running);
            admitted.push(id);
        }
        admitted
    }

    fn may_start(&self, queued: &Queued) -> bool {
        queued.after.is_none_or(|leader| !self.starting.contains(&leader))
    }

    /// Chooses the rows of the next step and takes the blocks for them. [`Scheduler::complete`] must follow.
    pub(crate) fn plan(&mut self) -> Vec<StepRows> {
        for running in self.running.iter_mut().filter(|running| !running.is_restoring()) {
            if running.page_wanted().is_some_and(|key| self.kv.pages.find(&key).is_some()) {
                running.catch_up(&mut self.kv, &mut self.actions);
            }
        }
        let wanted = self.rows_wanted();
        #[expect(clippy::cast_possible_truncation, reason = "a rotation may wrap")]
        let rotation = self.totals.n_steps as usize;
        let shares = share_rows(&wanted, self.limits.n_rows_max, rotation);
        let mut rows = Vec::new();
        for (place, n_rows) in shares.into_iter().enumerate().filter(|(_, n_rows)| *n_rows > 0) {
            let running = &mut self.running[place];
            running.make_room(n_rows, &mut self.kv);
            running.count_found(&mut self.totals);
            rows.push(StepRows {
                id: running.id,
                place,
                n_rows,
                n_prompt_rows: n_rows.min(running.n_prompt.saturating_sub(running.n_computed)),
                samples: n_rows == running.n_behind(),
                is_first: !std::mem::replace(&mut running.is_started, true),
                n_cached: running.n_cached,
            });
        }
        rows
    }

    /// Rows that each running request could use now. None while an older one computes the same page, or while pages come
    /// from the disk.
    fn rows_wanted(&self) -> Vec<usize> {
        let mut in_work = HashSet::new();
        let wanted = |running: &Running| {
            let waits = running.page_wanted().is_some_and(|key| in_work.contains(&key));
            in_work.extend(running.next_key);
            if waits || running.is_restoring() { 0 } else { running.n_behind() }
        };
        self.running.iter().map(wanted).collect()
    }

    /// Takes the results of a step, one for each entry of `rows`.
    pub(crate) fn complete(&mut self, rows: &[StepRows], outcomes: &[RowsOutcome]) {
        self.totals.n_steps += 1;
        let mut ended = BTreeSet::new();
        for (rows, outcome) in rows.iter().zip(outcomes) {
            let running = &mut self.running[rows.place];
            if *outcome != RowsOutcome::Failed {
                running.advance(rows.n_rows, &mut self.kv);
            }
            match outcome {
                RowsOutcome::Read => continue,
                RowsOutcome::Token(token_id) => running.token_ids.push(*token_id),
                RowsOutcome::Ended | RowsOutcome::Failed => drop(ended.insert(rows.id)),
            }
            self.starting.remove(&rows.id);
        }
        self.end(|running| ended.contains(&running.id));
    }

    /// Takes the places of some requests from them.
    fn end(&mut self, ends: impl Fn(&Running) -> bool) {
        for running in self.running.extract_if(.., |running| ends(running)) {
            running.leave(&mut self.kv);
        }
    }

    /// What is to be done before the next step, in order.
    pub(crate) fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// Requests that have places, oldest first.
    pub(crate) fn running(&self) -> &[Running] {
        &self.running
    }

    /// Requests that wait.
    pub(crate) fn n_waiting(&self) -> usize {
        self.queue.len()
    }

    /// Blocks and pages.
    pub(crate) fn kv(&self) -> &KvCache {
        &self.kv
    }

    /// Counts since the start.
    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }
}
