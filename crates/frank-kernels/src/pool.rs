//! The compute pool: threads that share the tasks of one job at a time. Never allocates while a job runs.
//!
//! A worker that is late (parked, or its core was taken away) is not waited for: the job closes when all tasks
//! are done, and only workers that are inside it are waited for.

use std::cell::UnsafeCell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

/// How long a thread spins at a barrier before it parks. Cores are shared with other programs, so not longer.
const SPIN: Duration = Duration::from_micros(50);

/// Bits of [`Shared::state`]: the low half counts workers inside the job, then one bit says that it is closed,
/// and the rest is the number of the job.
const COUNT_MASK: u64 = (1 << 31) - 1;
const CLOSED: u64 = 1 << 31;
const JOB_SHIFT: u32 = 32;

/// A set of threads that run jobs together with the thread that calls [`Pool::run`].
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: AtomicU64,
    next_task: AtomicUsize,
    panicked: AtomicBool,
    stop: AtomicBool,
    job: UnsafeCell<Option<Job>>,
    /// One flag a worker: whether it is parked or about to park.
    parked: Vec<AtomicBool>,
}

#[derive(Debug, Clone)]
struct Job {
    task: *const (dyn Fn(usize) + Sync),
    n_tasks: usize,
    caller: Thread,
}

// SAFETY: `job` is written only by `Pool::run` while the state is closed with no worker inside, and read only by
// workers that entered an open job; the state orders the two. The task pointer is to a `Sync` closure.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Pool {
    /// A pool of `n_threads` threads, the caller of [`Pool::run`] included.
    ///
    /// # Panics
    /// When `n_threads` is 0 or the system gives no more threads.
    #[must_use]
    pub fn new(n_threads: usize) -> Self {
        Self::start(n_threads).expect("the system gives the process its compute threads")
    }

    /// [`Pool::new`] for a process that may have no more threads.
    ///
    /// # Errors
    /// What the system says when it gives fewer; those that it gave have ended then.
    ///
    /// # Panics
    /// When `n_threads` is 0.
    pub fn start(n_threads: usize) -> io::Result<Self> {
        assert!(n_threads >= 1, "a pool needs at least the calling thread");
        let shared = Arc::new(Shared {
            state: AtomicU64::new(CLOSED),
            next_task: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            job: UnsafeCell::new(None),
            parked: (1..n_threads).map(|_| AtomicBool::new(false)).collect(),
        });
        let mut pool = Self { shared, workers: Vec::with_capacity(n_threads - 1) };
        for index in 0..n_threads - 1 {
            let shared = Arc::clone(&pool.shared);
            let thread = std::thread::Builder::new().name(format!("frank-compute-{}", index + 1));
            pool.workers.push(thread.spawn(move || shared.work(index))?);
        }
        Ok(pool)
    }

    /// Threads that share a job, the caller included.
    #[must_use]
    pub fn n_threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `task(0) … task(n_tasks - 1)`, each once, on any thread, and returns when all have returned.
    ///
    /// # Panics
    /// When a task panicked.
    pub fn run(&mut self, n_tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        if n_tasks <= 1 || self.workers.is_empty() {
            (0..n_tasks).for_each(task);
            return;
        }
        self.open(n_tasks, task);
        let result = catch_unwind(AssertUnwindSafe(|| self.shared.take_tasks(task, n_tasks)));
        self.close();
        // Taken before the caller's own panic goes on: left behind, it would fail the next job.
        let worker_panicked = self.shared.panicked.swap(false, Ordering::Relaxed);
        if let Err(panic) = result {
            resume_unwind(panic);
        }
        assert!(!worker_panicked, "a compute task panicked");
    }

    fn open(&mut self, n_tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        let shared = &self.shared;
        // SAFETY: only the lifetime changes. `run` does not return before `close`, after which no worker holds it.
        let task: *const (dyn Fn(usize) + Sync) = unsafe {
            std::mem::transmute::<&(dyn Fn(usize) + Sync), &'static (dyn Fn(usize) + Sync)>(task)
        };
        let job = Job { task, n_tasks, caller: std::thread::current() };
        // SAFETY: the last job is closed and no worker is inside it, so nobody reads the cell now.
        unsafe { *shared.job.get() = Some(job) };
        shared.next_task.store(0, Ordering::Relaxed);
        let number = (shared.state.load(Ordering::Relaxed) >> JOB_SHIFT) + 1;
        shared.state.store(number << JOB_SHIFT, Ordering::SeqCst);
        for (parked, worker) in shared.parked.iter().zip(&self.workers) {
            if parked.load(Ordering::SeqCst) {
                worker.thread().unpark();
            }
        }
    }

    fn close(&mut self) {
        let shared = &self.shared;
        shared.state.fetch_or(CLOSED, Ordering::SeqCst);
        let started = Instant::now();
        while shared.state.load(Ordering::Acquire) & COUNT_MASK > 0 {
            if started.elapsed() < SPIN {
                std::hint::spin_loop();
            } else {
                // The last worker to leave a closed job unparks the caller.
                std::thread::park();
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            // A worker catches the panics of its tasks, so it ends well.
            drop(worker.join());
        }
    }
}

impl Shared {
    /// The life of worker `index`.
    fn work(&self, index: usize) {
        let mut last_job = 0;
        let mut idle_since = Instant::now();
        while !self.stop.load(Ordering::Acquire) {
            let state = self.state.load(Ordering::Acquire);
            let number = state >> JOB_SHIFT;
            if number != last_job && state & CLOSED == 0 {
                if self.enter(state) {
                    last_job = number;
                    self.take_part();
                    idle_since = Instant::now();
                }
            } else if idle_since.elapsed() < SPIN {
                std::hint::spin_loop();
            } else {
                self.park(index, state);
                idle_since = Instant::now();
            }
        }
    }

    fn enter(&self, state: u64) -> bool {
        self.state.compare_exchange(state, state + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Takes tasks of the job that this worker has entered, then leaves it.
    fn take_part(&self) {
        // SAFETY: this worker is counted inside an open job, so `run` does not write the cell.
        let job = unsafe { (*self.job.get()).clone() };
        let Job { task, n_tasks, caller } = job.expect("an open job is set");
        // SAFETY: the closure outlives the job, see `open`.
        let task = unsafe { &*task };
        if catch_unwind(AssertUnwindSafe(|| self.take_tasks(task, n_tasks))).is_err() {
            self.panicked.store(true, Ordering::Relaxed);
        }
        let before = self.state.fetch_sub(1, Ordering::AcqRel);
        if before & CLOSED != 0 && before & COUNT_MASK == 1 {
            caller.unpark();
        }
    }

    fn take_tasks(&self, task: &(dyn Fn(usize) + Sync), n_tasks: usize) {
        loop {
            let index = self.next_task.fetch_add(1, Ordering::Relaxed);
            if index >= n_tasks {
                return;
            }
            task(index);
        }
    }

    /// Parks unless the state has changed since it was read: a caller looks at the flag after it opens a job.
    fn park(&self, index: usize, state: u64) {
        self.parked[index].store(true, Ordering::SeqCst);
        let same_job = self.state.load(Ordering::SeqCst) >> JOB_SHIFT == state >> JOB_SHIFT;
        if same_job && !self.stop.load(Ordering::SeqCst) {
            std::thread::park();
        }
        self.parked[index].store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_runs_exactly_once() {
        for n_threads in [1, 2, 5] {
            let mut pool = Pool::new(n_threads);
            for n_tasks in [0, 1, 2, 7, 1000] {
                let counts: Vec<AtomicUsize> = (0..n_tasks).map(|_| AtomicUsize::new(0)).collect();
                pool.run(n_tasks, &|i| {
                    counts[i].fetch_add(1, Ordering::Relaxed);
                });
                assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn thousands_of_small_jobs_follow_each_other_without_a_lost_one() {
        let mut pool = Pool::new(3);
        let sum = AtomicUsize::new(0);
        for _ in 0..20_000 {
            pool.run(3, &|i| {
                sum.fetch_add(i, Ordering::Relaxed);
            });
        }
        assert_eq!(sum.load(Ordering::Relaxed), 60_000);
    }

    #[test]
    fn a_panic_in_a_task_reaches_the_caller_and_the_pool_lives_on() {
        let mut pool = Pool::new(2);
        let result =
            catch_unwind(AssertUnwindSafe(|| pool.run(8, &|i| assert!(i != 5, "task {i}"))));
        assert!(result.is_err());
        let count = AtomicUsize::new(0);
        pool.run(8, &|_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(count.load(Ordering::Relaxed), 8);
    }

    #[test]
    fn a_job_after_one_that_panicked_on_every_thread_does_not_panic() {
        let mut pool = Pool::new(2);
        // Each of the two tasks waits for the other, so that both threads have one.
        let both = std::sync::Barrier::new(2);
        let task = |i: usize| {
            both.wait();
            panic!("task {i}, expected in this test");
        };
        assert!(catch_unwind(AssertUnwindSafe(|| pool.run(2, &task))).is_err());
        pool.run(2, &|_| {});
    }
}
