//! The table of runtimes: what serves a model. One file each; what they have in common is in `contract.rs` and `options.rs`.

mod bench;
mod command;
mod contract;
mod frank;
pub(crate) mod learned;
mod llama_cpp;
mod lucebox;
mod options;
mod vllm;

use std::collections::BTreeSet;

use crate::fault::Fault;
use crate::placement::Placement;
use crate::workload::Workload;

pub use bench::{BenchRun, check_llama_bench, llama_bench};
pub use learned::{DefaultClaim, Learned, LearnedOption, learn};
pub use vllm::kv::kv_pool_tokens;

/// A program that serves models.
#[derive(Debug)]
pub struct Runtime {
    /// Its name in `frank.toml`.
    pub name: &'static str,
    /// What is wrong with a placement by what is known of this runtime; nothing is rendered with an error among them.
    pub check: fn(&Placement<'_>) -> Vec<Fault>,
    /// The program for a placement without errors.
    pub render: fn(&Placement<'_>) -> Workload,
    /// Its arguments for a placement, each with the place in `frank.toml` that asks for it.
    pub args: fn(&Placement<'_>) -> Vec<Arg>,
    /// Defaults of its options as frank knows them, by name.
    pub defaults: fn() -> Vec<DefaultClaim>,
    /// Parts of lines by which it says that it passes over an option or a variable.
    pub ignores: &'static [&'static str],
}

/// An argument with the place in `frank.toml` that asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arg {
    /// As `endpoints.chat.context`.
    pub place: String,
    /// Words that stand one after the other, as `--ctx-size` and `8192`.
    pub words: Vec<String>,
}

/// Every runtime.
pub static RUNTIMES: &[Runtime] =
    &[frank::RUNTIME, llama_cpp::RUNTIME, vllm::RUNTIME, lucebox::RUNTIME, command::RUNTIME];

impl Runtime {
    /// The runtime of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        RUNTIMES.iter().find(|runtime| runtime.name == name)
    }

    /// What was declared and is absent from a program, as when a file was edited by hand: one error for each place.
    pub fn absent(&self, placement: &Placement<'_>, workload: &Workload) -> Vec<Fault> {
        let args = workload.program.args();
        let is_there = |words: &[String]| args.windows(words.len()).any(|window| window == words);
        (self.args)(placement)
            .into_iter()
            .filter(|arg| !is_there(&arg.words))
            .map(|arg| {
                let words = arg.words.join(" ");
                let message = format!("`{words}` is declared and is not in the program");
                Fault::error("declared_but_absent", arg.place, message)
            })
            .collect()
    }

    /// Lines of a log in which it says that it passes over an option or a variable, each once.
    pub fn ignored_options(&self, place: &str, log: &str) -> Vec<Fault> {
        let lines: BTreeSet<&str> = log
            .lines()
            .map(str::trim)
            .filter(|line| self.ignores.iter().any(|part| line.contains(part)))
            .collect();
        let fault = |line| Fault::error("ignored_option", place, format!("its log says: {line}"));
        lines.into_iter().map(fault).collect()
    }
}
