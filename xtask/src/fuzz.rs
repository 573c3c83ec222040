//! Every property test of the workspace with far more cases than in CI, one crate after the other, and generated requests
//! to a server; or one target of `fuzz/` under libFuzzer. Never on nightly.

mod http;
mod libfuzzer;
mod property_tests;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;

use crate::cargo::{PROFILE, cargo, execute};
use crate::install;
use property_tests::PropertyTests;

/// What runs, and how long.
#[derive(Debug, Args)]
pub(crate) struct Fuzz {
    /// Cases of each property test
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    cases: u32,

    /// Run this target of fuzz/ with cargo-fuzz, instead of the property tests
    #[arg(long, value_name = "NAME", conflicts_with = "cases")]
    target: Option<String>,

    /// Only the requests that schemathesis generates from the OpenAPI document
    #[arg(long, conflicts_with_all = ["cases", "target"])]
    http: bool,

    /// Seed of these requests [default: the time]
    #[arg(long, value_name = "N", conflicts_with = "target")]
    seed: Option<u64>,

    /// Minutes that the target, or the requests, run
    #[arg(long, value_name = "N", default_value_t = 10)]
    minutes: u32,
}

impl Fuzz {
    /// Runs the target, or all property tests and then the requests, also after one failed, and prints how long each
    /// crate took.
    ///
    /// A case that fails is made as small as it gets and printed; where the test keeps such cases, it is a line of
    /// `proptest-regressions/`, which belongs into the change that repairs it.
    /// # Errors
    /// Names what failed, or says what cannot be run and why.
    pub(crate) fn run(&self, root: &Path) -> Result<()> {
        if let Some(target) = &self.target {
            return libfuzzer::run(root, target, self.minutes);
        }
        if self.http {
            return http::run(root, self.minutes, self.seed);
        }
        install::all()?;
        let mut results = Vec::new();
        for tests in property_tests::of_workspace(root)? {
            println!("\n== {} ==", tests.package);
            let outcome = self.run_crate(root, &tests);
            if let Err(error) = &outcome {
                eprintln!("error: {error:#}");
            }
            results.push((tests, outcome.ok()));
        }
        println!("\n== generated requests ==");
        let asked = http::run(root, self.minutes, self.seed);
        if let Err(error) = &asked {
            eprintln!("error: {error:#}");
        }
        println!("\n== {} cases of each ==", self.cases);
        results.iter().for_each(|(tests, time)| println!("{}", line(tests, *time)));
        let failed = results.iter().filter(|(_, time)| time.is_none());
        let mut failed: Vec<&str> = failed.map(|(tests, _)| tests.package.as_str()).collect();
        failed.extend(asked.err().map(|_| "the generated requests"));
        if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.join(", ")) }
    }

    /// Returns how long the tests took, without building them.
    fn run_crate(&self, root: &Path, tests: &PropertyTests) -> Result<Duration> {
        // Not nextest: it ends tests that take minutes.
        let arguments = ["test", "--package", &tests.package, "--profile", PROFILE, "--tests"];
        execute(cargo(root, &arguments)?.arg("--no-run"))?;
        let mut command = cargo(root, &arguments)?;
        command.arg("--no-fail-fast").arg("--").args(&tests.names);
        // The variable of proptest itself.
        command.env("PROPTEST_CASES", self.cases.to_string());
        let start = Instant::now();
        execute(&mut command)?;
        Ok(start.elapsed())
    }
}

fn line(tests: &PropertyTests, time: Option<Duration>) -> String {
    let outcome = time.map_or("FAILED".to_owned(), |time| format!("{:.1} s", time.as_secs_f64()));
    format!("{:<16} {:>3} property tests, {outcome}", tests.package, tests.names.len())
}
