//! `frank fit`: the memory plan of a model, and nothing else. Never reads a weight.

mod svg_place;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use frank_plan::{DevicePlan, Goal, Machine, Outcome, Plan, Size, optimize, plan};
use serde::Serialize;

use self::svg_place::SvgPlace;
use crate::machine::{machine_from, measured, this_machine};
use crate::model::{cut_off, open_header};
use crate::model_drive::predict_streamed;
use crate::options::{CacheOptions, ModelOptions};
use crate::plan_bars::{Look, bars};
use crate::plan_svg::svg;
use crate::plan_text::table;
use crate::report::{Failure, print};
use crate::usage::Usage;

const EXAMPLES: &str = "\
Examples:
  frank fit model.gguf                            on this machine, as it is now
  frank fit model.gguf -c 32768 --parallel 1      one long context
  frank fit model.gguf --memory-budget 4GiB       refused if it takes more, with what to change
  frank fit model.gguf --machine desktop.toml     on a machine described in a file
  frank fit model.gguf --optimize context         the longest context that fits
  frank fit moe.gguf --stream-cache 4GiB --svg plan.svg
  frank fit --json model.gguf | jq .devices

Only the header is read, and where experts are streamed some of them for a third of a second, to know how fast. Exit code
3 when it does not fit. Speeds are those of one request alone, from rates that are measured just before: decoding with
half the context filled, and reading a prompt of 512 tokens. Streamed experts are expected to be chosen as often as in
MODEL.frank-usage or --hotness, and else evenly.

A machine file is TOML, and `frank probe --toml` writes one; sizes are bytes or texts like \"64GiB\", bandwidths are
sizes per second, arithmetic is multiply-adds per second:
  [host]      ram, cores
  [[device]]  id, kind (\"cpu\"), total, free; optionally headroom, bandwidth, arithmetic, part_of
  [[drive]]   path; optionally bandwidth";

/// Plan the memory of a model: what it takes, whether it fits, and what to change if not
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Fit {
    /// Path of a .gguf file (any part of a split model), a name that `frank list` shows, or a reference
    #[arg(value_name = "MODEL")]
    model: OsString,

    /// Plan for the machine that this TOML file describes, instead of this one
    #[arg(long, value_name = "FILE")]
    machine: Option<PathBuf>,

    /// Do not take the time that measuring this machine takes, less than a second; speeds are then not told
    #[arg(long, conflicts_with = "machine")]
    no_measure: bool,

    /// Write the plan as a picture to this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Find the most that fits beside the other options, and say which options give it: tokens of context for each
    /// request, requests at the same time, or experts that stay in memory
    #[arg(long, value_name = "WHAT")]
    optimize: Option<Aim>,

    /// Print one JSON object; a speed that cannot be told without a measurement is null
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    cache: CacheOptions,

    #[command(flatten)]
    options: ModelOptions,
}

/// What `--optimize` makes as large as it can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Aim {
    Context,
    Requests,
    Experts,
}

impl From<Aim> for Goal {
    fn from(aim: Aim) -> Self {
        match aim {
            Aim::Context => Self::Context,
            Aim::Requests => Self::Requests,
            Aim::Experts => Self::Experts,
        }
    }
}

/// What `frank fit --json` prints.
#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    outcome: &'a Outcome,
    /// Options that give this plan, with `--optimize` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    options: Option<&'a [String]>,
}

impl Fit {
    /// Prints the plan to stdout.
    ///
    /// # Errors
    /// Exit code 3 when it does not fit, after it was printed too.
    pub(crate) fn run(mut self) -> anyhow::Result<()> {
        self.cache.check_effect()?;
        self.options.cache = std::mem::take(&mut self.cache);
        let svg_place = self.svg.as_deref().map(SvgPlace::take).transpose()?;
        let file = open_header(&self.model)?;
        let mut needs = self.options.needs(&file.header)?;
        needs.warnings.extend(cut_off(&file));
        let machine = self.options.with_pools(self.machine()?)?;
        let limits = self.options.limits(&machine, &needs)?;
        let usage = Usage::read(&file, &needs).map(|usage| usage.or_given(&limits));
        self.options.router_bias(&needs)?;
        let result = match self.optimize {
            Some(aim) => optimize(&needs, &machine, &limits, aim.into()),
            None => plan(&needs, &machine, &limits),
        };
        let mut outcome = Outcome::from(result);
        if outcome.fits {
            self.options.check_streaming(&outcome.plan)?;
        }
        if outcome.fits && outcome.plan.experts.stream > 0 {
            let learned = usage.as_ref().and_then(Usage::learned);
            let (plan, io) = (&mut outcome.plan, self.options.io());
            if self.measures() {
                predict_streamed(plan, (&file, &needs), machine, io, learned);
            } else {
                plan.predict_on(&needs, &machine, learned);
            }
        }
        if let Some(place) = svg_place {
            place.write(&svg(&outcome))?;
        }
        self.print(&outcome)?;
        match &outcome.refusal {
            Some(refusal) => Err(Failure::from(refusal).into()),
            None => Ok(()),
        }
    }

    /// Whether speeds are told from what this machine does now.
    fn measures(&self) -> bool {
        self.machine.is_none() && !self.no_measure
    }

    fn machine(&self) -> anyhow::Result<Machine> {
        match &self.machine {
            Some(path) => machine_from(path),
            None if self.no_measure => this_machine(),
            None => Ok(measured(this_machine()?, &self.options)),
        }
    }

    fn print(&self, outcome: &Outcome) -> anyhow::Result<()> {
        let aim = self.optimize.filter(|_| outcome.fits);
        let options = aim.map(|aim| options_of(&outcome.plan, aim));
        if self.json {
            let answer = Answer { outcome, options: options.as_deref() };
            return print(&(serde_json::to_string_pretty(&answer)? + "\n"));
        }
        let text = table(&outcome.plan) + "\n" + &bars(&outcome.plan, Look::of_stdout());
        let advice = options.map_or_else(String::new, |options| match options.as_slice() {
            [] => "\nevery expert stays in memory as it is\n".to_owned(),
            options => format!("\nuse {}\n", options.join(" ")),
        });
        print(&(text + &advice))
    }
}

/// The options that give `plan`, as far as they are about what was made large.
fn options_of(plan: &Plan, aim: Aim) -> Vec<String> {
    match aim {
        Aim::Context => vec![format!("--ctx-size {}", plan.ctx_size)],
        Aim::Requests => vec![format!("--parallel {}", plan.parallel)],
        Aim::Experts => expert_options(plan),
    }
}

/// What leaves most experts resident is the right size of the cache for the others; none is needed where all are.
fn expert_options(plan: &Plan) -> Vec<String> {
    let caches = plan.devices.iter().filter(|device| device.uses.stream_cache > 0);
    let option = |device: &DevicePlan| {
        let size = Size(device.uses.stream_cache).exact();
        format!("--stream-cache {}={size}", device.id)
    };
    caches.map(option).collect()
}
