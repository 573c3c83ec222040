//! Ctrl-C of commands that compute without waiting for anything. Never lets them clean up: nothing of theirs outlives
//! the process.

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

use crate::report::{Code, tell};

/// Ends the process with the exit code of an interruption at the next Ctrl-C.
///
/// # Errors
/// When the system gives no thread or no signal to wait for.
pub(crate) fn end_at_interrupt() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot listen for signals")?;
    let mut interrupt = {
        let _inside = runtime.enter();
        signal(SignalKind::interrupt()).context("cannot listen for signals")?
    };
    let wait = move || {
        if runtime.block_on(interrupt.recv()).is_some() {
            tell("error: interrupted");
            end();
        }
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
