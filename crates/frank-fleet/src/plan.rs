//! The plan of a fleet: for each host what changes, what must hold before, what stops, and whether all of it fits. Pure:
//! never asks a host, reads a file or changes anything.

mod apps;
mod contract;
mod diff;
mod gates;
mod input;
mod memory;
mod outcome;
mod placing;
mod text;

use std::collections::BTreeSet;

use crate::fault::Fault;
use crate::generation::Generation;
use crate::reach;

pub use self::input::{Payload, PayloadFile, Pins, PlanInput, Tables};
pub use self::memory::{DeviceMemory, MemoryUse, MemoryVerdict};
pub use self::outcome::{
    Change, EndpointPlan, FileChange, FleetPlan, GatePlan, HostPlan, PayloadFetch, Stop,
};
pub use self::placing::Placed;

use self::placing::Placing;

/// Plans every host of the file and every host that something was applied to.
///
/// What [`crate::check`] refuses has no place here: a name that leads nowhere is passed over.
pub fn plan(input: &PlanInput<'_>) -> FleetPlan {
    let placing = Placing::new(input);
    let mut placed = placing.all();
    lint_reach(input, &mut placed);
    let hosts: BTreeSet<&String> = input.file.hosts.keys().chain(input.applied.keys()).collect();
    let hosts = hosts.into_iter().map(|host| {
        let mine: Vec<&Placed> = placed.iter().filter(|placed| placed.host == *host).collect();
        plan_host(input, host, &mine)
    });
    FleetPlan { hosts: hosts.collect() }
}

fn plan_host(input: &PlanInput<'_>, host: &str, placed: &[&Placed]) -> HostPlan {
    let none = Generation::default();
    let applied = input.applied.get(host).unwrap_or(&none);
    let memory = memory::verdict(input, host, placed, applied);
    let mut faults: Vec<Fault> = placed.iter().flat_map(|placed| placed.faults.clone()).collect();
    faults.extend(memory.iter().flat_map(|memory| memory.faults()));
    if input.file.hosts.contains_key(host) && !input.facts.contains_key(host) {
        let message = format!("nothing is known of the host `{host}`");
        let hint = format!("`--facts DIR` takes what it has from DIR/{host}.json");
        faults.push(Fault::error("no_facts", format!("hosts.{host}"), message).hint(hint));
    }
    diff::host_plan(host, placed, applied, memory, faults)
}

/// Addresses in apps and endpoints that do not lead where they are meant to.
fn lint_reach(input: &PlanInput<'_>, placed: &mut [Placed]) {
    let listeners: Vec<reach::Listener> =
        placed.iter().flat_map(|placed| placed.listeners(input.file)).collect();
    for placed in placed {
        let Some(client) = placed.client() else { continue };
        let texts = placed.texts(input);
        for (place, text) in texts {
            let found = reach::lint(input.file, &client, &listeners, &text);
            placed.faults.extend(found.into_iter().map(|found| found.at(&place, &placed.at)));
        }
    }
}
