//! `frank fit`: the memory plan of a model, and nothing else. Never reads a weight.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use frank_plan::{DevicePlan, Outcome, Plan, Size, plan};

use crate::machine::{machine_from, this_machine};
use crate::model::open_header;
use crate::options::ModelOptions;
use crate::report::{Failure, print, printable};

const EXAMPLES: &str = "\
Examples:
  frank fit model.gguf                            on this machine, as it is now
  frank fit model.gguf -c 32768 --parallel 1      one long context
  frank fit model.gguf --memory-budget 4GiB       refused if it takes more, with what to change
  frank fit model.gguf --machine desktop.toml     on a machine described in a file
  frank fit --json model.gguf | jq .devices

Only the header is read. Exit code 3 when it does not fit.

A machine file is TOML; sizes are bytes or texts like \"64GiB\", bandwidths are sizes per second:
  [host]      ram, cores
  [[device]]  id, kind (\"cpu\"), total, free; optionally headroom, bandwidth
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

    /// Print one JSON object; a speed that cannot be told without a measurement is null
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    options: ModelOptions,
}

impl Fit {
    /// Prints the plan to stdout.
    ///
    /// # Errors
    /// Exit code 3 when it does not fit, after it was printed too.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let file = open_header(&self.model)?;
        let needs = self.options.needs(&file.header)?;
        let machine = match &self.machine {
            Some(path) => machine_from(path)?,
            None => this_machine()?,
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

/// The plan as text for a terminal.
fn table(plan: &Plan) -> String {
    let mut lines = vec![model_line(plan), settings_line(plan)];
    for device in &plan.devices {
        lines.push(String::new());
        lines.extend(device_lines(device));
    }
    if let Some(decode_tok_s) = plan.predict.decode_tok_s {
        lines.push(String::new());
        lines.push(format!(
            "about {decode_tok_s:.1} tokens a second for one answer, bound by memory bandwidth"
        ));
    }
    lines.extend(plan.warnings.iter().map(|warning| format!("warning: {warning}")));
    let mut out = String::new();
    for line in lines {
        writeln!(out, "{}", printable(&line)).expect("a String takes every text");
    }
    out
}

fn model_line(plan: &Plan) -> String {
    let model = &plan.model;
    let experts = match model.experts {
        0 => String::new(),
        experts => format!(", {experts} experts of which {} are used", model.experts_used),
    };
    format!("{}, {} layers{experts}, {} file", model.arch, model.layers, Size(model.file_bytes))
}

fn settings_line(plan: &Plan) -> String {
    let requests = match plan.parallel {
        1 => "1 request".to_owned(),
        parallel => format!("each of {parallel} requests"),
    };
    format!(
        "{} tokens of context for {requests}, {} rows a step, {} of KV cache a token",
        plan.ctx_size,
        plan.ubatch,
        Size(plan.kv_bytes_per_token)
    )
}

/// One device: what it has, what is held there by purpose, and what is left.
fn device_lines(device: &DevicePlan) -> Vec<String> {
    let line = |name: &str, bytes: u64| format!("  {name:<12} {:>12}", Size(bytes).to_string());
    let mut lines =
        vec![format!("{}: {} free of {}", device.id, Size(device.free), Size(device.total))];
    let held = device.uses.entries().into_iter().filter(|&(_, bytes)| bytes > 0);
    lines.extend(held.map(|(name, bytes)| line(name, bytes)));
    lines.push(line("used", device.used));
    lines.push(line("headroom", device.headroom));
    lines.push(line("left", device.left));
    lines
}
