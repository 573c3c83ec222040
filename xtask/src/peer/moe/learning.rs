//! What a warm start, ranking by earlier use and prefetching are worth: a server as it is by default, and with each switched
//! alone, in turns.

mod counters;

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::super::engines::THREADS;
use super::super::serving;
use super::capped::forget;
use crate::cargo::target_dir;
use crate::machine;
use crate::memory_group::MemoryGroup;
use crate::server_process::ServerProcess;
use crate::statistics::{Ratio, Spread};
use counters::Counters;

/// A memory budget that holds about half of the experts of the small real model.
const SMOL_BUDGET_BYTES: u64 = 150 << 20;
const CTX_SIZE: &str = "512";
/// Token ids of the vocabulary of all these models that stand for text.
const TEXT_IDS: std::ops::Range<u32> = 1_000..40_000;
/// Prompts of a run, and tokens of each and of its answer.
const RUN: (usize, usize, usize) = (3, 24, 48);
/// The same of what is learned from.
const LESSON: (usize, usize, usize) = (6, 48, 64);

/// With fewer rounds chance may put all of them on one side.
const VERDICT_ROUNDS_MIN: usize = 5;

/// What a server may hold.
#[derive(Debug, Clone, Copy)]
pub(super) enum Budget {
    /// Half of the file.
    Half,
    /// What the small real model is measured with.
    Smol,
}

/// A way to run it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    Default,
    /// What was learned also decides what stays in memory.
    Ranked,
    /// Nothing was learned.
    ColdStart,
    NoPrefetch,
}

impl Variant {
    const ALL: [Self; 4] = [Self::Default, Self::Ranked, Self::ColdStart, Self::NoPrefetch];

    fn name(self) -> &'static str {
        match self {
            Self::Default => "default: warm start and prefetch",
            Self::Ranked => "ranking too",
            Self::ColdStart => "no warm start",
            Self::NoPrefetch => "no prefetch",
        }
    }

    /// Whether it can do nothing else than the default where nothing was learned.
    fn wants_learned(self) -> bool {
        matches!(self, Self::Ranked | Self::ColdStart)
    }
}

/// Runs all variants in turns, and prints speed, shares of what a server counts about experts, and the gain or loss of
/// each thing that was switched off alone.
/// # Errors
/// A server does not start or answer.
pub(super) fn compare(frank: &Path, model: &Path, budget: Budget, rounds: u64) -> Result<()> {
    let subject = Subject::link(frank, model, budget)?;
    println!("\n{}, budget {:.0} MB", model.display(), subject.budget as f64 / 1e6);
    let mut variants: Vec<(Variant, Runs)> =
        subject.variants()?.into_iter().map(|variant| (variant, Runs::default())).collect();
    for round in 1..=rounds {
        println!("round {round}, {}", machine::load()?);
        for (variant, runs) in &mut variants {
            let (rate, counters) = subject.run(*variant, round)?;
            println!("  {}: {rate:.1} tok/s", variant.name());
            runs.note(rate, &counters);
        }
        // Each comes first and last in its turn.
        variants.rotate_left(1);
    }
    variants.sort_by_key(|(variant, _)| *variant != Variant::Default);
    variants.iter().for_each(|(variant, runs)| println!("{}: {}", variant.name(), runs.said()));
    if let Some(((_, default), others)) = variants.split_first() {
        others
            .iter()
            .for_each(|(variant, runs)| println!("{}", difference(*variant, default, runs)));
    }
    Ok(())
}

/// What the one thing is worth in which a variant differs from the default.
fn difference(variant: Variant, default: &Runs, runs: &Runs) -> String {
    let (default, rates) = (&default.rates, &runs.rates);
    match variant {
        Variant::Default => String::new(),
        Variant::Ranked => worth("ranking", rates, default),
        Variant::ColdStart => worth("warm start", default, rates),
        Variant::NoPrefetch => worth("prefetch", default, rates),
    }
}

/// What the runs of a variant came to, round by round.
#[derive(Debug, Default)]
struct Runs {
    rates: Vec<f64>,
    shares: BTreeMap<String, Vec<f64>>,
}

impl Runs {
    fn note(&mut self, rate: f64, counters: &Counters) {
        self.rates.push(rate);
        for (name, share) in counters.shares() {
            self.shares.entry(name).or_default().push(share);
        }
    }

    fn said(&self) -> String {
        let mut said =
            format!("decode {:.1} tok/s, n {}", Spread::of(&self.rates), self.rates.len());
        for (name, shares) in &self.shares {
            said += &format!("\n  {name} {:.1} %", Spread::of(shares).scaled(100.0));
        }
        said
    }
}

/// What one thing is worth: speed with it and without it, in turns.
fn worth(name: &str, with: &[f64], without: &[f64]) -> String {
    let ratio = Ratio::of(with, without);
    let (min, max) = ratio.by_round;
    let verdict = if with.len() < VERDICT_ROUNDS_MIN {
        "too few rounds to tell"
    } else if min > 1.0 {
        "a gain"
    } else if max < 1.0 {
        "a loss"
    } else {
        "within the spread"
    };
    let percent = 100.0 * (ratio.of_medians - 1.0);
    format!("{name}: {ratio} of the speed without it, n {}: {percent:+.0} %, {verdict}", with.len())
}

/// The model in a folder of its own, where a server leaves what it learns.
struct Subject<'a> {
    frank: &'a Path,
    _folder: tempfile::TempDir,
    path: PathBuf,
    budget: u64,
}

impl<'a> Subject<'a> {
    fn link(frank: &'a Path, model: &Path, budget: Budget) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("peer-moe-").tempdir_in(target_dir()?)?;
        let path = folder.path().join("moe.gguf");
        symlink(model, &path).with_context(|| format!("link {}", model.display()))?;
        let bytes = fs::metadata(model).with_context(|| format!("{}", model.display()))?.len();
        let budget = match budget {
            Budget::Half => bytes / 2,
            Budget::Smol => SMOL_BUDGET_BYTES,
        };
        Ok(Self { frank, path, budget, _folder: folder })
    }

    /// Those that this frank knows, once it has learned.
    fn variants(&self) -> Result<Vec<Variant>> {
        let server = ServerProcess::start(&mut self.serve(Variant::Default))?;
        answer(server.address, LESSON, 0)?;
        server.terminate()?;
        let learns = self.usage().is_file();
        if learns {
            fs::copy(self.usage(), self.learned()).context("keep what was learned")?;
        } else {
            println!("this frank leaves no {}: only prefetch is compared", self.usage().display());
        }
        let is_known = |variant: &Variant| learns || !variant.wants_learned();
        Ok(Variant::ALL.into_iter().filter(is_known).collect())
    }

    /// Decoding of one stream in tokens a second, and what was counted meanwhile.
    fn run(&self, variant: Variant, round: u64) -> Result<(f64, Counters)> {
        let (usage, learned) = (self.usage(), self.learned());
        if variant != Variant::ColdStart && learned.is_file() {
            fs::copy(&learned, &usage).context("bring what was learned")?;
        } else if usage.is_file() {
            fs::remove_file(&usage).context("forget what was learned")?;
        }
        forget(&self.path)?;
        let group = MemoryGroup::create(self.budget)?;
        let server = ServerProcess::start(&mut group.enter(&self.serve(variant)))?;
        answer(server.address, (1, 8, 8), u64::MAX)?;
        let before = Counters::of(server.address)?;
        let rate = answer(server.address, RUN, round)?;
        let counters = Counters::of(server.address)?.since(&before);
        server.terminate()?;
        Ok((rate, counters))
    }

    fn serve(&self, variant: Variant) -> Command {
        let mut command = Command::new(self.frank);
        let (budget, threads) = (self.budget.to_string(), THREADS.to_string());
        command.arg("serve").arg(&self.path).args(["--port", "0", "--parallel", "1"]);
        command.args(["--ctx-size", CTX_SIZE, "--memory-budget", &budget, "--threads", &threads]);
        match variant {
            Variant::Default | Variant::ColdStart => {}
            Variant::Ranked => {
                command.arg("--hotness").arg(self.learned());
            }
            Variant::NoPrefetch => {
                command.arg("--no-prefetch");
            }
        }
        command
    }

    /// Where a server leaves how often it used each expert.
    fn usage(&self) -> PathBuf {
        self.path.with_file_name("moe.gguf.frank-usage")
    }

    /// Where that is kept, so that every run begins with the same.
    fn learned(&self) -> PathBuf {
        self.path.with_file_name("learned")
    }
}

/// Median speed of answers to prompts that `seed` decides, one after the other.
fn answer(
    address: SocketAddr,
    (n, n_prompt, n_answer): (usize, usize, usize),
    seed: u64,
) -> Result<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut rates = Vec::with_capacity(n);
    for _ in 0..n {
        let prompt: Vec<u32> = (0..n_prompt).map(|_| rng.random_range(TEXT_IDS)).collect();
        rates.push(serving::ask(address, &prompt, n_answer)?.decode_rate());
    }
    Ok(Spread::of(&rates).median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_is_one_only_where_each_of_enough_rounds_shows_it() {
        let said = |with: &[f64]| worth("ranking", with, &[10.0; 5][..with.len()]);
        assert_eq!(
            said(&[11.0, 12.0, 12.0, 12.0, 13.0]),
            "ranking: 1.20 (1.10 to 1.30 by round) of the speed without it, n 5: +20 %, a gain"
        );
        assert!(said(&[9.0, 12.0, 12.0, 12.0, 13.0]).ends_with(": +20 %, within the spread"));
        assert!(said(&[9.0, 8.0, 9.0, 9.0, 9.5]).ends_with(": -10 %, a loss"));
        assert!(said(&[11.0, 12.0]).ends_with(": +15 %, too few rounds to tell"));
    }
}
