//! `frank bench throughput`: how fast a model in this process reads prompts and makes tokens. Never samples one.

use std::ffi::{OsStr, OsString};
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use frank_bench::{Row, SaltedPrompts, Test, Throughput as Report};
use frank_kernels::KvType;
use frank_plan::decode_step_bytes;

use crate::cli::bench::in_process::InProcess;
use crate::interrupt::end_at_interrupt;
use crate::load::Prepared;
use crate::machine::{Effort, Rates, measure, this_machine, threads};
use crate::model::open;
use crate::options::ModelOptions;
use crate::report::{Failure, print, tell};

const EXAMPLES: &str = "\
Examples:
  frank bench throughput model.gguf                       a prompt of 512 tokens, then 128 tokens of an answer
  frank bench throughput model.gguf -p 0 -n 32            only the answer
  frank bench throughput model.gguf -np 4                 also four answers whose steps are shared
  frank bench throughput --json model.gguf | jq .rows

Rows are called and measured as those of llama-bench, so that they compare: each repetition starts from an empty
context, answers too; tokens are random, are never sampled and end nothing; a run before the first repetition is not
counted. No prompt begins like another. Rates are medians over the repetitions, with their range. Unless said otherwise
the context is as long as the longest row, and --parallel is 1.

MB/token is what a step reads of weights, keys and values, shared among the sequences of the step; \"of bandwidth\" is
the share that this is of the rate at which all threads read memory, measured before the model is loaded. A small
model that stays in the caches of the processor can be above 100 %.";

/// Rows of a report are labelled with what was asked for, so what cannot be is refused.
const N_TOKENS_MAX: i64 = 1 << 24;

/// Measure prompt and decode speed of a model in this process, as llama-bench does
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Throughput {
    /// Path of a .gguf file (any part of a split model), a name that `frank list` shows, or a reference
    #[arg(value_name = "MODEL")]
    model: OsString,

    /// Tokens of the prompt; 0 for no such row
    #[arg(short = 'p', long, value_name = "N", default_value_t = 512, allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(0..=N_TOKENS_MAX))]
    n_prompt: u32,

    /// Tokens of the answer; 0 for no such row
    #[arg(short = 'n', long, value_name = "N", default_value_t = 128, allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(0..=N_TOKENS_MAX))]
    n_gen: u32,

    /// Times that each row is measured
    #[arg(short = 'r', long, value_name = "R", default_value_t = 5, allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repetitions: u32,

    /// Seed of the tokens [default: another one each time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    options: ModelOptions,
}

impl Throughput {
    /// Prints the report to stdout.
    ///
    /// # Errors
    /// As loading does, exit code 2 when there is nothing to measure or no room for it, and 1 when an expert cannot be read.
    pub(crate) fn run(mut self) -> anyhow::Result<()> {
        let tests = self.settle()?;
        end_at_interrupt()?;
        let mut needs = None;
        let file = open(&self.model)?;
        let prepared = Prepared::new(file, &self.options, |model| needs = Some(model.clone()))?;
        let needs = needs.context("a plan is made from the needs of the model")?;
        let threads = threads(&self.options);
        let free = this_machine()?.primary().map_or(0, |device| device.free);
        let Rates { bandwidth, .. } =
            measure(threads, free, self.options.left_to_take(), Effort::SHORT);
        let n_streams = prepared.plan.parallel as usize;
        let (ubatch, n_ctx) = (prepared.plan.ubatch as usize, prepared.plan.ctx_size as usize);
        let model = prepared.load(&self.options, n_streams)?;
        let mut model = InProcess::new(model, n_streams, n_ctx);
        let seed = self.seed.unwrap_or_else(SaltedPrompts::fresh_seed);
        let n_vocab = u32::try_from(model.n_vocab()).context("token ids are of 32 bits")?;
        let mut prompts = SaltedPrompts::new(seed, n_vocab);
        let mut rows = Vec::new();
        for test in tests {
            let seconds = self.measure(&mut model, test, &mut prompts)?;
            let bytes = step_bytes(&needs, test);
            rows.extend(Row::new(test, &seconds, bytes, bandwidth.map(|spread| spread.median)));
        }
        if let Some(fallback) = model.late_fallback() {
            tell(&format!("warning: {fallback}"));
        }
        self.report(&Report {
            model: file_name(&self.model),
            arch: prepared.plan.model.arch.clone(),
            file_bytes: prepared.plan.model.file_bytes,
            threads,
            ubatch,
            kv_types: [self.options.kv_types.k, self.options.kv_types.v].map(KvType::name),
            seed,
            bandwidth,
            rows,
        })
    }

    /// Fills in what depends on other options, refuses what cannot be measured, and gives the rows.
    fn settle(&mut self) -> Result<Vec<Test>, Failure> {
        if self.options.chat_template.is_some() {
            return Err(Failure::usage("--chat-template has no effect: prompts are random tokens"));
        }
        let (n_prompt, n_gen) = (self.n_prompt, self.n_gen);
        if n_prompt == 0 && n_gen == 0 {
            return Err(Failure::usage("--n-prompt 0 and --n-gen 0 leave nothing to measure"));
        }
        let n_wanted = n_prompt.max(n_gen);
        let n_ctx = *self.options.ctx_size.get_or_insert(n_wanted);
        if n_ctx < n_wanted {
            let fact = format!("{n_wanted} tokens do not fit in a context of {n_ctx}");
            return Err(Failure::usage(fact).hint(format!("--ctx-size {n_wanted}")));
        }
        let n_streams = *self.options.parallel.get_or_insert(1) as usize;
        if n_gen == 0 && n_streams > 1 {
            return Err(Failure::usage("--parallel has no effect beside --n-gen 0"));
        }
        Ok(tests(n_prompt as usize, n_gen as usize, n_streams))
    }

    /// Seconds of each repetition of `test`, after one that is not counted.
    fn measure(
        &self,
        model: &mut InProcess,
        test: Test,
        prompts: &mut SaltedPrompts,
    ) -> anyhow::Result<Vec<f64>> {
        let (n_tokens, n_streams) = match test {
            Test::Prompt { n_tokens } => (n_tokens, 1),
            Test::Decode { n_tokens, n_streams } => (n_tokens, n_streams),
        };
        let mut repetition = || {
            let prompts: Vec<_> = (0..n_streams).map(|_| prompts.prompt(n_tokens)).collect();
            let start = Instant::now();
            let computed = model.compute(test, &prompts);
            computed.with_context(|| format!("cannot measure {}", test.name()))?;
            Ok(start.elapsed().as_secs_f64())
        };
        repetition()?;
        (0..self.repetitions).map(|_| repetition()).collect()
    }

    fn report(&self, report: &Report) -> anyhow::Result<()> {
        if cfg!(debug_assertions) {
            tell("warning: this build checks itself as it computes; a release build is faster");
        }
        if self.json {
            print(&(serde_json::to_string_pretty(report)? + "\n"))
        } else {
            print(&report.table())
        }
    }
}

/// The rows for a prompt of `n_prompt` tokens and answers of `n_gen`.
fn tests(n_prompt: usize, n_gen: usize, n_streams: usize) -> Vec<Test> {
    let prompt = (n_prompt > 0).then_some(Test::Prompt { n_tokens: n_prompt });
    let decode = |n_streams| Test::Decode { n_tokens: n_gen, n_streams };
    let alone = (n_gen > 0).then(|| decode(1));
    let together = (n_gen > 0 && n_streams > 1).then(|| decode(n_streams));
    [prompt, alone, together].into_iter().flatten().collect()
}

/// Bytes that a step of `test` reads on average: in the middle of the answer.
fn step_bytes(needs: &frank_plan::ModelNeeds, test: Test) -> u64 {
    match test {
        Test::Prompt { .. } => 0,
        Test::Decode { n_tokens, n_streams } => {
            let n_tokens = u32::try_from(n_tokens / 2).unwrap_or(u32::MAX);
            let n_streams = u32::try_from(n_streams).unwrap_or(u32::MAX);
            decode_step_bytes(needs, n_tokens, n_streams)
        }
    }
}

/// The last part of a path or reference.
fn file_name(model: &OsStr) -> String {
    let text = model.to_string_lossy();
    text.rsplit('/').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_0_is_no_row_and_streams_are_one_more() {
        let names = |n_prompt, n_gen, n_streams| -> Vec<String> {
            tests(n_prompt, n_gen, n_streams).into_iter().map(Test::name).collect()
        };
        assert_eq!(names(512, 128, 1), ["pp512", "tg128"]);
        assert_eq!(names(512, 128, 4), ["pp512", "tg128", "tg128x4"]);
        assert_eq!(names(0, 32, 1), ["tg32"]);
        assert_eq!(names(64, 0, 1), ["pp64"]);
    }
}
