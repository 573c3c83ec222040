//! What `frank.toml` becomes.
#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene has failed")]

mod file;
mod given;
mod plan;
mod plan_golden;
mod plan_memory;
mod reach;
mod runtimes;
mod target_files;
mod target_quoting;
mod target_workloads;
