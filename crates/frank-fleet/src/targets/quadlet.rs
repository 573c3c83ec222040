//! The target `quadlet`: a container unit that podman's generator makes a service of. Only what is published is reached.

mod keys;

use std::net::IpAddr;

use crate::fault::Fault;
use crate::host_facts::HostFacts;
use crate::workload::{Device, Mount, Program, Published, Readiness, Workload};

use keys::{CONTAINER_KEYS, PodmanVersion};

use super::systemd::RESTART_SECONDS;
use super::unit_file::{Expands, UnitFile, unit_word, whole_value};
use super::unit_keys::{Read, SYSTEMD_KEYS, first_version, key_faults};
use super::{
    NeededSecret, RenderedFile, SecretStore, Target, TargetInput, container_faults, heading,
    linger_faults, needed_secrets, one_line, plain_env, program_faults, secret_env, worker_faults,
};

/// Containers that podman keeps as services of systemd.
pub(super) const QUADLET: Target = Target { name: "quadlet", check, render, secrets };

/// Everything in a `[Container]` ends up on a command line in a unit.
const EXPANDS: Expands = Expands::SpecifiersAndVariables;
/// Seconds that a start may take beyond the time until a container must be healthy: to make it, and to fail its checks.
const START_MARGIN_SECONDS: u64 = 180;

/// Faults for keys of a `.container` file that podman `version` does not know: its generator makes no unit of such a file, and
/// says so where nobody looks.
///
/// `version` is what podman says, as `5.4.2` or `4.9.4-rhel`; one that cannot be read is a fault.
pub fn quadlet_key_faults(place: &str, file: &str, text: &str, version: &str) -> Vec<Fault> {
    let Some(podman) = PodmanVersion::read(version) else {
        let message = format!("{version:?} is no version of podman");
        return vec![Fault::error("no_podman", place, message)];
    };
    let read = Read { place, file, reader: &format!("podman {version}") };
    key_faults(text, read, &podman, |entry| {
        let systemd =
            first_version(SYSTEMD_KEYS, entry).map(|_| PodmanVersion::FIRST_WITH_QUADLETS);
        systemd.or_else(|| first_version(CONTAINER_KEYS, entry))
    })
}

fn check(input: &TargetInput<'_>) -> Vec<Fault> {
    let mut faults = program_faults(input);
    faults.extend(container_faults(input, QUADLET.name));
    faults.extend(worker_faults(input, QUADLET.name));
    if !is_root(input.facts) {
        faults.extend(linger_faults(input));
    }
    faults.extend(unwritable(input));
    faults.extend(version_faults(input));
    faults
}

/// What is wrong with the host's podman, and with the file for it.
fn version_faults(input: &TargetInput<'_>) -> Vec<Fault> {
    let fault = |message: String| {
        let fault = Fault::error("no_podman", format!("{}.target", input.place), message);
        vec![fault.hint("podman 4.4 is the first with quadlets, 5.0 the first that waits until a container is healthy")]
    };
    let Some(version) = &input.facts.podman else {
        return fault("no podman is known on the host".to_owned());
    };
    match PodmanVersion::read(version) {
        Some(podman) if podman < PodmanVersion::FIRST_WITH_QUADLETS => {
            fault(format!("podman {version} has no quadlets"))
        }
        _ => {
            let file = format!("{}.container", input.workload.name);
            quadlet_key_faults(input.place, &file, &unit(input), version)
        }
    }
}

/// What cannot be written into a quadlet so that the container gets it as it is.
fn unwritable(input: &TargetInput<'_>) -> Vec<Fault> {
    let Program::Container { entrypoint, args, .. } = &input.workload.program else {
        return Vec::new();
    };
    let place = input.place;
    let mut faults = Vec::new();
    if args.iter().any(|arg| arg.is_empty() || arg == ";") {
        // The generator writes both without quotes: the one is lost, the other ends the command.
        let message = "a quadlet cannot hand over an argument that is empty or a lone semicolon";
        faults.push(Fault::error("argument", place, message));
    }
    if entrypoint.as_ref().is_some_and(|path| whole_value(path, EXPANDS).is_none()) {
        faults.push(Fault::error(
            "argument",
            place,
            "a quadlet cannot hold this path of an entry point",
        ));
    }
    for mount in input.workload.mounts.iter().filter(|mount| volume(mount).is_none()) {
        let message = format!(
            "a quadlet cannot mount {:?} at {:?}: both must be absolute paths without colons, line breaks and blanks at an end",
            mount.source, mount.target
        );
        faults.push(Fault::error("mount", place, message));
    }
    for port in input.workload.published.iter().filter(|port| publish(port).is_none()) {
        let message =
            format!("{:?} is no address of the host that a port can be published at", port.address);
        faults.push(Fault::error("address", place, message));
    }
    faults
}

fn render(input: &TargetInput<'_>) -> Vec<RenderedFile> {
    let folder = if is_root(input.facts) {
        "/etc/containers/systemd"
    } else {
        "~/.config/containers/systemd"
    };
    let path = format!("{folder}/{}.container", input.workload.name);
    vec![RenderedFile { path, mode: 0o644, content: unit(input) }]
}

fn secrets(input: &TargetInput<'_>) -> Vec<NeededSecret> {
    let name = &input.workload.name;
    needed_secrets(input.workload, |variable| SecretStore::Podman(secret_name(name, variable)))
}

fn secret_name(name: &str, variable: &str) -> String {
    format!("{name}-{variable}")
}

fn is_root(facts: &HostFacts) -> bool {
    facts.user_id == Some(0)
}

/// What the host's podman can do; a podman that is not known is taken for the first one.
fn podman(facts: &HostFacts) -> PodmanVersion {
    let version = facts.podman.as_deref().and_then(PodmanVersion::read);
    version.unwrap_or(PodmanVersion::FIRST_WITH_QUADLETS)
}

fn unit(input: &TargetInput<'_>) -> String {
    let workload = input.workload;
    let mut unit = UnitFile::with_heading(&heading(input));
    unit.section("Unit");
    unit.entry("Description", one_line(&workload.description).replace('%', "%%"));
    unit.section("Container");
    let podman = podman(input.facts);
    push_program(&mut unit, workload, podman);
    push_surroundings(&mut unit, workload);
    push_devices(&mut unit, input, podman);
    push_health(&mut unit, &workload.readiness, podman);
    unit.section("Service");
    unit.entry("Restart", "always");
    unit.entry("RestartSec", RESTART_SECONDS);
    unit.entry("TimeoutStartSec", workload.readiness.start_period + START_MARGIN_SECONDS);
    unit.entry("LimitMEMLOCK", "infinity");
    // The container's control group is below that of its service, whatever podman's version.
    if let Some(bytes) = workload.memory_limit {
        unit.entry("MemoryMax", bytes);
    }
    // A generated unit cannot be enabled: this is what starts it with the host.
    unit.section("Install");
    unit.entry(
        "WantedBy",
        if is_root(input.facts) { "multi-user.target" } else { "default.target" },
    );
    unit.finish()
}

fn push_program(unit: &mut UnitFile, workload: &Workload, podman: PodmanVersion) {
    unit.entry("ContainerName", &workload.name);
    let Program::Container { image, entrypoint, args } = &workload.program else { return };
    unit.entry("Image", &image.reference);
    if let Some(path) = entrypoint {
        match whole_value(path, EXPANDS).filter(|_| podman.knows("Entrypoint")) {
            Some(path) => unit.entry("Entrypoint", path),
            None => push_option(unit, &format!("--entrypoint={path}")),
        }
    }
    if !args.is_empty() {
        let words: Vec<String> = args.iter().map(|arg| unit_word(arg, EXPANDS)).collect();
        unit.entry("Exec", words.join(" "));
    }
}

/// Environment, secrets, mounts, ports and labels.
fn push_surroundings(unit: &mut UnitFile, workload: &Workload) {
    for (name, value) in plain_env(workload) {
        unit.entry("Environment", unit_word(&format!("{name}={value}"), EXPANDS));
    }
    for (variable, _) in secret_env(workload) {
        let secret = secret_name(&workload.name, variable);
        unit.entry("Secret", format_args!("{secret},type=env,target={variable}"));
    }
    for volume in workload.mounts.iter().filter_map(volume) {
        unit.entry("Volume", volume);
    }
    for port in workload.published.iter().filter_map(publish) {
        unit.entry("PublishPort", port);
    }
    for (key, value) in &workload.labels {
        unit.entry("Label", unit_word(&format!("{key}={value}"), EXPANDS));
    }
}

fn push_devices(unit: &mut UnitFile, input: &TargetInput<'_>, podman: PodmanVersion) {
    let workload = input.workload;
    for device in &workload.devices {
        let (Device::Node(name) | Device::Cdi(name)) = device;
        unit.entry("AddDevice", unit_word(name, EXPANDS));
    }
    // Nodes belong to groups, as `render`, that a container of a user loses otherwise.
    let has_nodes = workload.devices.iter().any(|device| matches!(device, Device::Node(_)));
    if has_nodes && !is_root(input.facts) {
        push_key_or_option(unit, podman, "GroupAdd", "--group-add", "keep-groups");
    }
    if let Some(bytes) = workload.shared_memory {
        push_key_or_option(unit, podman, "ShmSize", "--shm-size", &bytes.to_string());
    }
}

/// Checks of health, and a start that lasts until they pass, where there is a command to ask with and podman knows how.
fn push_health(unit: &mut UnitFile, readiness: &Readiness, podman: PodmanVersion) {
    let Some(command) = readiness.command.as_ref().filter(|_| podman.knows("HealthCmd")) else {
        return;
    };
    let command = serde_json::Value::from(command.as_slice()).to_string();
    // JSON has no line breaks, and ends in a bracket.
    let Some(command) = whole_value(&command, EXPANDS) else { return };
    unit.entry("HealthCmd", command);
    unit.entry("HealthInterval", "10s");
    unit.entry("HealthTimeout", "10s");
    unit.entry("HealthRetries", 6);
    unit.entry("HealthStartPeriod", format_args!("{}s", readiness.start_period));
    if podman >= PodmanVersion::FIRST_THAT_WAITS_FOR_HEALTH {
        unit.entry("Notify", "healthy");
    }
}

/// An option by its key where podman knows it, and as a word of podman's command line where not.
fn push_key_or_option(
    unit: &mut UnitFile,
    podman: PodmanVersion,
    key: &str,
    option: &str,
    value: &str,
) {
    match podman.knows(key) {
        true => unit.entry(key, value),
        false => push_option(unit, &format!("{option}={value}")),
    }
}

fn push_option(unit: &mut UnitFile, option: &str) {
    unit.entry("PodmanArgs", unit_word(option, EXPANDS));
}

fn volume(mount: &Mount) -> Option<String> {
    let is_path = |path: &str| path.starts_with('/') && !path.contains(':');
    if !is_path(&mount.source) || !is_path(&mount.target) {
        return None;
    }
    let access = if mount.read_only { "ro" } else { "rw" };
    let volume = format!("{}:{}:{access}", mount.source, mount.target);
    let ends = [&mount.source, &mount.target];
    whole_value(&volume, EXPANDS).filter(|_| ends.iter().all(|path| path.trim() == path.as_str()))
}

fn publish(port: &Published) -> Option<String> {
    let address: IpAddr = port.address.parse().ok()?;
    let Published { port, inner, .. } = port;
    Some(match address {
        IpAddr::V4(address) => format!("{address}:{port}:{inner}"),
        IpAddr::V6(address) => format!("[{address}]:{port}:{inner}"),
    })
}
