//! Prompt and decode of each engine's own bench program, with the memory of the process capped or not. Never keeps a file
//! in the page cache that was not asked for.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use frank_os::DataFile;
use serde_json::Value;

use super::super::engines::{Engine, THREADS, json};
use crate::install::llama_cpp_native::program;
use crate::memory_group::MemoryGroup;
use crate::statistics::Spread;

/// What is measured: tokens of a prompt or of an answer, and how often.
#[derive(Debug, Clone, Copy)]
pub(super) struct Test {
    pub(super) n_prompt: u64,
    pub(super) n_decode: u64,
    pub(super) repetitions: u64,
}

impl Test {
    pub(super) const fn decode(n_decode: u64, repetitions: u64) -> Self {
        Self { n_prompt: 0, n_decode, repetitions }
    }

    pub(super) const fn prompt(n_prompt: u64, repetitions: u64) -> Self {
        Self { n_prompt, n_decode: 0, repetitions }
    }
}

/// Tokens a second of one test.
///
/// With a cap the process and the pages that it reads are held to so many bytes by a control group, and frank is told the
/// same as its budget; the file is dropped from the page cache before.
/// # Errors
/// The program fails or does not say, or no group can be made.
pub(super) fn measure(
    engine: &Engine,
    model: &Path,
    cap: Option<u64>,
    options: &[&str],
    test: Test,
) -> Result<Spread> {
    let mut command = match engine {
        Engine::Frank(frank) => {
            let mut command = Command::new(frank);
            command.args(["bench", "throughput", "--json"]).arg(model);
            if let Some(cap) = cap {
                command.args(["--memory-budget", &cap.to_string()]);
            }
            command
        }
        Engine::LlamaCpp => {
            let mut command = Command::new(program("llama-bench"));
            command.args(["--output", "json", "--model"]).arg(model);
            command
        }
    };
    let numbers = [test.n_prompt, test.n_decode, test.repetitions, THREADS as u64];
    let [prompt, decode, repetitions, threads] = numbers.map(|number| number.to_string());
    command.args(["-p", &prompt, "-n", &decode, "-r", &repetitions, "--threads", &threads]);
    command.args(options);
    let group = cap.map(MemoryGroup::create).transpose()?;
    if let Some(group) = &group {
        forget(model)?;
        command = group.enter(&command);
    }
    let said = json(&mut command).with_context(|| engine.name())?;
    let rates = match engine {
        Engine::Frank(_) => frank_rates(&said),
        Engine::LlamaCpp => llama_cpp_rates(&said),
    };
    rates.with_context(|| format!("no tokens in a second: {said}"))
}

/// Drops a file from the page cache.
pub(super) fn forget(model: &Path) -> Result<()> {
    let file = DataFile::open(model)?;
    file.forget_cached(0, file.len());
    Ok(())
}

/// The one row.
fn frank_rates(said: &Value) -> Option<Spread> {
    let rates = said.pointer("/rows/0/tok_s")?;
    let number = |name| rates.get(name)?.as_f64();
    Some(Spread { median: number("median")?, min: number("min")?, max: number("max")? })
}

/// The samples of the one test.
fn llama_cpp_rates(said: &Value) -> Option<Spread> {
    let samples = said.pointer("/0/samples_ts")?.as_array()?;
    let samples: Vec<f64> = samples.iter().filter_map(Value::as_f64).collect();
    (!samples.is_empty()).then(|| Spread::of(&samples))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn frank_says_median_and_range() {
        let said = json!({"rows": [{"tok_s": {"median": 8.5, "min": 8.0, "max": 9.0, "n": 5}}]});
        assert_eq!(frank_rates(&said), Some(Spread { median: 8.5, min: 8.0, max: 9.0 }));
        assert_eq!(frank_rates(&json!({"rows": []})), None);
    }

    #[test]
    fn llama_bench_says_samples() {
        let said = json!([{"samples_ts": [0.25, 0.5, 0.75]}]);
        assert_eq!(llama_cpp_rates(&said), Some(Spread { median: 0.5, min: 0.25, max: 0.75 }));
        assert_eq!(llama_cpp_rates(&json!([{"samples_ts": []}])), None);
        assert_eq!(llama_cpp_rates(&json!([])), None);
    }
}
