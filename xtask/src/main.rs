//! Development tasks of this workspace: `cargo xtask test`, `ci`, `tidy` and the long forms. Never part of what is shipped.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the tasks talk to the developer and to the log of a CI run"
)]

mod cargo;
mod ci;
mod fuzz;
mod http;
mod install;
mod machine;
mod memory_group;
mod peer;
mod same_tokens;
mod schemas;
mod server_process;
mod soak;
mod statistics;
mod test;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Development tasks of frank.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Installs what the tests need, where it is missing, and runs all tests.
    Test {
        /// Only tests whose names contain one of these.
        #[arg(last = true)]
        filters: Vec<String>,
    },
    /// Runs every check that a change has to pass, as CI does.
    Ci,
    /// Checks the rules that neither the compiler nor clippy knows.
    Tidy,
    /// Runs every property test with far more cases than CI does, and asks a server what its OpenAPI document has.
    Fuzz(fuzz::Fuzz),
    /// Serves a model to many clients, well and badly behaved, for a long time.
    Soak(soak::Soak),
    /// Compares frank with llama.cpp: speed, or how near their choices are.
    Peer(peer::Peer),
    /// Compares the answers of servers that hold a mixture of experts in different ways.
    SameTokens(same_tokens::SameTokens),
    /// Tries a corpus of JSON schemas: how many are accepted, and whether the answers validate.
    Schemas(schemas::Schemas),
}

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let root = root.expect("xtask lies in a folder of the workspace");
    let done = match Arguments::parse().task {
        Task::Test { filters } => test::run(root, &filters),
        Task::Ci => ci::run(root),
        Task::Tidy => tidy::run(root),
        Task::Fuzz(fuzz) => fuzz.run(root),
        Task::Soak(soak) => soak.run(root),
        Task::Peer(peer) => peer.run(root),
        Task::SameTokens(same_tokens) => same_tokens.run(root),
        Task::Schemas(schemas) => schemas.run(root),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
