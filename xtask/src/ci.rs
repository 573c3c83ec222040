//! Everything that a change has to pass, lane by lane. Never stops at the first lane that fails.

mod demo;
mod scalar;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::cargo::{PROFILE, cargo, execute};
use crate::{soak, test, tidy};

/// One thing that has to pass.
struct Lane {
    name: &'static str,
    run: fn(&Path) -> Result<()>,
}

/// In the order in which they run: the quick ones first.
const LANES: &[Lane] = &[
    Lane { name: "fmt", run: fmt },
    Lane { name: "tidy", run: tidy::run },
    Lane { name: "clippy", run: clippy },
    Lane { name: "test", run: |root| test::run(root, &[]) },
    Lane { name: "scalar", run: scalar::run },
    Lane { name: "demo", run: demo::run },
    Lane { name: "soak", run: soak::run_in_ci },
];

/// Runs all lanes, and prints how long each took and whether it passed.
/// # Errors
/// Names the lanes that failed.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut results = Vec::with_capacity(LANES.len());
    for lane in LANES {
        println!("\n== {} ==", lane.name);
        let start = Instant::now();
        let result = (lane.run)(root);
        if let Err(error) = &result {
            eprintln!("error: {error:#}");
        }
        results.push((lane.name, result.is_ok(), start.elapsed()));
        println!("{}", line(*results.last().expect("it was just pushed")));
    }
    println!("\n== summary ==");
    results.iter().for_each(|result| println!("{}", line(*result)));
    let failed: Vec<&str> =
        results.iter().filter(|result| !result.1).map(|result| result.0).collect();
    if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.join(", ")) }
}

fn line((name, passed, time): (&str, bool, Duration)) -> String {
    let verdict = if passed { "passed" } else { "FAILED" };
    format!("{name:<8} {verdict} in {:.1} s", time.as_secs_f64())
}

fn fmt(root: &Path) -> Result<()> {
    execute(&mut cargo(root, &["fmt", "--all", "--check"])?)
}

fn clippy(root: &Path) -> Result<()> {
    let arguments = ["clippy", "--workspace", "--all-targets", "--profile", PROFILE];
    execute(cargo(root, &arguments)?.args(["--", "--deny", "warnings"]))
}
