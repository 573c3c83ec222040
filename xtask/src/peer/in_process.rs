//! Speed without a server: each engine's own bench program. Never shares the process.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::engines::{Engine, THREADS, json};
use crate::install::llama_cpp_native::program;
use crate::statistics::Spread;

/// What is measured, after a run that does not count; 0 tokens for no such test.
#[derive(Debug, Clone, Copy)]
pub(super) struct Test {
    /// Tokens of a prompt that is read, with no answer.
    pub(super) n_prompt: u64,
    /// Tokens that are decoded, with no prompt.
    pub(super) n_decode: u64,
    pub(super) repetitions: u64,
}

/// Tokens in a second, the median of the repetitions; `None` where there was no such test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rates {
    pub(super) prompt: Option<f64>,
    pub(super) decode: Option<f64>,
}

/// The command that measures a model.
pub(super) fn command(engine: &Engine, model: &Path, test: Test) -> Command {
    let mut command = match engine {
        Engine::Frank(frank) => {
            let mut command = Command::new(frank);
            command.args(["bench", "throughput", "--json"]).arg(model);
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
    command
}

/// Runs a [`command`], and reads what it measured.
/// # Errors
/// The program fails, or does not say.
pub(super) fn run(engine: &Engine, mut command: Command, test: Test) -> Result<Rates> {
    let said = json(&mut command).with_context(|| engine.name())?;
    let rate = match engine {
        Engine::Frank(_) => frank_rate,
        Engine::LlamaCpp => llama_cpp_rate,
    };
    let rate = |kind: Kind| match kind.n_tokens(test) {
        0 => Ok(None),
        n => rate(&said, kind, n)
            .map(Some)
            .with_context(|| format!("no {kind:?} of {n} tokens: {said}")),
    };
    Ok(Rates { prompt: rate(Kind::Prompt)?, decode: rate(Kind::Decode)? })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Prompt,
    Decode,
}

impl Kind {
    fn n_tokens(self, test: Test) -> u64 {
        match self {
            Self::Prompt => test.n_prompt,
            Self::Decode => test.n_decode,
        }
    }
}

/// frank prints a row for each test.
fn frank_rate(said: &Value, kind: Kind, n_tokens: u64) -> Option<f64> {
    let name = match kind {
        Kind::Prompt => format!("pp{n_tokens}"),
        Kind::Decode => format!("tg{n_tokens}"),
    };
    let row = said.get("rows")?.as_array()?.iter().find(|row| row["test"] == name)?;
    row.pointer("/tok_s/median")?.as_f64()
}

/// llama-bench prints one object for each test: prompts have no tokens to generate, and the reverse.
fn llama_cpp_rate(said: &Value, kind: Kind, n_tokens: u64) -> Option<f64> {
    let [n_prompt, n_decode] = match kind {
        Kind::Prompt => [n_tokens, 0],
        Kind::Decode => [0, n_tokens],
    };
    let wanted = |test: &&Value| test["n_prompt"] == n_prompt && test["n_gen"] == n_decode;
    let samples = said.as_array()?.iter().find(wanted)?["samples_ts"].as_array()?;
    let samples: Vec<f64> = samples.iter().filter_map(Value::as_f64).collect();
    (!samples.is_empty()).then(|| Spread::of(&samples).median)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn frank_says_prompt_and_decode_in_rows_of_their_own() {
        let row = |test: &str, median: f64| json!({"test": test, "tok_s": {"median": median}});
        let both = json!({"rows": [row("pp512", 900.5), row("tg128", 150.5)]});
        assert_eq!(frank_rate(&both, Kind::Prompt, 512), Some(900.5));
        assert_eq!(frank_rate(&both, Kind::Decode, 128), Some(150.5));
        assert_eq!(frank_rate(&both, Kind::Decode, 512), None);
        assert_eq!(frank_rate(&json!({}), Kind::Prompt, 512), None);
    }

    #[test]
    fn llama_bench_says_samples_of_tests_of_their_own() {
        let test = |n_prompt: u64, n_gen: u64, samples: &[f64]| json!({"n_prompt": n_prompt, "n_gen": n_gen, "samples_ts": samples});
        let both = json!([test(0, 128, &[170.5]), test(512, 0, &[0.25, 0.75, 0.5])]);
        assert_eq!(llama_cpp_rate(&both, Kind::Prompt, 512), Some(0.5));
        assert_eq!(llama_cpp_rate(&both, Kind::Decode, 128), Some(170.5));
        assert_eq!(llama_cpp_rate(&both, Kind::Prompt, 128), None);
        assert_eq!(llama_cpp_rate(&json!([test(8, 0, &[])]), Kind::Prompt, 8), None);
    }
}
