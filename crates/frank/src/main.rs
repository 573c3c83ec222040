//! The frank binary: arguments in, exit code out. Never does the work of a subcommand.

mod answering;
mod cache_dir;
mod cli;
mod interrupt;
mod load;
mod machine;
mod model;
mod options;
mod plan_bars;
mod plan_parts;
mod plan_svg;
mod plan_text;
mod report;
mod serving;
mod usage;

use std::process::ExitCode;

fn main() -> ExitCode {
    frank_os::share_one_arena();
    match cli::run(std::env::args_os()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report::failed(&error),
    }
}
