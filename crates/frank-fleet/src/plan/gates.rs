//! What must hold before anything stops. Never tries it.

use crate::fleet_file::Endpoint;
use crate::plan::input::Payload;
use crate::plan::outcome::GatePlan;
use crate::targets::NeededSecret;
use crate::workload::{Device, Gate, Workload};

fn gate(kind: &'static str, what: impl Into<String>) -> GatePlan {
    GatePlan { kind, what: what.into() }
}

/// What an endpoint's files must be, and its port.
pub(super) fn of_endpoint(endpoint: &Endpoint, payloads: &[Payload]) -> Vec<GatePlan> {
    let files = payloads.iter().flat_map(|payload| {
        payload.files.iter().map(|file| {
            let path = format!("{}/{}", payload.name, file.name);
            match (&file.bytes, &file.sha256) {
                (Some(bytes), Some(sha256)) => format!("{path}: {bytes} bytes, sha256 {sha256}"),
                (Some(bytes), None) => format!("{path}: {bytes} bytes"),
                (None, _) => path,
            }
        })
    });
    let mut gates: Vec<GatePlan> = files.map(|what| gate("payload", what)).collect();
    let port = format!("{}:{} is free or its own", endpoint.address(), endpoint.port);
    gates.push(gate("port", port));
    gates
}

/// What a program needs to be there.
pub(super) fn of_workload(workload: &Workload, secrets: &[NeededSecret]) -> Vec<GatePlan> {
    let mut gates: Vec<GatePlan> = workload.gates.iter().map(of_gate).collect();
    gates.extend(workload.devices.iter().map(|device| match device {
        Device::Node(name) | Device::Cdi(name) => gate("device", name),
    }));
    let secret = |it: &NeededSecret| gate("secret", format!("{} from {}", it.variable, it.source));
    gates.extend(secrets.iter().map(secret));
    gates
}

fn of_gate(it: &Gate) -> GatePlan {
    match it {
        Gate::Image(image) => gate("image", image),
        // One that lacks a library fails at this already.
        Gate::Program(path) => gate("program", format!("{path} --version")),
        Gate::Model(path) => gate("model", path),
        Gate::Draft(path) => gate("draft", path),
        Gate::Projector(path) => gate("projector", path),
        Gate::Template(path) => gate("template", path),
        Gate::File(path) => gate("file", path),
        Gate::Patches(name) => gate("patches", name),
        Gate::Library(name) => gate("library", name),
    }
}
