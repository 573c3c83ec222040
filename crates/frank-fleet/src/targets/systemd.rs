//! The targets `systemd` and `systemd-user`: a service unit of the host's systemd, or of that of a user. Runs no containers.

use crate::fault::Fault;
use crate::host_facts::HostFacts;
use crate::workload::Program;

use super::unit_file::{Expands, UnitFile, unit_word};
use super::unit_keys::{Read, SYSTEMD_KEYS, first_version, key_faults};
use super::{
    NeededSecret, RenderedFile, SecretStore, Target, TargetInput, heading, host_program_faults,
    linger_faults, needed_secrets, one_line, plain_env, program_faults, secret_env,
};

/// Units of the host.
pub(super) const SYSTEM: Target = Target {
    name: "systemd",
    check: |input| check(input, Scope::System),
    render: |input| render(input, Scope::System),
    secrets: |input| secrets(input, Scope::System),
};

/// Units of a user.
pub(super) const USER: Target = Target {
    name: "systemd-user",
    check: |input| check(input, Scope::User),
    render: |input| render(input, Scope::User),
    secrets: |input| secrets(input, Scope::User),
};

/// The first systemd that calls a service started only once its program could be executed.
const FIRST_WITH_EXEC: u32 = 240;
/// Seconds between an end and the next start: more than systemd's limit on starts allows to be counted.
pub(super) const RESTART_SECONDS: u32 = 5;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    System,
    User,
}

impl Scope {
    fn target(self) -> &'static str {
        match self {
            Self::System => SYSTEM.name,
            Self::User => USER.name,
        }
    }

    /// The file as `RenderedFile` names it.
    fn unit_path(self, name: &str) -> String {
        match self {
            Self::System => format!("/etc/systemd/system/{name}.service"),
            Self::User => format!("~/.config/systemd/user/{name}.service"),
        }
    }

    /// The folder of settings, as a unit names it and as `RenderedFile` does.
    fn settings(self) -> (&'static str, &'static str) {
        match self {
            Self::System => ("/etc/frank", "/etc/frank"),
            Self::User => ("%h/.config/frank", "~/.config/frank"),
        }
    }

    fn wanted_by(self) -> &'static str {
        match self {
            Self::System => "multi-user.target",
            Self::User => "default.target",
        }
    }
}

/// Faults for keys of a unit file that systemd `version` does not know, as systemd itself only warns of them.
pub fn unit_key_faults(place: &str, file: &str, text: &str, version: u32) -> Vec<Fault> {
    let read = Read { place, file, reader: &format!("systemd {version}") };
    key_faults(text, read, &version, |entry| first_version(SYSTEMD_KEYS, entry))
}

fn check(input: &TargetInput<'_>, scope: Scope) -> Vec<Fault> {
    let mut faults = program_faults(input);
    faults.extend(host_program_faults(input, scope.target()));
    if scope == Scope::User {
        faults.extend(linger_faults(input));
    }
    let Some(version) = input.facts.systemd else {
        faults.push(no_systemd(input));
        return faults;
    };
    let file = format!("{}.service", input.workload.name);
    faults.extend(unit_key_faults(input.place, &file, &unit(input, scope), version));
    faults
}

fn no_systemd(input: &TargetInput<'_>) -> Fault {
    let message = "no systemd is known to run on the host";
    let fault = Fault::error("no_systemd", format!("{}.target", input.place), message);
    fault.hint("run `frank probe` for the host, or take the target process")
}

fn render(input: &TargetInput<'_>, scope: Scope) -> Vec<RenderedFile> {
    let path = scope.unit_path(&input.workload.name);
    vec![RenderedFile { path, mode: 0o644, content: unit(input, scope) }]
}

fn secrets(input: &TargetInput<'_>, scope: Scope) -> Vec<NeededSecret> {
    let path = format!("{}/secrets/{}.env", scope.settings().1, input.workload.name);
    needed_secrets(input.workload, |_| SecretStore::EnvFile(path.clone()))
}

fn unit(input: &TargetInput<'_>, scope: Scope) -> String {
    let workload = input.workload;
    let mut unit = UnitFile::with_heading(&heading(input));
    unit.section("Unit");
    unit.entry("Description", one_line(&workload.description).replace('%', "%%"));
    // The systemd of a user has no such target, and starts when the host has its network.
    if scope == Scope::System {
        unit.entry("Wants", "network-online.target");
        unit.entry("After", "network-online.target");
    }
    unit.section("Service");
    unit.entry("Type", service_type(input.facts));
    unit.entry("ExecStart", command_line(&workload.program));
    for (name, value) in plain_env(workload) {
        unit.entry("Environment", unit_word(&format!("{name}={value}"), Expands::Specifiers));
    }
    if secret_env(workload).next().is_some() {
        unit.entry(
            "EnvironmentFile",
            format_args!("{}/secrets/{}.env", scope.settings().0, workload.name),
        );
    }
    unit.entry("Restart", "always");
    unit.entry("RestartSec", RESTART_SECONDS);
    // What a login shell may lock is a few MiB, and programs fail at it with other words.
    unit.entry("LimitMEMLOCK", "infinity");
    if let Some(bytes) = workload.memory_limit {
        unit.entry("MemoryMax", bytes);
    }
    unit.entry("NoNewPrivileges", "yes");
    if scope == Scope::System {
        unit.entry("ProtectSystem", "full");
    }
    unit.section("Install");
    unit.entry("WantedBy", scope.wanted_by());
    unit.finish()
}

fn service_type(facts: &HostFacts) -> &'static str {
    if facts.systemd.is_some_and(|version| version < FIRST_WITH_EXEC) { "simple" } else { "exec" }
}

fn command_line(program: &Program) -> String {
    let Program::Host { argv } = program else { return String::new() };
    let word = |(index, word): (usize, &String)| {
        // Variables are put in the place of arguments, never into the path of the program.
        let expands =
            if index == 0 { Expands::Specifiers } else { Expands::SpecifiersAndVariables };
        unit_word(word, expands)
    };
    argv.iter().enumerate().map(word).collect::<Vec<_>>().join(" ")
}
