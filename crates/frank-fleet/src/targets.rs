//! The table of targets: what keeps a program running on a host.

mod kubernetes;
mod process;
mod quadlet;
mod systemd;
mod unit_file;
mod unit_keys;

pub use quadlet::quadlet_key_faults;
pub use systemd::unit_key_faults;

use crate::fault::Fault;
use crate::host_facts::HostFacts;
use crate::workload::{Env, EnvValue, Program, Workload};

/// What keeps programs running.
#[derive(Debug)]
pub struct Target {
    /// Its name in `frank.toml`.
    pub name: &'static str,
    /// What is wrong with running a program there.
    pub check: fn(&TargetInput<'_>) -> Vec<Fault>,
    /// The files of a program without errors.
    pub render: fn(&TargetInput<'_>) -> Vec<RenderedFile>,
    /// Where the secrets of a program have to be before it starts.
    pub secrets: fn(&TargetInput<'_>) -> Vec<NeededSecret>,
}

/// A program for a host.
#[derive(Clone, Copy, Debug)]
pub struct TargetInput<'a> {
    /// The program.
    pub workload: &'a Workload,
    /// What is known of the host.
    pub facts: &'a HostFacts,
    /// Where it stands in `frank.toml`, as `endpoints.chat`.
    pub place: &'a str,
}

/// A file that frank writes on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedFile {
    /// Its path; `~` at its head is the home of the user that owns it.
    pub path: String,
    /// Permissions, as `0o644`.
    pub mode: u32,
    /// Its content. Never a secret.
    pub content: String,
}

/// A secret that a program reads from its environment, and where a target looks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeededSecret {
    /// The variable.
    pub variable: String,
    /// Where the secret comes from, as `env:NAME`, `file:PATH` or `credential:NAME`.
    pub source: String,
    /// Where the target looks for it.
    pub store: SecretStore,
}

/// Where a target looks for a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretStore {
    /// A line `VARIABLE=value` of this file, which only its owner may read.
    EnvFile(String),
    /// All of this file, which only its owner may read.
    File(String),
    /// podman's secret of this name.
    Podman(String),
    /// This key of the Kubernetes secret `object`.
    Kubernetes {
        /// Name of the secret.
        object: String,
        /// Key in it.
        key: String,
    },
}

/// Every target.
pub static TARGETS: &[Target] =
    &[systemd::SYSTEM, systemd::USER, quadlet::QUADLET, process::PROCESS, kubernetes::KUBERNETES];

/// What is wrong with a program wherever it shall run.
fn program_faults(input: &TargetInput<'_>) -> Vec<Fault> {
    let (workload, place) = (input.workload, input.place);
    let mut faults = Vec::new();
    if !is_name(&workload.name) {
        let message =
            format!("the name {:?} is not made of letters, digits and dashes", workload.name);
        faults.push(Fault::error("name", place, message));
    }
    let variables = workload.env.iter().map(|env| &env.name);
    for name in variables.filter(|name| !is_variable(name)) {
        let message = format!("{name:?} is no name of an environment variable");
        faults.push(Fault::error("variable", format!("{place}.env"), message));
    }
    if texts(workload).any(|text| text.contains('\0')) {
        let message =
            "an argument, a variable or a path holds a zero byte, which no program can be given";
        faults.push(Fault::error("zero_byte", place, message));
    }
    faults
}

/// The faults of a program of the host: that it is none, or has no absolute path.
fn host_program_faults(input: &TargetInput<'_>, target: &str) -> Vec<Fault> {
    let mut faults = worker_faults(input, target);
    match &input.workload.program {
        Program::Host { argv } if argv.first().is_some_and(|path| path.starts_with('/')) => {}
        Program::Host { argv } => {
            let path = argv.first().map_or("", String::as_str);
            let message = format!("the program {path:?} has no absolute path");
            faults.push(Fault::error("program_path", format!("{}.program", input.place), message));
        }
        Program::Container { .. } => {
            let message =
                format!("the target {target} runs programs of the host, and this one has an image");
            let fault = Fault::error("container", format!("{}.target", input.place), message);
            faults.push(
                fault.hint(
                    "take the target quadlet or kubernetes, or a program instead of an image",
                ),
            );
        }
    }
    faults
}

/// The faults of a container: that it is none, or has no image that can be named in a file.
fn container_faults(input: &TargetInput<'_>, target: &str) -> Vec<Fault> {
    match &input.workload.program {
        Program::Container { image, .. } if is_image(&image.reference) => Vec::new(),
        Program::Container { image, .. } => {
            let message = format!("{:?} is no reference of an image", image.reference);
            vec![Fault::error("image", format!("{}.image", input.place), message)]
        }
        Program::Host { .. } => {
            let message = format!("the target {target} runs containers, and there is no image");
            let fault = Fault::error("no_image", format!("{}.target", input.place), message);
            vec![fault.hint("take the target systemd, systemd-user or process, or an image instead of a program")]
        }
    }
}

/// The fault of workers on other machines where a target starts none.
fn worker_faults(input: &TargetInput<'_>, target: &str) -> Vec<Fault> {
    if input.workload.workers.is_none() {
        return Vec::new();
    }
    let message =
        format!("the target {target} starts no workers on other machines; kubernetes does");
    vec![Fault::error("workers", format!("{}.target", input.place), message)]
}

/// The fault of units of a user who is not remembered when nobody is logged in.
fn linger_faults(input: &TargetInput<'_>) -> Vec<Fault> {
    if input.facts.linger != Some(false) {
        return Vec::new();
    }
    let message = "units of this user end with its last session and do not start with the host";
    vec![
        Fault::error("no_linger", input.place, message)
            .hint("run `loginctl enable-linger` as this user on the host"),
    ]
}

/// Variables whose values are in the files.
fn plain_env(workload: &Workload) -> impl Iterator<Item = (&str, &str)> {
    workload.env.iter().filter_map(|Env { name, value }| match value {
        EnvValue::Plain(value) => Some((name.as_str(), value.as_str())),
        EnvValue::Secret(_) => None,
    })
}

/// Variables whose values never are in a file, with where they come from.
fn secret_env(workload: &Workload) -> impl Iterator<Item = (&str, &str)> {
    workload.env.iter().filter_map(|Env { name, value }| match value {
        EnvValue::Secret(source) => Some((name.as_str(), source.as_str())),
        EnvValue::Plain(_) => None,
    })
}

/// The secrets of a program, each at the place of its variable.
fn needed_secrets(workload: &Workload, store: impl Fn(&str) -> SecretStore) -> Vec<NeededSecret> {
    let needed = |(variable, source): (&str, &str)| NeededSecret {
        variable: variable.to_owned(),
        source: source.to_owned(),
        store: store(variable),
    };
    secret_env(workload).map(needed).collect()
}

/// Lines for people at the head of a file, without what marks them as comments.
fn heading(input: &TargetInput<'_>) -> Vec<String> {
    let workload = input.workload;
    let mut lines = vec![
        one_line(&format!("{}: {}", workload.name, workload.description)),
        one_line(&format!("Written by frank from {}; what is changed here is lost.", input.place)),
    ];
    lines.extend(workload.labels.iter().map(|(key, value)| one_line(&format!("{key}: {value}"))));
    lines
}

/// The text in one line that ends in no backslash, which would join it with the next one.
fn one_line(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    line.trim().trim_end_matches('\\').trim_end().to_owned()
}

/// Every text that a program or its files get as it is.
fn texts(workload: &Workload) -> impl Iterator<Item = &str> {
    let program: &[String] = match &workload.program {
        Program::Host { argv } => argv,
        Program::Container { args, .. } => args,
    };
    let entrypoint = match &workload.program {
        Program::Container { entrypoint, .. } => entrypoint.as_deref(),
        Program::Host { .. } => None,
    };
    let mounts = workload.mounts.iter().flat_map(|mount| [&mount.source, &mount.target]);
    let plain = plain_env(workload).map(|(_, value)| value);
    program.iter().chain(mounts).map(String::as_str).chain(entrypoint).chain(plain)
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Whether an image's reference holds only what references are made of: nothing that a file would expand.
fn is_image(reference: &str) -> bool {
    reference.starts_with(|c: char| c.is_ascii_alphanumeric())
        && reference.chars().all(|c| c.is_ascii_alphanumeric() || "./:@_-+".contains(c))
}
