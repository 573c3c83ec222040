//! A mixture of experts that is larger than what it may hold, inside a control group, under traffic that changes its topic:
//! the budget is a cap, and the answers are those of a server that holds everything.

mod cap;
mod kinds;
mod topics;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use frank_os::DataFile;
use frank_testkit::assets;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use super::memory::{mib, page_table_bytes, peak_bytes};
use crate::cargo::target_dir;
use crate::memory_group::MemoryGroup;
use crate::server_process::ServerProcess;
use cap::{CAPS, Cap};
use kinds::Kinds;
use topics::{Question, STREAMS_MAX};

/// Tokens of a request at most, prompt and answer.
const CTX_SIZE: usize = 512;
/// How often health and metrics are asked for.
const WATCH_EVERY: Duration = Duration::from_millis(250);
/// A server that broke so often says nothing new any more.
const FAILURES_MAX: usize = 20;

/// A soak of half of a model.
pub(super) struct MoeSoak {
    /// Of traffic, for all caps together.
    pub(super) seconds: u64,
    pub(super) seed: u64,
}

/// The model in a folder of its own, where a server may leave what it learns.
struct Subject {
    folder: tempfile::TempDir,
    path: PathBuf,
    budget: u64,
}

impl MoeSoak {
    /// Serves under each cap, and checks what was answered and held.
    /// # Errors
    /// Names everything that broke.
    pub(super) fn run(&self, frank: &Path) -> Result<()> {
        println!("soak --moe --seconds {} --seed {}", self.seconds, self.seed);
        let subject = Subject::link(&assets::synthetic_moe())?;
        let mut questions = topics::questions(&mut ChaCha8Rng::seed_from_u64(self.seed));
        let resident = ServerProcess::start(&mut subject.serve(frank, None))?;
        questions.iter_mut().try_for_each(|question| question.learn(resident.address))?;
        resident.terminate()?;
        let mut broken = Vec::new();
        for cap in &CAPS {
            let under = self.under(cap, frank, &subject, &questions);
            broken.extend(under.with_context(|| cap.name.to_owned())?);
        }
        if broken.is_empty() {
            println!("nothing broke");
            return Ok(());
        }
        bail!("{} things broke, --moe --seed {}:\n{}", broken.len(), self.seed, broken.join("\n"))
    }

    /// Serves under one cap, and returns what broke.
    fn under(
        &self,
        cap: &Cap,
        frank: &Path,
        subject: &Subject,
        questions: &[Question],
    ) -> Result<Vec<String>> {
        println!("\n{}: budget {:.1} MiB", cap.name, mib(subject.budget as f64));
        let group = subject.capped(cap)?;
        let mut serve = subject.serve(frank, Some(subject.budget));
        if let Some(group) = &group {
            serve = group.enter(&serve);
        }
        let server = ServerProcess::start(&mut serve)?;
        let ready = group.as_ref().map(MemoryGroup::usage).transpose()?;
        let mut broken = self.traffic(&server, questions, group.as_ref());
        let peak = peak_bytes(server.id());
        if let Ok(bytes) = page_table_bytes(server.id()) {
            println!("page tables of the process: {:.1} MiB", mib(bytes as f64));
        }
        topics::print_expert_metrics(server.address);
        match server.terminate() {
            Ok(said) => broken.extend(said.into_iter().map(|line| format!("it said: {line}"))),
            Err(error) => broken.push(format!("{error:#}")),
        }
        let end = group.as_ref().map(MemoryGroup::usage).transpose()?;
        match (ready.zip(end), peak) {
            (Some((ready, end)), _) => broken.extend(cap.check(subject.budget, ready, end)),
            (None, Ok(peak)) => broken.extend(cap::check_process(subject.budget, peak)),
            (None, Err(error)) => broken.push(format!("the server is gone: {error:#}")),
        }
        Ok(broken.into_iter().map(|what| format!("{}: {what}", cap.name)).collect())
    }

    /// Lets clients ask in turns until the time is over, while somebody watches.
    fn traffic(
        &self,
        server: &ServerProcess,
        questions: &[Question],
        group: Option<&MemoryGroup>,
    ) -> Vec<String> {
        let until = Instant::now() + Duration::from_secs(self.seconds) / CAPS.len() as u32;
        thread::scope(|scope| {
            let watcher = scope.spawn(|| watch(server, group, until));
            let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
            let mut failures = Vec::new();
            let mut n_requests = 0;
            for turn in 0.. {
                if Instant::now() >= until || failures.len() >= FAILURES_MAX {
                    break;
                }
                let (asked, broken) = topics::take_turn(server.address, turn, questions, &mut rng);
                n_requests += asked;
                failures.extend(broken);
            }
            println!("{n_requests} answers, {} failures", failures.len());
            failures.extend(watcher.join().expect("the watcher returns"));
            failures
        })
    }
}

/// Asks for health and metrics, and notes what the group holds, until the time is over. Prints what was held and returns
/// what broke.
fn watch(server: &ServerProcess, group: Option<&MemoryGroup>, until: Instant) -> Vec<String> {
    let mut failures = Vec::new();
    let mut kinds = Kinds::default();
    while Instant::now() < until && failures.len() < FAILURES_MAX {
        match group.map(MemoryGroup::held).transpose() {
            Ok(held) => held.into_iter().for_each(|held| kinds.note(held)),
            Err(error) => failures.push(format!("{error:#}")),
        }
        failures.extend(topics::watch(server.address));
        thread::sleep(WATCH_EVERY);
    }
    kinds.lines().for_each(|line| println!("{line}"));
    failures
}

impl Subject {
    /// Half of the file may be held.
    fn link(model: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("soak-moe-").tempdir_in(target_dir()?)?;
        let path = folder.path().join("moe.gguf");
        symlink(model, &path).with_context(|| format!("link {}", model.display()))?;
        let bytes = fs::metadata(model).with_context(|| format!("{}", model.display()))?.len();
        Ok(Self { path, budget: bytes / 2, folder })
    }

    /// A group with the limit of this cap; `None` where none can be made, which is said.
    fn capped(&self, cap: &Cap) -> Result<Option<MemoryGroup>> {
        // Pages that others have read are not counted to the group, and would make it easy.
        let file = DataFile::open(&self.path)?;
        file.forget_cached(0, file.len());
        let group = MemoryGroup::create(cap.times_budget * self.budget);
        Ok(group.inspect_err(|error| println!("only the process is watched: {error:#}")).ok())
    }

    fn serve(&self, frank: &Path, budget: Option<u64>) -> Command {
        let mut command = Command::new(frank);
        let [ctx_size, parallel] = [CTX_SIZE, STREAMS_MAX].map(|number| number.to_string());
        command.arg("serve").arg(&self.path).args(["--port", "0", "--ctx-size", &ctx_size]);
        command.args(["--parallel", &parallel]).current_dir(self.folder.path());
        if let Some(budget) = budget {
            command.args(["--memory-budget", &budget.to_string()]);
        }
        command
    }
}
