//! `frank fit`: the memory plan of a model, and nothing else. Never reads a weight.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use frank_plan::{Outcome, plan};

use crate::machine::{machine_from, measured, this_machine};
use crate::model::{cut_off, open_header};
use crate::options::{CacheOptions, ModelOptions};
use crate::plan_text::table;
use crate::report::{Failure, print};

const EXAMPLES: &str = "\
Examples:
  frank fit model.gguf                            on this machine, as it is now
  frank fit model.gguf -c 32768 --parallel 1      one long context
  frank fit model.gguf --memory-budget 4GiB       refused if it takes more, with what to change
  frank fit model.gguf --machine desktop.toml     on a machine described in a file
  frank fit --json model.gguf | jq .devices

Only the header is read. Exit code 3 when it does not fit. Speeds are those of one request alone, from rates that are
measured just before: decoding with half the context filled, and reading a prompt of 512 tokens.

A machine file is TOML, and `frank probe --toml` writes one; sizes are bytes or texts like \"64GiB\", bandwidths are
sizes per second, arithmetic is multiply-adds per second:
  [host]      ram, cores
  [[device]]  id, kind (\"cpu\"), total, free; optionally headroom, bandwidth, arithmetic
  [[drive]]   path; optionally bandwidth";

/// Plan the memory of a model: what it takes, whether it fits, and what to change if not
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Fit {
    /// Path of a .gguf file (any part of a split model), or a reference
    #[arg(value_name = "MODEL")]
    model: OsString,

    /// Plan for the machine that this TOML file describes, instead of this one
    #[arg(long, value_name = "FILE")]
    machine: Option<PathBuf>,

    /// Do not take the quarter of a second that measuring this machine takes; speeds are then not told
    #[arg(long, conflicts_with = "machine")]
    no_measure: bool,

    /// Print one JSON object; a speed that cannot be told without a measurement is null
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    cache: CacheOptions,

    #[command(flatten)]
    options: ModelOptions,
}

impl Fit {
    /// Prints the plan to stdout.
    ///
    /// # Errors
    /// Exit code 3 when it does not fit, after it was printed too.
    pub(crate) fn run(mut self) -> anyhow::Result<()> {
        self.cache.check_effect()?;
        self.options.cache = self.cache;
        let file = open_header(&self.model)?;
        let mut needs = self.options.needs(&file.header)?;
        needs.warnings.extend(cut_off(&file));
        let machine = match &self.machine {
            Some(path) => machine_from(path)?,
            None if self.no_measure => this_machine()?,
            None => measured(this_machine()?, &self.options),
        };
        let limits = self.options.limits(&machine)?;
        let outcome = Outcome::from(plan(&needs, &machine, &limits));
        if self.json {
            print(&(serde_json::to_string_pretty(&outcome)? + "\n"))?;
        } else {
            print(&table(&outcome.plan))?;
        }
        match &outcome.refusal {
            Some(refusal) => Err(Failure::from(refusal).into()),
            None => Ok(()),
        }
    }
}
