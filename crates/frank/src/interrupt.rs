//! Ctrl-C of commands that compute without waiting for anything. Never cleans up: what outlives
//! the process is taken back by the work that noted the interruption.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

use crate::report::{Code, tell};

/// Ends the process with the exit code of an interruption at the next Ctrl-C.
///
/// # Errors
/// When the system gives no thread or no signal to wait for.
pub(crate) fn end_at_interrupt() -> anyhow::Result<()> {
    at_interrupt(|| {
        tell("error: interrupted");
        end();
    })
}

/// What the next Ctrl-C or SIGTERM sets, for work that has something to take back.
///
/// # Errors
/// As [`end_at_interrupt`].
pub(crate) fn note_interrupt() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&interrupted);
    at_interrupt(move || noted.store(true, Ordering::Relaxed))?;
    Ok(interrupted)
}

fn at_interrupt(then: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot listen for signals")?;
    let (mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        let listen = |kind| signal(kind).context("cannot listen for signals");
        (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?)
    };
    let wait = move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
        then();
    };
    std::thread::Builder::new()
        .name("frank-interrupt".to_owned())
        .spawn(wait)
        .context("cannot listen for signals")?;
    Ok(())
}

#[expect(clippy::exit, reason = "a step of a model cannot be broken off otherwise")]
fn end() -> ! {
    std::process::exit(Code::Interrupted as i32)
}
