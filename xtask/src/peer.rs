//! The speed of frank's server beside that of llama.cpp's, in turns and never at the same time, or how near the choices
//! of both are. Never part of CI: a speed says something on a quiet machine only.

mod machine;
mod rows;

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use frank_testkit::assets;

use crate::cargo::{PROFILE, cargo, execute, shown};
use crate::install;
use crate::server_process::{ServerProcess, release_frank};
use crate::statistics::Spread;
use rows::{CTX_SIZE, PARALLEL, ROWS, Row};

/// Threads that compute, of each server.
const THREADS: usize = 2;
/// The script that serves with llama.cpp, from the workspace root.
const LLAMA_CPP: &str = "xtask/peer/llama_cpp.py";
const LLAMA_CPP_VERSION: &str =
    "import xllamacpp; print(xllamacpp.__version__, xllamacpp.get_system_info())";

/// What is compared, and how often.
#[derive(Debug, Args)]
pub(crate) struct Peer {
    /// Runs of each server
    #[arg(long, value_name = "R", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,

    /// How near the choices of both are, instead of the speed: every real model, as it is and as a copy in F32
    #[arg(long)]
    distance: bool,
}

impl Peer {
    /// Compares what the options say.
    /// # Errors
    /// Something could not be measured, or is not as near as it has to be.
    pub(crate) fn run(&self, root: &Path) -> Result<()> {
        install::all()?;
        if self.distance { distance(root) } else { self.speed(root) }
    }

    /// Measures both servers with the same file, prompts, client and number of threads, and prints what came out.
    ///
    /// The llama.cpp of the Python package is built for many machines and chooses its kernels when it runs; one that
    /// is built on this machine may be faster.
    fn speed(&self, root: &Path) -> Result<()> {
        println!("machine: {}", machine::describe()?);
        let frank = release_frank(root)?;
        let mut version = Command::new(frank.get_program());
        println!("frank: {}", output(version.arg("--version"))?);
        let mut version = Command::new(assets::python());
        println!("llama.cpp: xllamacpp {}", output(version.args(["-c", LLAMA_CPP_VERSION]))?);
        let mut values = [const { (Vec::new(), Vec::new()) }; ROWS.len()];
        for round in 1..=self.rounds {
            let of_frank = run_once(&mut serve_frank(&frank), round)?;
            let of_llama_cpp = run_once(&mut serve_llama_cpp(root), round)?;
            for (i, (frank, llama_cpp)) in values.iter_mut().enumerate() {
                frank.push(of_frank[i]);
                llama_cpp.push(of_llama_cpp[i]);
            }
        }
        println!(
            "\n{}, {THREADS} threads each, rounds: {}, median (range)",
            assets::SMOLLM2.file,
            self.rounds
        );
        for (row, (frank, llama_cpp)) in ROWS.iter().zip(&values) {
            println!("{}", line(row, Spread::of(frank), Spread::of(llama_cpp)));
        }
        Ok(())
    }
}

/// Compares the choices, which prints what comes out.
fn distance(root: &Path) -> Result<()> {
    let arguments = ["bench", "--package", "frank-models", "--profile", PROFILE];
    let compared = execute(cargo(root, &arguments)?.args(["--bench", "distance"]));
    install::warn_of_vanished_models();
    compared
}

/// Starts a server, measures every row and ends it. Both servers get the same prompts in a round, and no prompt comes
/// twice, so that no cache has seen one.
fn run_once(command: &mut Command, round: u64) -> Result<[f64; ROWS.len()]> {
    let server = ServerProcess::start(command)?;
    let values = rows::measure(server.address, round).with_context(|| shown(command))?;
    println!("  {values:.1?}");
    Ok(values)
}

fn serve_frank(frank: &Command) -> Command {
    let mut command = Command::new(frank.get_program());
    command.arg("serve").arg(assets::smollm2()).args(["--port", "0"]);
    command.args(["--ctx-size", &CTX_SIZE.to_string(), "--parallel", &PARALLEL.to_string()]);
    command.args(["--threads", &THREADS.to_string()]);
    command
}

fn serve_llama_cpp(root: &Path) -> Command {
    let mut command = Command::new(assets::python());
    command.arg(root.join(LLAMA_CPP)).arg(assets::smollm2());
    command.args([CTX_SIZE, PARALLEL, THREADS].map(|number| number.to_string()));
    command
}

fn line(row: &Row, frank: Spread, llama_cpp: Spread) -> String {
    let ratio = frank.median / llama_cpp.median;
    format!("{}: frank {frank}, llama.cpp {llama_cpp}, ratio {ratio:.2}", row.name)
}

/// What a program prints, on one line.
fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("run {}", shown(command)))?;
    ensure!(output.status.success(), "{}: {}", shown(command), output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_both_spreads_and_the_ratio_of_the_medians() {
        let line = line(&ROWS[0], Spread::of(&[3.0, 1.0, 2.0]), Spread::of(&[4.0]));
        assert_eq!(
            line,
            "decode, 1 stream, tok/s: frank 2.0 (1.0 to 3.0), llama.cpp 4.0 (4.0 to 4.0), ratio 0.50"
        );
    }
}
