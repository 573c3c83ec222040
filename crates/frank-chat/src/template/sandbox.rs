//! Where template work runs: a thread with a stack as deep as the work may recurse, and a deadline.
//!
//! Fuel stops nearly all endless work. It does not count what the engine visits when it compares or prints a
//! list that holds itself many times over. Such a thread cannot be stopped, so it is left behind, and no
//! further work is taken until it has ended. What it prints into meanwhile grows: only the deadline of the request
//! is bounded there, not memory.

use std::io::{self, Write};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::error::TemplateError;

/// Far above what fuel allows, so that a busy machine does not meet it.
const DEADLINE: Duration = Duration::from_secs(10);

/// Runs work that may recurse deeply or never end.
#[derive(Debug, Default)]
pub(super) struct Sandbox {
    left_behind: Mutex<Option<JoinHandle<()>>>,
}

impl Sandbox {
    /// The result of `work`, run on a thread with `stack_bytes` of stack.
    pub(super) fn run<T: Send + 'static>(
        &self,
        stack_bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, TemplateError> {
        self.run_within(DEADLINE, stack_bytes, work)
    }

    fn run_within<T: Send + 'static>(
        &self,
        deadline: Duration,
        stack_bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, TemplateError> {
        if self.left_behind().as_ref().is_some_and(|thread| !thread.is_finished()) {
            return Err(TemplateError::Overtime);
        }
        let (sender, result) = channel();
        let thread = thread::Builder::new()
            .name("chat-template".to_owned())
            .stack_size(stack_bytes)
            .spawn(move || {
                // Nobody listens any more when the deadline has passed.
                drop(sender.send(work()));
            })
            .map_err(TemplateError::NoThread)?;
        match result.recv_timeout(deadline) {
            Ok(value) => Ok(value),
            Err(RecvTimeoutError::Disconnected) => Err(TemplateError::EngineFailed),
            Err(RecvTimeoutError::Timeout) => {
                *self.left_behind() = Some(thread);
                Err(TemplateError::Overtime)
            }
        }
    }

    fn left_behind(&self) -> std::sync::MutexGuard<'_, Option<JoinHandle<()>>> {
        self.left_behind.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Collects what a template writes, up to a limit.
pub(super) struct CappedWriter {
    bytes: Vec<u8>,
    limit: usize,
    full: bool,
}

impl CappedWriter {
    pub(super) fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit, full: false }
    }

    /// Whether a write went over the limit.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    pub(super) fn into_text(self) -> String {
        String::from_utf8(self.bytes).expect("the engine writes whole strings")
    }
}

impl Write for CappedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.limit - self.bytes.len() {
            self.full = true;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_does_not_end_is_left_behind_and_blocks_further_work_until_it_has_ended() {
        let sandbox = Sandbox::default();
        let (release, wait) = channel::<()>();
        let endless = move || wait.recv().is_ok();
        let outcome = sandbox.run_within(Duration::ZERO, 1 << 16, endless);
        assert!(matches!(outcome, Err(TemplateError::Overtime)));
        assert!(matches!(sandbox.run(1 << 16, || 1), Err(TemplateError::Overtime)));
        drop(release);
        let thread = sandbox.left_behind().take().expect("the thread was left behind");
        thread.join().unwrap();
        assert_eq!(sandbox.run(1 << 16, || 1).unwrap(), 1);
    }

    #[test]
    fn a_panic_is_an_error() {
        let outcome = Sandbox::default().run(1 << 16, || panic!("expected in this test"));
        assert!(matches!(outcome, Err::<(), _>(TemplateError::EngineFailed)));
    }

    #[test]
    fn output_ends_at_the_limit() {
        let mut writer = CappedWriter::new(3);
        assert!(writer.write_all(b"ab").is_ok());
        assert!(writer.write_all(b"cd").is_err());
        assert!(writer.is_full());
        assert_eq!(writer.into_text(), "ab");
    }
}
