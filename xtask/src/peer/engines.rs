//! The two engines that are compared, and how each is run. Never measures.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::serving::{CTX_SIZE, PARALLEL};
use crate::cargo::shown;
use crate::install::llama_cpp_native::program;

/// Threads that compute, of each engine.
pub(super) const THREADS: usize = 2;

/// One of the two.
pub(super) enum Engine {
    /// The binary of frank.
    Frank(PathBuf),
    /// llama.cpp as [`crate::install::llama_cpp_native`] built it.
    LlamaCpp,
}

impl Engine {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Frank(_) => "frank",
            Self::LlamaCpp => "llama.cpp",
        }
    }

    /// What it says of itself, on one line.
    pub(super) fn version(&self) -> Result<String> {
        let mut command = match self {
            Self::Frank(frank) => Command::new(frank),
            Self::LlamaCpp => Command::new(program("llama-bench")),
        };
        let output = output(command.arg("--version"))?;
        let said = if output.0.is_empty() { output.1 } else { output.0 };
        Ok(format!("{}: {}", self.name(), said.split_whitespace().collect::<Vec<_>>().join(" ")))
    }

    /// Its server, with its own defaults but for sizes and threads.
    pub(super) fn server(&self, model: &Path, address: SocketAddr) -> Command {
        let (host, port) = (address.ip().to_string(), address.port().to_string());
        let [ctx_size, all_ctx_size, parallel, threads] =
            [CTX_SIZE, CTX_SIZE * PARALLEL, PARALLEL, THREADS].map(|number| number.to_string());
        let mut command;
        match self {
            Self::Frank(frank) => {
                command = Command::new(frank);
                command.arg("serve").arg(model).args(["--ctx-size", &ctx_size]);
            }
            Self::LlamaCpp => {
                command = Command::new(program("llama-server"));
                command.arg("--model").arg(model).args(["--ctx-size", &all_ctx_size]);
                command.args(["--threads-batch", &threads, "--no-webui"]);
            }
        }
        command.args(["--parallel", &parallel, "--threads", &threads]);
        command.args(["--host", &host, "--port", &port]);
        command
    }
}

/// What a program prints on stdout.
pub(super) fn text(command: &mut Command) -> Result<String> {
    Ok(output(command)?.0)
}

/// What a program prints as JSON.
pub(super) fn json(command: &mut Command) -> Result<Value> {
    let output = text(command)?;
    serde_json::from_str(&output).with_context(|| format!("{} prints {output:?}", shown(command)))
}

/// What a program prints on stdout and on stderr.
fn output(command: &mut Command) -> Result<(String, String)> {
    let output = command.output().with_context(|| format!("run {}", shown(command)))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    ensure!(output.status.success(), "{}: {}\n{err}", shown(command), output.status);
    Ok((out, err))
}
