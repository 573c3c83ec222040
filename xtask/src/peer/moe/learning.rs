//! What ranking by earlier use and prefetching are worth: a server with both, and with each switched off alone, in turns.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::super::engines::{THREADS, text};
use super::super::serving;
use super::bench::forget;
use crate::cargo::target_dir;
use crate::http::Request;
use crate::machine;
use crate::memory_group::MemoryGroup;
use crate::server_process::ServerProcess;
use crate::statistics::Spread;

/// A memory budget that holds about half of the experts of the small real model.
const SMOL_BUDGET_BYTES: u64 = 150 << 20;
const CTX_SIZE: &str = "512";
/// Token ids of the vocabulary of all these models that stand for text.
const TEXT_IDS: std::ops::Range<u32> = 1_000..40_000;
/// Prompts of a run, and tokens of each and of its answer.
const RUN: (usize, usize, usize) = (3, 24, 48);
/// The same of what is learned from.
const LESSON: (usize, usize, usize) = (6, 48, 64);
const SWITCH: &str = "--no-prefetch";
const HITS: &str = "frank_expert_hits_total";
const MISSES: &str = "frank_expert_misses_total";
const METRICS: [&str; 2] = ["frank_expert", "frank_prefetch"];

/// What a server may hold.
#[derive(Debug, Clone, Copy)]
pub(super) enum Budget {
    /// Half of the file.
    Half,
    /// What the small real model is measured with.
    Smol,
}

/// A way to run it.
#[derive(Debug, Clone, Copy)]
struct Variant {
    name: &'static str,
    ranking: bool,
    prefetch: bool,
}

const VARIANTS: [Variant; 3] = [
    Variant { name: "ranking and prefetch", ranking: true, prefetch: true },
    Variant { name: "no ranking", ranking: false, prefetch: true },
    Variant { name: "no prefetch", ranking: true, prefetch: false },
];

/// Runs all variants in turns, and prints speed, hit rate and what else a server counts about experts.
/// # Errors
/// A server does not start or answer.
pub(super) fn compare(frank: &Path, model: &Path, budget: Budget, rounds: u64) -> Result<()> {
    let subject = Subject::link(frank, model, budget)?;
    println!("\n{}, budget {:.0} MB", model.display(), subject.budget as f64 / 1e6);
    let variants = subject.variants()?;
    let mut runs: Vec<Runs> = variants.iter().map(|_| Runs::default()).collect();
    for round in 1..=rounds {
        let mut order: Vec<usize> = (0..variants.len()).collect();
        order.rotate_left(round as usize % variants.len());
        for index in order {
            let (rate, counters) = subject.run(variants[index], round)?;
            println!(
                "  round {round}, {}: {rate:.1} tok/s, {}",
                variants[index].name,
                machine::load()?
            );
            runs[index].note(rate, &counters);
        }
    }
    for (variant, runs) in variants.iter().zip(&runs) {
        println!("{}: {}", variant.name, runs.said());
    }
    Ok(())
}

/// What the runs of a variant came to.
#[derive(Debug, Default)]
struct Runs {
    rates: Vec<f64>,
    hit_rates: Vec<f64>,
    counters: BTreeMap<String, f64>,
}

impl Runs {
    fn note(&mut self, rate: f64, counters: &BTreeMap<String, f64>) {
        self.rates.push(rate);
        self.hit_rates.extend(hit_rate(counters));
        for (name, value) in counters {
            *self.counters.entry(name.clone()).or_default() += value;
        }
    }

    fn said(&self) -> String {
        let n = self.rates.len();
        let mut said = format!("decode {:.1} tok/s, n {n}", Spread::of(&self.rates));
        if !self.hit_rates.is_empty() {
            said += &format!(", hit rate {:.1} %", Spread::of(&self.hit_rates).scaled(100.0));
        }
        for (name, value) in &self.counters {
            said += &format!("\n  {name} {:.1} a run", value / n as f64);
        }
        said
    }
}

fn hit_rate(counters: &BTreeMap<String, f64>) -> Option<f64> {
    let sum = |stem: &str| -> f64 {
        let of_stem = counters.iter().filter(|(name, _)| name.split('{').next() == Some(stem));
        of_stem.map(|(_, value)| value).sum()
    };
    let (hits, misses) = (sum(HITS), sum(MISSES));
    (hits + misses > 0.0).then(|| hits / (hits + misses))
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
        let server = self.start(VARIANTS[0])?;
        answer(server.address, LESSON, 0)?;
        server.terminate()?;
        let learns = self.usage().is_file();
        if learns {
            fs::copy(self.usage(), self.learned()).context("keep what was learned")?;
        } else {
            println!("this frank leaves no {}: ranking is not compared", self.usage().display());
        }
        let prefetches = text(Command::new(self.frank).args(["serve", "--help"]))?.contains(SWITCH);
        if !prefetches {
            println!("this frank has no {SWITCH}: prefetching is not compared");
        }
        let known =
            |variant: &Variant| (learns || variant.ranking) && (prefetches || variant.prefetch);
        Ok(VARIANTS.into_iter().filter(known).collect())
    }

    /// Decoding of one stream in tokens a second, and how far each counter came.
    fn run(&self, variant: Variant, round: u64) -> Result<(f64, BTreeMap<String, f64>)> {
        let (usage, learned) = (self.usage(), self.learned());
        if variant.ranking && learned.is_file() {
            fs::copy(&learned, &usage).context("bring what was learned")?;
        } else if usage.is_file() {
            fs::remove_file(&usage).context("forget what was learned")?;
        }
        forget(&self.path)?;
        let group = MemoryGroup::create(self.budget)?;
        let mut serve = self.serve(variant);
        serve = group.enter(&serve);
        let server = ServerProcess::start(&mut serve)?;
        answer(server.address, (1, 8, 8), u64::MAX)?;
        let before = counters(server.address)?;
        let rate = answer(server.address, RUN, round)?;
        let mut after = counters(server.address)?;
        server.terminate()?;
        for (name, value) in &mut after {
            *value -= before.get(name).unwrap_or(&0.0);
        }
        Ok((rate, after))
    }

    fn start(&self, variant: Variant) -> Result<ServerProcess> {
        ServerProcess::start(&mut self.serve(variant))
    }

    fn serve(&self, variant: Variant) -> Command {
        let mut command = Command::new(self.frank);
        let (budget, threads) = (self.budget.to_string(), THREADS.to_string());
        command.arg("serve").arg(&self.path).args(["--port", "0", "--parallel", "1"]);
        command.args(["--ctx-size", CTX_SIZE, "--memory-budget", &budget, "--threads", &threads]);
        if !variant.prefetch {
            command.arg(SWITCH);
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

/// Every counter about experts.
fn counters(address: SocketAddr) -> Result<BTreeMap<String, f64>> {
    let metrics = Request::get("/metrics").reply(address)?.text()?;
    Ok(counters_of(&metrics))
}

fn counters_of(metrics: &str) -> BTreeMap<String, f64> {
    let lines = metrics.lines().filter(|line| METRICS.iter().any(|start| line.starts_with(start)));
    let counters = lines.filter_map(|line| {
        let (name, value) = line.rsplit_once(' ')?;
        name.split('{')
            .next()?
            .ends_with("_total")
            .then_some((name.to_owned(), value.parse().ok()?))
    });
    counters.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = "# TYPE frank_expert_hits counter\nfrank_expert_hits_total{tier=\"a\"} 30\n\
        frank_expert_hits_total{tier=\"b\"} 45\nfrank_expert_misses_total 25\nfrank_experts{tier=\"a\"} 7\nfrank_tokens_total 9\n";

    #[test]
    fn counters_about_experts_are_read_with_their_labels() {
        let counters = counters_of(METRICS);
        assert_eq!(counters.len(), 3, "{counters:?}");
        assert_eq!(counters["frank_expert_hits_total{tier=\"b\"}"].to_string(), "45");
    }

    #[test]
    fn a_hit_rate_is_over_all_tiers() {
        assert_eq!(hit_rate(&counters_of(METRICS)), Some(0.75));
        assert_eq!(hit_rate(&BTreeMap::new()), None);
    }
}
