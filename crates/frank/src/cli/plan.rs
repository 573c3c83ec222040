//! `frank plan`: what would change on which host of a fleet, and whether it may. Never changes anything.

mod given;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use frank_fleet::{Fault, Fleet, FleetFile, FleetPlan, Located, Tables, check, plan};
use frank_os::read_small_file;
use serde::Serialize;

use self::given::Given;
use crate::report::{Code, Failure, print, printable, tell};

const EXAMPLES: &str = "\
Examples:
  frank plan                         what would change on the hosts of frank.toml
  frank plan --changed               only the names of endpoints and apps that would
  frank plan --json | jq '.hosts[].memory'
  frank plan --facts hosts           with what each host has from hosts/NAME.json
  frank plan --schema                what a frank.toml may say, as a JSON schema

Says for each host which files and payloads change, what must hold before anything stops, what stops
and for how long, and whether all endpoints together fit in its memory. Exit code 2 when the file is
at fault, with line and column, and 3 when something does not fit or may not be done.";

/// No fleet is described in more.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Say what would change on the hosts of a fleet, and change nothing
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Plan {
    /// The fleet's file
    #[arg(value_name = "FILE", default_value = "frank.toml")]
    file: PathBuf,

    /// A folder with NAME.json for each host, what it has [default: only of hosts that are this machine]
    #[arg(long, value_name = "DIR")]
    facts: Option<PathBuf>,

    /// The folder with NAME.json for each host that something was applied to [default: .frank beside the file]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,

    /// Print only the names of endpoints and apps that would change
    #[arg(long)]
    changed: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// Print what a frank.toml may say, as a JSON schema
    #[arg(long, conflicts_with_all = ["changed", "json"])]
    schema: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Answer<'a> {
    /// Whether everything may be done.
    allowed: bool,
    /// What is wrong, with line and column in the file.
    faults: &'a [Located],
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    plan: Option<&'a FleetPlan>,
    /// Names of endpoints and apps that would change.
    changed: Vec<&'a str>,
    /// Which of them are made from each path.
    paths: BTreeMap<&'a str, Vec<&'a str>>,
}

impl Plan {
    /// Prints the plan to stdout, and what is wrong to stderr.
    ///
    /// # Errors
    /// Exit code 2 when the file is at fault, and 3 when something may not be done.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        if self.schema {
            return print(&(serde_json::to_string_pretty(&FleetFile::schema())? + "\n"));
        }
        let (fleet, mut faults) = match Fleet::read(&self.text()?) {
            Ok(fleet) => {
                let faults = check(&fleet.file, &Tables::all());
                let located = faults.into_iter().map(|fault| fleet.locate(fault)).collect();
                (fleet, located)
            }
            Err(faults) => (Fleet::default(), faults),
        };
        if has_errors(&faults) {
            return self.end(&faults, None, Code::Usage);
        }
        let given = Given::collect(&fleet.file, self)?;
        let plan = plan(&given.input(&fleet.file));
        faults.extend(plan.faults().map(|fault: &Fault| fleet.locate(fault.clone())));
        self.end(&faults, Some(&plan), Code::Refused)
    }

    fn text(&self) -> anyhow::Result<String> {
        let fact = || {
            let failure = Failure::usage(format!("cannot read {}", self.file.display()));
            failure.hint("`frank init` writes a first one")
        };
        let bytes = read_small_file(&self.file, FILE_BYTES_MAX).with_context(fact)?;
        String::from_utf8(bytes).context("it is not UTF-8 text").with_context(fact)
    }

    /// Says what is wrong and prints the plan; `code` is that of an error among `faults`.
    fn end(&self, faults: &[Located], plan: Option<&FleetPlan>, code: Code) -> anyhow::Result<()> {
        if self.json {
            print(&answer(faults, plan, self.changed)?)?;
        } else {
            faults.iter().for_each(|fault| tell(&self.told(fault)));
            print(&text(plan, self.changed))?;
        }
        let n_errors = faults.iter().filter(|fault| fault.fault.is_error()).count();
        let file = self.file.display();
        match (n_errors, code) {
            (0, _) => Ok(()),
            (1, Code::Usage) => Err(Failure::new(code, format!("{file} has a fault")).into()),
            (n, Code::Usage) => Err(Failure::new(code, format!("{file} has {n} faults")).into()),
            (1, _) => Err(Failure::new(code, "nothing may be done: there is an error").into()),
            (n, _) => Err(Failure::new(code, format!("nothing may be done: {n} errors")).into()),
        }
    }

    /// A fault on one line, as compilers write them.
    fn told(&self, located: &Located) -> String {
        let Located { line, column, fault } = located;
        let kind = if fault.is_error() { "error" } else { "warning" };
        let hint = fault.hint.as_ref().map_or_else(String::new, |hint| format!(" ({hint})"));
        let message = printable(&format!("{}{hint}", fault.message));
        format!("{}:{line}:{column}: {kind}: {}: {message}", self.file.display(), fault.place)
    }
}

fn has_errors(faults: &[Located]) -> bool {
    faults.iter().any(|fault| fault.fault.is_error())
}

fn text(plan: Option<&FleetPlan>, only_changed: bool) -> String {
    match plan {
        None => String::new(),
        Some(plan) if only_changed => {
            plan.changed().into_iter().map(|name| format!("{name}\n")).collect()
        }
        Some(plan) => plan.to_string(),
    }
}

fn answer(
    faults: &[Located],
    plan: Option<&FleetPlan>,
    only_changed: bool,
) -> anyhow::Result<String> {
    let changed = plan.map(|plan| plan.changed().into_iter().collect()).unwrap_or_default();
    let paths = plan.map(FleetPlan::paths).unwrap_or_default();
    let answer = Answer {
        allowed: plan.is_some() && !has_errors(faults),
        faults,
        plan: plan.filter(|_| !only_changed),
        changed,
        paths: paths.into_iter().map(|(path, names)| (path, names.into_iter().collect())).collect(),
    };
    Ok(serde_json::to_string_pretty(&answer)? + "\n")
}
