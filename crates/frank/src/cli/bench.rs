//! `frank bench`: which workloads there are, and nothing of what they do.

mod in_process;
mod throughput;

use clap::{Args, Subcommand};

/// Measure how fast a model answers
#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Debug, Subcommand)]
enum Workload {
    Throughput(throughput::Throughput),
}

impl Bench {
    /// Runs the workload.
    ///
    /// # Errors
    /// What the workload says.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.workload {
            Workload::Throughput(throughput) => throughput.run(),
        }
    }
}
