//! What is said where the system gives the process no more threads. Never starts one that stays.

use frank_hub::FailureKind;
use frank_models::LoadError;

use crate::report::{Code, Failure, known};

/// Where limits of threads are.
const LIMITS: &str =
    "more are allowed with ulimit -u, TasksMax of systemd, or pids.max of a cgroup";

/// Threads that an engine needs beside those that compute: the step loop, and what reads and writes prefixes.
pub(crate) const ENGINE_THREADS: usize = 2;

/// Refuses to go on where the system does not give `n` threads now. They are started later, by what cannot do without.
pub(crate) fn check_threads(n: usize) -> anyhow::Result<()> {
    frank_os::spare_threads(n).map_err(|error| {
        let failure = Failure::new(Code::Failed, format!("cannot start {n} threads"));
        anyhow::Error::new(error).context(failure.hint(LIMITS))
    })
}

/// The error of a model whose threads that compute are not given.
pub(crate) fn of_compute(error: LoadError) -> anyhow::Error {
    known(error, FailureKind::Failed, Some(format!("--threads 1 needs none; {LIMITS}")))
}
