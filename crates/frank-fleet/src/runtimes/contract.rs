//! What every runtime owes an endpoint: its port and alias, the files, devices and image that it needs, its keys. Never
//! an option of one runtime.

mod build;
mod devices;
mod files;
mod keys;

use std::collections::BTreeMap;

use super::Arg;
use super::options::{Given, OptionList};
use crate::fault::Fault;
use crate::fleet_file::secret_place;
use crate::placement::Placement;
use crate::workload::{
    Env, EnvValue, Gate, Image, LogRules, Program, Published, Readiness, Workload,
};

pub(super) use devices::{DeviceId, chosen, facts, kinds, renumbered};
pub(super) use files::model_folder;
pub(super) use keys::{KeyWay, key_arg};

/// Seconds until a runtime that reads its weights in one go must answer.
pub(super) const START_PERIOD: u64 = 1800;

/// Seconds until a runtime that also compiles or sorts experts must answer.
pub(super) const LONG_START_PERIOD: u64 = 2400;

/// What a runtime adds to what all have in common.
pub(super) struct Parts<'a> {
    /// Its program on a host that names none.
    pub(super) program: &'static str,
    /// What takes the place of an image's entry point, where none is named.
    pub(super) entrypoint: Option<&'static str>,
    /// Its arguments.
    pub(super) args: Vec<Arg>,
    /// Its options, of which some name files.
    pub(super) given: &'a [Given<'a>],
    /// Variables that it needs, beside those of the endpoint.
    pub(super) env: Vec<Env>,
    /// How it takes keys.
    pub(super) keys: KeyWay,
    /// Seconds until it must answer.
    pub(super) start_period: u64,
    /// Path that answers 200 when it is ready.
    pub(super) health: String,
    /// Family of its metrics.
    pub(super) metrics: Option<&'static str>,
    /// What its log must, may and must not say.
    pub(super) log: LogRules,
    /// Gates beside those of its files.
    pub(super) gates: Vec<Gate>,
    /// Whether what it may hold is a limit of the system, since it keeps none itself.
    pub(super) is_limited: bool,
}

/// Place of a field of an endpoint.
pub(super) fn place(placement: &Placement<'_>, field: &str) -> String {
    format!("endpoints.{}.{field}", placement.name)
}

/// An argument that a field of an endpoint asks for.
pub(super) fn arg(placement: &Placement<'_>, field: &str, words: &[&str]) -> Arg {
    let words = words.iter().map(|word| (*word).to_owned()).collect();
    Arg { place: place(placement, field), words }
}

/// Address that the program listens on: that of the endpoint, or all of a container, whose published port has the address.
pub(super) fn listen_address<'a>(placement: &Placement<'a>) -> &'a str {
    if placement.endpoint.image.is_some() { "0.0.0.0" } else { placement.endpoint.address() }
}

/// Its draft model, by its path: a draft that is only told by a name or lies in a folder of its own is found by nobody.
pub(super) fn draft_arg(placement: &Placement<'_>, option: &str) -> Option<Arg> {
    let words = [&format!("--{option}"), placement.draft_path?];
    Some(model_arg(placement, "draft", &words))
}

/// An argument that a field of an endpoint's model asks for.
pub(super) fn model_arg(placement: &Placement<'_>, field: &str, words: &[&str]) -> Arg {
    let place = format!("models.{}.{field}", placement.endpoint.model);
    Arg { place, words: words.iter().map(|word| (*word).to_owned()).collect() }
}

/// What is wrong with a placement whatever its runtime is.
pub(super) fn check(placement: &Placement<'_>, keys: KeyWay) -> Vec<Fault> {
    let mut faults = devices::check(placement);
    faults.extend(build::check(placement));
    faults.extend(keys::key_fault(placement, keys));
    faults.extend(projector_fault(placement));
    if placement.endpoint.slots == Some(0) || placement.endpoint.context == Some(0) {
        let message = "an endpoint has at least one slot and one token of context";
        faults.push(Fault::error("bad_value", place(placement, "slots"), message));
    }
    let budget = placement.endpoint.memory_budget.as_deref();
    if let Some(Err(error)) = budget.map(frank_plan::parse_size) {
        let place = place(placement, "memory-budget");
        faults.push(Fault::error("bad_value", place, error.to_string()));
    }
    faults
}

/// A vision endpoint without a projector would come up as one that reads no images.
fn projector_fault(placement: &Placement<'_>) -> Option<Fault> {
    let is_missing = placement.endpoint.vision
        && placement.model.projector.is_some()
        && placement.projector_path.is_none();
    let message =
        "the projector of a vision endpoint is not there, and without it no image is read";
    is_missing.then(|| Fault::error("missing_projector", place(placement, "vision"), message))
}

/// The program of a placement.
pub(super) fn workload(placement: &Placement<'_>, parts: Parts<'_>) -> Workload {
    let endpoint = placement.endpoint;
    let words: Vec<String> = parts.args.iter().flat_map(|arg| arg.words.clone()).collect();
    let gates = files::gates(placement, &parts);
    let is_container = endpoint.image.is_some();
    let inner = endpoint.port;
    let published = Published { address: endpoint.address().to_owned(), port: inner, inner };
    let budget =
        endpoint.memory_budget.as_deref().and_then(|text| frank_plan::parse_size(text).ok());
    Workload {
        name: workload_name(placement.name),
        description: format!("{} with {} on port {inner}", endpoint.alias, endpoint.runtime),
        program: program(placement, &parts, words),
        env: env(placement, &parts),
        mounts: if is_container { files::mounts(placement, &parts, &gates) } else { Vec::new() },
        devices: devices::devices(placement),
        published: if is_container { vec![published] } else { Vec::new() },
        readiness: Readiness {
            path: parts.health,
            port: inner,
            start_period: endpoint.verify.start_period.unwrap_or(parts.start_period),
            command: None,
        },
        memory_limit: budget.filter(|_| parts.is_limited),
        // GPU drivers pin what they copy, and the eight MiB of a shell are soon used up.
        locks_memory: true,
        shared_memory: None,
        workers: None,
        storage: None,
        gates,
        log: log_rules(placement, parts.log),
        metrics: parts.metrics,
        labels: labels(placement),
    }
}

/// The name of an endpoint's program on its host.
pub(super) fn workload_name(name: &str) -> String {
    let plain = |char: char| if char.is_ascii_alphanumeric() { char } else { '-' };
    format!("frank-{}", name.chars().map(plain).collect::<String>())
}

fn program(placement: &Placement<'_>, parts: &Parts<'_>, words: Vec<String>) -> Program {
    let named = placement.endpoint.program.as_deref();
    match &placement.endpoint.image {
        Some(image) => Program::Container {
            image: Image { reference: image.clone() },
            entrypoint: named.or(parts.entrypoint).map(str::to_owned),
            args: words,
        },
        None => {
            let program = named.unwrap_or(parts.program).to_owned();
            Program::Host { argv: std::iter::once(program).chain(words).collect() }
        }
    }
}

/// Variables of the endpoint, and those that its runtime needs and it does not set.
fn env(placement: &Placement<'_>, parts: &Parts<'_>) -> Vec<Env> {
    let mut by_name: BTreeMap<String, EnvValue> = BTreeMap::new();
    let needed = parts.env.iter().cloned().chain(devices::visible(placement));
    for env in needed.chain(keys::key_variable(placement, parts.keys)) {
        by_name.insert(env.name, env.value);
    }
    for (name, value) in &placement.endpoint.env {
        let value = match secret_place(value) {
            Some(_) => EnvValue::Secret(value.clone()),
            None => EnvValue::Plain(value.clone()),
        };
        by_name.insert(name.clone(), value);
    }
    by_name.into_iter().map(|(name, value)| Env { name, value }).collect()
}

/// Rules of a runtime, and those of the endpoint.
fn log_rules(placement: &Placement<'_>, mut rules: LogRules) -> LogRules {
    let verify = &placement.endpoint.verify;
    rules.must.extend(verify.log_must.iter().cloned());
    rules.must_not.extend(verify.log_must_not.iter().cloned());
    rules
}

/// A part of a line as a regular expression that means it literally.
pub(super) fn literally(part: &str) -> String {
    let mut pattern = String::with_capacity(part.len());
    for char in part.chars() {
        if r"\.+*?()|[]{}^$-#&~".contains(char) {
            pattern.push('\\');
        }
        pattern.push(char);
    }
    pattern
}

fn labels(placement: &Placement<'_>) -> BTreeMap<String, String> {
    let endpoint = placement.endpoint;
    let alias = ("frank.alias".to_owned(), endpoint.alias.clone());
    let name = ("frank.endpoint".to_owned(), placement.name.to_owned());
    BTreeMap::from([alias, name, ("frank.runtime".to_owned(), endpoint.runtime.clone())])
}

/// Defaults of a list, as claims that a build can contradict.
pub(super) fn claims(list: &OptionList) -> Vec<super::DefaultClaim> {
    let rows = list.rows().iter();
    rows.filter_map(|row| {
        let default = row.default?.to_owned();
        Some(super::DefaultClaim { option: row.name.to_owned(), default })
    })
    .collect()
}
