//! Mixed traffic against a running endpoint for a while: nothing gets lost, stuck or larger.

mod aftermath;
mod alone;
mod client;
pub(crate) mod memory;
mod moe;
mod tally;
mod traffic;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use frank_testkit::assets;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use crate::cargo::{shown, target_dir};
use crate::install;
use crate::server_process::{ServerProcess, built_frank, tested_frank};
use memory::Memory;
use moe::MoeSoak;
use tally::Tally;
use traffic::{API_KEYS, CTX_SIZE, Question, Turn};

/// Requests that the server answers at the same time.
const PARALLEL: usize = 4;

/// How a soak runs.
#[derive(Debug, Args)]
pub(crate) struct Soak {
    /// Seconds of traffic [default: 1800, or 600 for each of the two limits of --moe]
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,
    /// Clients that ask at the same time
    #[arg(long, value_name = "N", default_value_t = 8)]
    streams: usize,
    /// Decides what the clients ask [default: another one each time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// A mixture of experts of twice its memory budget, in control groups that count its memory
    #[arg(long, conflicts_with = "streams")]
    moe: bool,
}

/// Seconds of traffic unless said otherwise.
const SECONDS: u64 = 1800;
/// The same with `--moe`, for both limits together.
const MOE_SECONDS: u64 = 1200;
/// Seconds of either soak in CI.
const CI_SECONDS: u64 = 60;

/// Both soaks of CI at the same time: a minute, with the binary that the other lanes have built. It checks overflows and
/// assertions, which a release build does not, and saves CI the time to build one. Neither measures a speed.
/// # Errors
/// Names everything that broke.
pub(crate) fn run_in_ci(root: &Path) -> Result<()> {
    install::all()?;
    let frank = tested_frank(root)?;
    let soak = |moe| Soak { seconds: Some(CI_SECONDS), streams: 8, seed: None, moe };
    thread::scope(|scope| {
        let of_experts = scope.spawn(|| soak(true).soak(&frank));
        let dense = soak(false).soak(&frank);
        let of_experts = of_experts.join().expect("a soak returns").context("--moe");
        match (dense, of_experts) {
            (Err(dense), Err(of_experts)) => bail!("{dense:#}\n{of_experts:#}"),
            (dense, of_experts) => dense.and(of_experts),
        }
    })
}

impl Soak {
    /// Builds and serves, lets clients ask, and checks what they got and what is left afterwards.
    /// # Errors
    /// Names everything that broke.
    pub(crate) fn run(&self, root: &Path) -> Result<()> {
        install::all()?;
        self.soak(&built_frank(root, "release")?)
    }

    fn soak(&self, frank: &Command) -> Result<()> {
        let seed = self.seed.unwrap_or_else(clock_seed);
        if self.moe {
            let seconds = self.seconds.unwrap_or(MOE_SECONDS);
            return MoeSoak { seconds, seed }.run(Path::new(frank.get_program()));
        }
        self.soak_dense(frank, seed)
    }

    fn soak_dense(&self, frank: &Command, seed: u64) -> Result<()> {
        let planned_bytes = planned_bytes(frank)?;
        let seconds = self.seconds.unwrap_or(SECONDS);
        println!("soak --seconds {seconds} --streams {} --seed {seed}", self.streams);
        let server = serve(frank)?;
        let questions = alone::answered(server.address, &mut ChaCha8Rng::seed_from_u64(seed))
            .context("ask what the server answers when nothing else runs")?;
        let (tally, memory) = self.let_them_ask(&server, &questions, seed, seconds);
        println!("{tally}");
        let mut broken = tally.failures;
        broken.extend(alone::answered_otherwise(server.address, &questions));
        broken.extend(aftermath::check(server, &memory, planned_bytes));
        if broken.is_empty() {
            println!("nothing broke");
            return Ok(());
        }
        bail!("{} things broke, --seed {seed}:\n{}", broken.len(), broken.join("\n"))
    }

    /// Lets all clients ask until the time is over, or too much broke.
    fn let_them_ask(
        &self,
        server: &ServerProcess,
        questions: &[Question],
        seed: u64,
        seconds: u64,
    ) -> (Tally, Memory) {
        let until = Instant::now() + Duration::from_secs(seconds);
        let tally = Mutex::new(Tally::default());
        let memory = thread::scope(|scope| {
            for stream in 1..=self.streams {
                let tally = &tally;
                scope.spawn(move || {
                    let mut rng = ChaCha8Rng::seed_from_u64(seed);
                    rng.set_stream(stream as u64);
                    ask(server, questions, &mut rng, until, tally, stream);
                });
            }
            Memory::watch(server.id(), || lock(&tally).goes_on(until))
        });
        (tally.into_inner().unwrap_or_else(PoisonError::into_inner), memory)
    }
}

fn lock(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets one client ask until the time is over, or too much broke.
fn ask(
    server: &ServerProcess,
    questions: &[Question],
    rng: &mut ChaCha8Rng,
    until: Instant,
    tally: &Mutex<Tally>,
    stream: usize,
) {
    for n in 1.. {
        let turn = traffic::turn(rng, questions, API_KEYS[stream % API_KEYS.len()]);
        let taken = client::take(&turn, server.address);
        let mut tally = lock(tally);
        tally.count(&turn);
        if let Err(error) = taken {
            let Turn { request, reading, .. } = &turn;
            let failure =
                format!("stream {stream}, request {n}: {reading:?} {request:?}: {error:#}");
            println!("{failure}");
            tally.failures.push(failure);
        }
        if !tally.goes_on(until) {
            return;
        }
    }
}

/// Options that decide how much memory is planned.
fn size_options() -> [String; 4] {
    ["--ctx-size".into(), CTX_SIZE.to_string(), "--parallel".into(), PARALLEL.to_string()]
}

fn serve(frank: &Command) -> Result<ServerProcess> {
    let folder = tempfile::Builder::new().prefix("soak-").tempdir_in(target_dir()?)?;
    let keys = folder.path().join("keys");
    fs::write(&keys, API_KEYS.join("\n")).with_context(|| format!("write {}", keys.display()))?;
    let mut command = Command::new(frank.get_program());
    command.arg("serve").arg(assets::smollm2()).args(["--port", "0"]).args(size_options());
    ServerProcess::start(command.arg("--api-key-file").arg(&keys))
}

/// Bytes that `frank fit` plans for what [`serve`] serves.
fn planned_bytes(frank: &Command) -> Result<u64> {
    let mut command = Command::new(frank.get_program());
    command.args(["fit", "--json"]).arg(assets::smollm2()).args(size_options());
    let output = command.output().with_context(|| format!("run {}", shown(&command)))?;
    ensure!(output.status.success(), "{}: {}", shown(&command), output.status);
    let plan: Value = serde_json::from_slice(&output.stdout).context("the plan")?;
    plan.pointer("/devices/0/used").and_then(Value::as_u64).context("used bytes in the plan")
}

fn clock_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_secs()
}
