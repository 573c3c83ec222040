//! Speed without a server: each engine's own bench program, one repetition after its warm-up. Never shares the process.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::engines::{Engine, THREADS, json};
use crate::install::llama_cpp_native::program;

/// Tokens of the prompt that is read, with no answer.
pub(super) const N_PROMPT: u64 = 512;
/// Tokens that are decoded, with no prompt.
pub(super) const N_DECODE: u64 = 128;

/// Tokens in a second of the prompt, and of decoding.
/// # Errors
/// The program fails, or does not say.
pub(super) fn measure(engine: &Engine, model: &Path) -> Result<[f64; 2]> {
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
    let [prompt, decode, threads] =
        [N_PROMPT, N_DECODE, THREADS as u64].map(|number| number.to_string());
    command.args(["-p", &prompt, "-n", &decode, "--threads", &threads, "--repetitions", "1"]);
    let said = json(&mut command)?;
    let rates = match engine {
        Engine::Frank(_) => frank_rates(&said),
        Engine::LlamaCpp => llama_cpp_rates(&said),
    };
    rates.with_context(|| format!("no tokens in a second: {said}"))
}

fn frank_rates(said: &Value) -> Option<[f64; 2]> {
    let rate = |test: String| {
        let row = said.get("rows")?.as_array()?.iter().find(|row| row["test"] == test)?;
        row.pointer("/tok_s/median")?.as_f64()
    };
    Some([rate(format!("pp{N_PROMPT}"))?, rate(format!("tg{N_DECODE}"))?])
}

/// llama-bench prints one object for each test: prompts have no tokens to generate, and the reverse.
fn llama_cpp_rates(said: &Value) -> Option<[f64; 2]> {
    let rate = |n_prompt: u64, n_decode: u64| {
        let wanted = |test: &&Value| test["n_prompt"] == n_prompt && test["n_gen"] == n_decode;
        said.as_array()?.iter().find(wanted)?["avg_ts"].as_f64()
    };
    Some([rate(N_PROMPT, 0)?, rate(0, N_DECODE)?])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn frank_says_prompt_and_decode_in_rows_of_their_own() {
        let row = |test: &str, median: f64| json!({"test": test, "tok_s": {"median": median}});
        let both = json!({"rows": [row("pp512", 900.5), row("tg128", 150.5)]});
        assert_eq!(frank_rates(&both), Some([900.5, 150.5]));
        assert_eq!(frank_rates(&json!({"rows": [row("pp512", 900.5)]})), None);
        assert_eq!(frank_rates(&json!({})), None);
    }

    #[test]
    fn llama_bench_says_prompt_and_decode_in_tests_of_their_own() {
        let test = |n_prompt: u64, n_gen: u64, rate: f64| json!({"n_prompt": n_prompt, "n_gen": n_gen, "avg_ts": rate});
        let both = json!([test(0, 128, 170.5), test(512, 0, 1158.25)]);
        assert_eq!(llama_cpp_rates(&both), Some([1158.25, 170.5]));
        assert_eq!(llama_cpp_rates(&json!([test(512, 0, 1.0)])), None);
        assert_eq!(llama_cpp_rates(&json!({})), None);
    }
}
