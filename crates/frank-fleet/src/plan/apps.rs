//! From an app to the program that a target keeps running.

use std::collections::BTreeMap;

use crate::fleet_file::{App, app_health, app_mount, app_port, secret_place};
use crate::workload::{Env, EnvValue, Gate, Image, Program, Readiness, Workload};

/// Seconds until an app that says nothing else must be healthy.
const START_PERIOD: u64 = 60;

/// The program of an app. Texts that are of no form were refused before.
pub(super) fn workload(name: &str, app: &App, image: Option<&str>) -> Workload {
    let program = match image {
        Some(image) => Program::Container {
            image: Image { reference: image.to_owned() },
            entrypoint: None,
            args: app.command.clone(),
        },
        None => Program::Host { argv: app.command.clone() },
    };
    let mut workload = Workload {
        name: format!("frank-{name}"),
        description: format!("{name} of frank's fleet"),
        program,
        env: app.env.iter().map(|(name, value)| env(name, value)).collect(),
        mounts: app.mounts.iter().filter_map(|mount| app_mount(mount)).collect(),
        published: app.ports.iter().filter_map(|port| app_port(port)).collect(),
        readiness: Readiness { start_period: START_PERIOD, ..Readiness::default() },
        memory_limit: app.memory.as_deref().and_then(|size| frank_plan::parse_size(size).ok()),
        gates: gates(app, image),
        labels: BTreeMap::from([("frank.app".to_owned(), name.to_owned())]),
        ..Workload::default()
    };
    if let Some((port, path)) = app.health.as_deref().and_then(app_health) {
        // Asked on the host: a published port leads to the one that the program listens on.
        let inner = workload.published.iter().find(|published| published.port == port);
        let port = inner.map_or(port, |published| published.inner);
        workload.readiness = Readiness { path, port, ..workload.readiness };
    }
    workload
}

/// What must be there: the image or the program, and files that it sees.
fn gates(app: &App, image: Option<&str>) -> Vec<Gate> {
    let program = match image {
        Some(image) => Some(Gate::Image(image.to_owned())),
        None => app.command.first().map(|path| Gate::Program(path.clone())),
    };
    let mounts = app.mounts.iter().filter_map(|mount| app_mount(mount));
    let files = mounts.filter(|mount| !mount.is_folder).map(|mount| Gate::File(mount.source));
    program.into_iter().chain(files).collect()
}

fn env(name: &str, value: &str) -> Env {
    let value = match secret_place(value) {
        Some(place) => EnvValue::Secret(place.to_string()),
        None => EnvValue::Plain(value.to_owned()),
    };
    Env { name: name.to_owned(), value }
}
