//! A server as a child process: started, awaited until it is ready, listened to, ended. Never restarts one.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::cargo::{cargo, execute, shown, target_dir};

/// How long a server may take to end once nothing runs.
const END_MAX: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

/// Builds frank in the release profile and returns a command that runs it.
pub(crate) fn release_frank(root: &Path) -> Result<Command> {
    execute(&mut cargo(root, &["build", "--release", "--package", "frank"])?)?;
    Ok(Command::new(target_dir()?.join("release/frank")))
}

/// A server that is ready. Ends at once when it is dropped.
pub(crate) struct ServerProcess {
    child: Child,
    pub(crate) address: SocketAddr,
    said: Arc<Mutex<Vec<String>>>,
    listener: Option<JoinHandle<()>>,
}

impl ServerProcess {
    /// Runs a command and waits for its line `ready on http://ADDRESS` on stderr.
    /// # Errors
    /// It could not be started, or it ended before it was ready; then with all that it said.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let shown = shown(command);
        println!("$ {shown}");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("run {shown}"))?;
        let mut stderr = BufReader::new(child.stderr.take().context("stderr is a pipe")?);
        let address = match ready(&mut stderr) {
            Ok(address) => address,
            Err(error) => {
                // It fails when the program has ended already.
                drop(child.kill());
                child.wait()?;
                return Err(error).context(shown);
            }
        };
        let said = Arc::default();
        let listener = thread::spawn({
            let said = Arc::clone(&said);
            move || listen(stderr, &said)
        });
        Ok(Self { child, address, said, listener: Some(listener) })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end, and returns what it said since it was ready.
    /// # Errors
    /// It does not end in time, or not well.
    pub(crate) fn terminate(mut self) -> Result<Vec<String>> {
        // The standard library can only kill.
        execute(Command::new("kill").args(["-TERM", &self.id().to_string()]))?;
        let start = Instant::now();
        let status = loop {
            match self.child.try_wait()? {
                Some(status) => break status,
                None if start.elapsed() > END_MAX => {
                    bail!("the server has not ended {} s after SIGTERM", END_MAX.as_secs())
                }
                None => thread::sleep(POLL),
            }
        };
        if let Some(listener) = self.listener.take() {
            listener.join().ok().context("the thread that listens to the server panicked")?;
        }
        let said = std::mem::take(&mut *self.said.lock().unwrap_or_else(PoisonError::into_inner));
        if status.success() { Ok(said) } else { bail!("the server: {status}\n{}", said.join("\n")) }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Both fail when it has ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn ready(stderr: &mut BufReader<ChildStderr>) -> Result<SocketAddr> {
    let mut said = String::new();
    for line in stderr.lines() {
        let line = line?;
        if let Some(address) = line.strip_prefix("ready on http://") {
            return address.parse().with_context(|| format!("the address {address}"));
        }
        said.extend([&line, "\n"]);
    }
    bail!("ended before it was ready:\n{said}")
}

/// Keeps every line, so that the pipe never fills.
fn listen(stderr: BufReader<ChildStderr>, said: &Mutex<Vec<String>>) {
    for line in stderr.lines().map_while(Result::ok) {
        said.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}
