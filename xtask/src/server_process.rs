//! A server as a child process: started, awaited until it is ready, listened to, ended. Never restarts one.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::cargo::{PROFILE, cargo, execute, shown, target_dir};
use crate::http::Request;

/// How long a server may take to end once nothing runs.
const END_MAX: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);
/// How long a server may take to load its model.
const LOAD_MAX: Duration = Duration::from_secs(120);
/// How exactly the time to load is measured.
const HEALTH_POLL: Duration = Duration::from_millis(2);

/// Builds frank in a profile that has a name of its own, and returns a command that runs it.
pub(crate) fn built_frank(root: &Path, profile: &str) -> Result<Command> {
    execute(&mut cargo(root, &["build", "--profile", profile, "--package", "frank"])?)?;
    Ok(Command::new(target_dir()?.join(profile).join("frank")))
}

/// The program `frank` as the tests of the workspace are built with it: after the lane of the tests nothing is compiled.
/// Built by itself it would have dependencies with fewer features, which takes minutes.
pub(crate) fn tested_frank(root: &Path) -> Result<Command> {
    execute(&mut cargo(root, &["test", "--no-run", "--workspace", "--profile", PROFILE])?)?;
    Ok(Command::new(target_dir()?.join(PROFILE).join("frank")))
}

/// A server that is ready. Ends at once when it is dropped.
pub(crate) struct ServerProcess {
    child: KilledOnDrop,
    pub(crate) address: SocketAddr,
    said: Arc<Mutex<Vec<String>>>,
    listener: Option<JoinHandle<()>>,
}

struct KilledOnDrop(Child);

impl ServerProcess {
    /// Runs a command and waits for its line `ready on http://ADDRESS` on stderr.
    /// # Errors
    /// It could not be started, or it ended before it was ready; then with all that it said.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let (child, mut stderr) = spawn(command)?;
        let address = ready(&mut stderr).with_context(|| shown(command))?;
        Ok(Self::listening(child, stderr, address))
    }

    /// Runs a command that serves on `address`, and waits until `/health` says that it can answer. Returns how long
    /// that took.
    /// # Errors
    /// It could not be started, it ended before it was ready, then with all that it said, or it takes too long.
    pub(crate) fn start_on(command: &mut Command, address: SocketAddr) -> Result<(Self, Duration)> {
        let start = Instant::now();
        let (child, stderr) = spawn(command)?;
        let mut server = Self::listening(child, stderr, address);
        while !is_healthy(address) {
            if let Some(status) = server.child.0.try_wait()? {
                let said = server.heard()?;
                bail!("{}: {status} before it was ready\n{}", shown(command), said.join("\n"));
            }
            ensure!(start.elapsed() < LOAD_MAX, "{}: not ready in {LOAD_MAX:?}", shown(command));
            thread::sleep(HEALTH_POLL);
        }
        Ok((server, start.elapsed()))
    }

    fn listening(child: KilledOnDrop, stderr: BufReader<ChildStderr>, address: SocketAddr) -> Self {
        let said = Arc::default();
        let listener = thread::spawn({
            let said = Arc::clone(&said);
            move || listen(stderr, &said)
        });
        Self { child, address, said, listener: Some(listener) }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.0.id()
    }

    /// Asks it to end, and returns what it said since it was ready.
    /// # Errors
    /// It does not end in time, or not well.
    pub(crate) fn terminate(mut self) -> Result<Vec<String>> {
        // The standard library can only kill.
        execute(Command::new("kill").args(["-TERM", &self.id().to_string()]))?;
        let start = Instant::now();
        let status = loop {
            match self.child.0.try_wait()? {
                Some(status) => break status,
                None if start.elapsed() > END_MAX => {
                    bail!("the server has not ended {} s after SIGTERM", END_MAX.as_secs())
                }
                None => thread::sleep(POLL),
            }
        };
        let said = self.heard()?;
        if status.success() { Ok(said) } else { bail!("the server: {status}\n{}", said.join("\n")) }
    }

    /// What a server that has ended said since it was started or ready.
    fn heard(&mut self) -> Result<Vec<String>> {
        if let Some(listener) = self.listener.take() {
            listener.join().ok().context("the thread that listens to the server panicked")?;
        }
        Ok(std::mem::take(&mut *self.said.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        // Both fail when it has ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn spawn(command: &mut Command) -> Result<(KilledOnDrop, BufReader<ChildStderr>)> {
    let shown = shown(command);
    println!("$ {shown}");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("run {shown}"))?;
    let stderr = child.stderr.take().context("stderr is a pipe")?;
    Ok((KilledOnDrop(child), BufReader::new(stderr)))
}

fn is_healthy(address: SocketAddr) -> bool {
    Request::get("/health").reply(address).is_ok_and(|reply| reply.status == 200)
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
