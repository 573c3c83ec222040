//! From what is placed on a host and what was applied there to what changes. Never writes a file.

use std::collections::BTreeMap;

use crate::fault::Fault;
use crate::generation::{
    AppliedEndpoint, AppliedFile, GENERATION_FORMAT, Generation, Inputs, sha256_hex,
};
use crate::plan::memory::MemoryVerdict;
use crate::plan::outcome::{Change, EndpointPlan, FileChange, HostPlan, PayloadFetch, Stop};
use crate::plan::placing::Placed;

pub(super) fn host_plan(
    host: &str,
    placed: &[&Placed],
    applied: &Generation,
    memory: Option<MemoryVerdict>,
    faults: Vec<Fault>,
) -> HostPlan {
    let endpoints = endpoints(placed, applied);
    let (record, files) = (record(host, placed, applied, memory.as_ref()), files(placed, applied));
    let is_allowed = !faults.iter().any(Fault::is_error);
    let changes =
        endpoints.iter().any(|plan| plan.change != Change::Unchanged) || !files.is_empty();
    let next = (is_allowed && changes).then_some(record);
    let n_files = placed.iter().flat_map(|placed| &placed.files).count();
    let n_written = files.iter().filter(|file| file.change != Change::Removed).count();
    HostPlan {
        host: host.to_owned(),
        generation: applied.number,
        next_generation: next.as_ref().map(|record| record.number),
        endpoints,
        files,
        n_files_unchanged: n_files - n_written,
        payloads: payloads(placed, applied),
        folders: folders(placed),
        memory,
        faults,
        record: next,
        rendered: placed.iter().flat_map(|placed| placed.files.clone()).collect(),
    }
}

fn endpoints(placed: &[&Placed], applied: &Generation) -> Vec<EndpointPlan> {
    let mut plans: Vec<EndpointPlan> =
        placed.iter().map(|placed| endpoint(placed, applied.endpoints.get(&placed.name))).collect();
    let is_here = |name: &String| placed.iter().any(|placed| placed.name == *name);
    let gone = applied.endpoints.iter().filter(|(name, _)| !is_here(name));
    plans.extend(gone.map(|(name, applied)| removed(name, applied)));
    plans.sort_by(|one, other| one.name.cmp(&other.name));
    plans
}

fn endpoint(placed: &Placed, before: Option<&AppliedEndpoint>) -> EndpointPlan {
    let none = Inputs::default();
    let change = match before {
        _ if placed.is_refused() => Change::Refused,
        None => Change::Added,
        Some(before) if before.inputs == placed.inputs && before.target == placed.target => {
            Change::Unchanged
        }
        Some(_) => Change::Changed,
    };
    let changed_inputs = match (change, before) {
        (Change::Changed, Some(before)) => placed.inputs.changed_since(&before.inputs),
        (Change::Added, _) => placed.inputs.changed_since(&none),
        _ => Vec::new(),
    };
    EndpointPlan {
        name: placed.name.clone(),
        unit: placed.unit(),
        change,
        inputs: if change == Change::Refused { String::new() } else { placed.inputs.hash() },
        changed_inputs: changed_inputs.into_iter().map(str::to_owned).collect(),
        gates: if change == Change::Unchanged { Vec::new() } else { placed.gates.clone() },
        stop: before.filter(|_| change == Change::Changed).map(|before| stop(placed, before)),
        firewall: placed.firewall.clone(),
        all_inputs: placed.inputs.clone(),
    }
}

/// What stops until it is ready again: as long as its last start took, or else as long as a start may take.
fn stop(placed: &Placed, before: &AppliedEndpoint) -> Stop {
    let period = placed.workload.as_ref().map(|workload| workload.readiness.start_period);
    let (seconds, from) = match before.ready_seconds {
        Some(seconds) => (Some(seconds), Some("last start")),
        None => (period, period.map(|_| "start period")),
    };
    Stop { unit: before.unit.clone(), seconds, from }
}

fn removed(name: &str, applied: &AppliedEndpoint) -> EndpointPlan {
    EndpointPlan {
        name: name.to_owned(),
        unit: applied.unit.clone(),
        change: Change::Removed,
        inputs: String::new(),
        changed_inputs: Vec::new(),
        gates: Vec::new(),
        stop: Some(Stop { unit: applied.unit.clone(), seconds: None, from: None }),
        firewall: None,
        all_inputs: Inputs::default(),
    }
}

/// Files as they will be, by path. What is refused keeps what it has.
fn wanted(placed: &[&Placed], applied: &Generation) -> BTreeMap<String, AppliedFile> {
    let mut wanted = BTreeMap::new();
    for placed in placed {
        let kept = applied.files.iter().filter(|(_, file)| file.endpoint == placed.name);
        if placed.is_refused() {
            wanted.extend(kept.map(|(path, file)| (path.clone(), file.clone())));
        }
        wanted.extend(placed.files.iter().map(|file| {
            let sha256 = sha256_hex(file.content.as_bytes());
            let (mode, endpoint) = (file.mode, placed.name.clone());
            (file.path.clone(), AppliedFile { sha256, mode, endpoint })
        }));
    }
    wanted
}

fn files(placed: &[&Placed], applied: &Generation) -> Vec<FileChange> {
    let wanted = wanted(placed, applied);
    let change = |path: &String, file: &AppliedFile, change| FileChange {
        path: path.clone(),
        change,
        endpoint: file.endpoint.clone(),
        sha256: (change != Change::Removed).then(|| file.sha256.clone()),
    };
    let written = wanted.iter().filter_map(|(path, file)| match applied.files.get(path) {
        None => Some(change(path, file, Change::Added)),
        Some(old) if (&old.sha256, old.mode) == (&file.sha256, file.mode) => None,
        Some(_) => Some(change(path, file, Change::Changed)),
    });
    let gone = applied.files.iter().filter(|(path, _)| !wanted.contains_key(*path));
    let mut changes: Vec<FileChange> =
        written.chain(gone.map(|(path, file)| change(path, file, Change::Removed))).collect();
    changes.sort_by(|one, other| one.path.cmp(&other.path));
    changes
}

fn payloads(placed: &[&Placed], applied: &Generation) -> Vec<PayloadFetch> {
    let mut fetches: Vec<PayloadFetch> = Vec::new();
    for payload in placed.iter().flat_map(|placed| &placed.payloads) {
        if fetches.iter().any(|fetch| fetch.name == payload.name) {
            continue;
        }
        let here = applied.payloads.get(&payload.name);
        let is_here = |name: &String, sha256: &Option<String>| {
            sha256.is_some() && here.and_then(|files| files.get(name)) == Some(sha256)
        };
        let wanted = payload.files.iter().filter(|file| !is_here(&file.name, &file.sha256));
        let files: Vec<String> = wanted.clone().map(|file| file.name.clone()).collect();
        if !files.is_empty() {
            let bytes = wanted.map(|file| file.bytes).sum();
            fetches.push(PayloadFetch { name: payload.name.clone(), files, bytes });
        }
    }
    fetches.sort_by(|one, other| one.name.cmp(&other.name));
    fetches
}

fn folders(placed: &[&Placed]) -> Vec<String> {
    let workloads = placed.iter().filter_map(|placed| placed.workload.as_ref());
    let mounts = workloads.flat_map(|workload| &workload.mounts).filter(|mount| mount.is_folder);
    let mut folders: Vec<String> = mounts.map(|mount| mount.source.clone()).collect();
    folders.sort();
    folders.dedup();
    folders
}

/// The record of the next generation.
fn record(
    host: &str,
    placed: &[&Placed],
    applied: &Generation,
    memory: Option<&MemoryVerdict>,
) -> Generation {
    let endpoint = |placed: &&Placed| {
        let before = applied.endpoints.get(&placed.name);
        let is_as_it_was = before.is_some_and(|before| before.inputs == placed.inputs);
        let fresh = AppliedEndpoint {
            inputs: placed.inputs.clone(),
            target: placed.target.clone(),
            unit: placed.unit(),
            ready_seconds: before.filter(|_| is_as_it_was).and_then(|before| before.ready_seconds),
            memory: memory.map(|memory| memory.held_by(&placed.name)).unwrap_or_default(),
        };
        (placed.name.clone(), fresh)
    };
    let mut payloads = BTreeMap::new();
    for payload in placed.iter().flat_map(|placed| &placed.payloads) {
        let files: BTreeMap<String, Option<String>> =
            payload.files.iter().map(|file| (file.name.clone(), file.sha256.clone())).collect();
        payloads.insert(payload.name.clone(), files);
    }
    Generation {
        format: GENERATION_FORMAT,
        host: host.to_owned(),
        number: applied.number + 1,
        endpoints: placed.iter().map(endpoint).collect(),
        files: wanted(placed, applied),
        payloads,
    }
}
