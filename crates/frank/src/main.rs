//! The frank binary: arguments in, exit code out. Never does the work of a subcommand.

mod answering;
mod cache_dir;
mod cli;
mod interrupt;
mod load;
mod machine;
mod model;
mod model_drive;
mod options;
mod plan_bars;
mod plan_parts;
mod plan_svg;
mod plan_text;
mod pulling;
mod report;
mod serving;
mod this_host;
mod thread_limit;
mod usage;

use std::process::ExitCode;

fn main() -> ExitCode {
    frank_os::share_one_arena();
    match cli::run(std::env::args_os()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report::failed(&error),
    }
}
