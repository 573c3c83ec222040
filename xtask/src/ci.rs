//! Everything that a change has to pass, lane by lane. Never stops at the first lane that fails.

mod demo;

use std::env;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::cargo::{PROFILE, cargo, execute, has_nextest, target_dir};
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
    Lane { name: "scalar", run: scalar },
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

/// The tests of kernels and models with the scalar code in the place of the SIMD code that this machine would choose: the
/// programs of the lane of tests once more, which have that code too. That it also compiles alone is checked first.
///
/// Those beside llama.cpp are left out: real models take minutes in scalar code, and give the same bits. So are those about
/// where blocks and experts lie and how rows are cut, which for each instruction set follow from the kernels' own tests.
fn scalar(root: &Path) -> Result<()> {
    let flags = env::var("RUSTFLAGS").unwrap_or_default() + " --cfg frank_scalar";
    let mut alone = cargo(root, &["check", "--profile", PROFILE, "--package", "frank-kernels"])?;
    // Other flags mean other output of every crate, which must not push out that of the other lanes.
    alone
        .env("RUSTFLAGS", flags.trim_start())
        .env("CARGO_TARGET_DIR", target_dir()?.join("scalar"));
    execute(&mut alone)?;
    let arguments: &[&str] = match has_nextest(root)? {
        // The whole workspace, since with fewer packages dependencies have fewer features and are built again.
        true => &[
            "nextest",
            "run",
            "--workspace",
            "--cargo-profile",
            PROFILE,
            "--filterset",
            "(package(frank-kernels) or package(frank-models)) and not test(llama_cpp::) and not test(windows::) \
             and not test(exactness::chunks) and not test(where_experts_lie)",
        ],
        false => &[
            "test",
            "--profile",
            PROFILE,
            "--package",
            "frank-kernels",
            "--package",
            "frank-models",
            "--",
            "--skip",
            "llama_cpp::",
            "--skip",
            "windows::",
            "--skip",
            "exactness::chunks",
            "--skip",
            "where_experts_lie",
        ],
    };
    execute(cargo(root, arguments)?.env("FRANK_ISA", "scalar"))
}
