//! What a plan says. Never decides it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::fault::Fault;
use crate::generation::{Generation, Inputs};
use crate::plan::memory::MemoryVerdict;
use crate::targets::RenderedFile;

/// The plan of a fleet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FleetPlan {
    /// Hosts, in the order of their names.
    pub hosts: Vec<HostPlan>,
}

/// What happens on one host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostPlan {
    /// Its name.
    pub host: String,
    /// The generation that is there; 0 where nothing was applied.
    pub generation: u64,
    /// The number of the next one; `None` where nothing changes or nothing may be done.
    pub next_generation: Option<u64>,
    /// Endpoints and apps, in the order of their names.
    pub endpoints: Vec<EndpointPlan>,
    /// Files that are written or removed.
    pub files: Vec<FileChange>,
    /// Files that stay as they are.
    pub n_files_unchanged: usize,
    /// Payloads that are brought or checked.
    pub payloads: Vec<PayloadFetch>,
    /// Folders that are made where they are missing.
    pub folders: Vec<String>,
    /// Whether all endpoints together fit; `None` where nothing is known of the host.
    pub memory: Option<MemoryVerdict>,
    /// What is wrong.
    pub faults: Vec<Fault>,
    /// The record of the next generation.
    #[serde(skip)]
    pub record: Option<Generation>,
    /// The files in full.
    #[serde(skip)]
    pub rendered: Vec<RenderedFile>,
}

/// What becomes of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// It is new.
    Added,
    /// It is there, and becomes another.
    Changed,
    /// It is there, and goes.
    Removed,
    /// It stays.
    Unchanged,
    /// Nothing may be done with it.
    Refused,
}

/// What becomes of an endpoint or app.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EndpointPlan {
    /// Its name.
    pub name: String,
    /// Its name on the host.
    pub unit: String,
    /// What becomes of it.
    pub change: Change,
    /// One digest of all its inputs; empty when it goes or nothing may be done.
    pub inputs: String,
    /// Which inputs are not as they were.
    pub changed_inputs: Vec<String>,
    /// What must hold before anything stops.
    pub gates: Vec<GatePlan>,
    /// What stops because of it.
    pub stop: Option<Stop>,
    /// Rules of a firewall that let in who should reach it and nobody else, where it listens beyond its host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firewall: Option<String>,
    /// Digests of its inputs.
    #[serde(skip)]
    pub(crate) all_inputs: Inputs,
}

/// What must hold before anything stops.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct GatePlan {
    /// A fixed word, as `payload`, `image`, `program`, `port`.
    pub kind: &'static str,
    /// What is looked at.
    pub what: String,
}

/// Something stops for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stop {
    /// Its name on the host.
    pub unit: String,
    /// For how many seconds; `None` when it does not come back.
    pub seconds: Option<u64>,
    /// What the seconds are from: `last start`, or `start period`, which is the most that they may be.
    pub from: Option<&'static str>,
}

/// A file that is written or removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileChange {
    /// Its path.
    pub path: String,
    /// What becomes of it.
    pub change: Change,
    /// The endpoint or app that it is for.
    pub endpoint: String,
    /// Digest of what it will hold.
    pub sha256: Option<String>,
}

/// A payload that must be on the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PayloadFetch {
    /// Its folder's name.
    pub name: String,
    /// Its files that are brought.
    pub files: Vec<String>,
    /// Their bytes, where all are known.
    pub bytes: Option<u64>,
}

impl FleetPlan {
    /// Whether everything may be done.
    pub fn is_allowed(&self) -> bool {
        !self.faults().any(Fault::is_error)
    }

    /// Everything that is wrong.
    pub fn faults(&self) -> impl Iterator<Item = &Fault> {
        self.hosts.iter().flat_map(|host| &host.faults)
    }

    /// Endpoints and apps that are not as they were applied, in the order of their names: exactly those have to be deployed
    /// and proved.
    pub fn changed(&self) -> BTreeSet<&str> {
        let all = self.hosts.iter().flat_map(|host| &host.endpoints);
        let is_changed = |plan: &&EndpointPlan| plan.change != Change::Unchanged;
        all.filter(is_changed).map(|plan| plan.name.as_str()).collect()
    }

    /// Which endpoints and apps are made from each path: rendered files, payloads' files, files beside `frank.toml`.
    pub fn paths(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut paths: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for plan in self.hosts.iter().flat_map(|host| &host.endpoints) {
            for input in plan.all_inputs.0.keys() {
                if let Some((_, path)) = input.split_once(' ') {
                    paths.entry(path).or_default().insert(&plan.name);
                }
            }
        }
        paths
    }
}
