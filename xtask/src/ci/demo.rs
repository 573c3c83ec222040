//! The demo as a newcomer runs it: once on an empty store, and once more where nothing can be fetched.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::cargo::{shown, target_dir};
use crate::server_process::tested_frank;

/// Far more than the demo takes, so that one which hangs is a failure and not a hung CI.
const TIME_MAX: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(100);

/// Runs the demo twice.
pub(super) fn run(root: &Path) -> Result<()> {
    let frank = tested_frank(root)?;
    // In the build folder, not in the temporary one: that may be memory.
    let scratch = tempfile::Builder::new().prefix("demo-").tempdir_in(target_dir()?)?;
    let demo = || {
        let mut command = Command::new(frank.get_program());
        command.args(["demo", "--once", "--port", "0"]);
        command.current_dir(root).env("XDG_DATA_HOME", scratch.path().join("data"));
        command
    };
    run_in_time(&mut demo()).context("on an empty store")?;
    // Without a PATH there is no python3, so the second run succeeds only when it fetches nothing.
    let no_programs = scratch.path().join("no-programs");
    run_in_time(demo().env("PATH", no_programs))
        .context("with the model in the store and no python3")
}

fn run_in_time(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    println!("$ {shown}");
    let start = Instant::now();
    let spawned = command.stdin(Stdio::null()).spawn();
    let mut child = spawned.with_context(|| format!("run {shown}"))?;
    loop {
        if let Some(status) = child.try_wait()? {
            return if status.success() { Ok(()) } else { bail!("{shown}: {status}") };
        }
        if start.elapsed() > TIME_MAX {
            child.kill()?;
            child.wait()?;
            bail!("{shown}: not done after {} s", TIME_MAX.as_secs());
        }
        thread::sleep(POLL);
    }
}
