//! Whether the system still gives threads. Never keeps one.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Whether this process may have `n` more threads at once: starts them, and ends them when the last is there.
///
/// Another process of the same user or group may take them before they are used.
///
/// # Errors
/// What the system said to the first that it did not give.
pub fn spare_threads(n: usize) -> io::Result<()> {
    let gate = Mutex::new(());
    let pass = || drop(gate.lock().unwrap_or_else(PoisonError::into_inner));
    thread::scope(|scope| {
        let closed = gate.lock().unwrap_or_else(PoisonError::into_inner);
        let start = || thread::Builder::new().spawn_scoped(scope, pass).map(drop);
        let started = (0..n).try_for_each(|_| start());
        drop(closed);
        started
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_threads_are_there_and_end() {
        for n in [0, 1, 20] {
            spare_threads(n).unwrap();
        }
        let threads = std::fs::read_dir("/proc/self/task").unwrap().count();
        assert!(threads < 20, "{threads} are left");
    }
}
