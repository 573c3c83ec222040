//! What a plan is made from. Everything is given; nothing is looked up.

use std::collections::{BTreeMap, BTreeSet};

use frank_plan::ModelNeeds;

use crate::fleet_file::FleetFile;
use crate::generation::Generation;
use crate::host_facts::HostFacts;
use crate::placement::Known;
use crate::runtimes::{RUNTIMES, Runtime};
use crate::targets::{TARGETS, Target};

/// The runtimes and targets that there are.
#[derive(Clone, Copy, Debug)]
pub struct Tables<'a> {
    /// What serves models.
    pub runtimes: &'a [Runtime],
    /// What keeps programs running.
    pub targets: &'a [Target],
}

impl Tables<'static> {
    /// Every one.
    pub fn all() -> Self {
        Self { runtimes: RUNTIMES, targets: TARGETS }
    }
}

/// What a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct PlanInput<'a> {
    /// The `frank.toml`, which [`crate::check`] found no error in.
    pub file: &'a FleetFile,
    /// What each host has, by its name.
    pub facts: &'a BTreeMap<String, HostFacts>,
    /// What is known of payloads, by the reference that stands in `frank.toml`.
    pub payloads: &'a BTreeMap<String, Payload>,
    /// What models need, by the endpoint that serves them, where the header is at hand.
    pub needs: &'a BTreeMap<String, ModelNeeds>,
    /// What else was found out of parts of a placement, by endpoint.
    pub known: &'a BTreeMap<String, Known<'a>>,
    /// Digests of images and versions of runtimes that `frank.lock` pins.
    pub pins: &'a Pins,
    /// What was applied to each host the last time.
    pub applied: &'a BTreeMap<String, Generation>,
    /// Files beside `frank.toml`, by the path that stands there.
    pub files: &'a BTreeMap<String, Vec<u8>>,
    /// Files of hosts that containers see, by host and path, where they could be read.
    pub host_files: &'a BTreeMap<(String, String), Vec<u8>>,
    /// Files of hosts, by host and path, that were looked for and are not there.
    pub missing_files: &'a BTreeSet<(String, String)>,
    /// The runtimes and targets.
    pub tables: Tables<'a>,
}

/// A payload as `frank.lock` or the store knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// Its folder's name in a store.
    pub name: String,
    /// The file that a runtime is given.
    pub model_file: String,
    /// All its files.
    pub files: Vec<PayloadFile>,
}

/// A file of a payload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PayloadFile {
    /// Its name in the payload's folder.
    pub name: String,
    /// Its bytes.
    pub bytes: Option<u64>,
    /// Its digest in hexadecimal digits.
    pub sha256: Option<String>,
}

/// What `frank.lock` pins beside payloads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pins {
    /// Digest of each image, as `sha256:…`, by its name and tag.
    pub images: BTreeMap<String, String>,
    /// Version of each runtime, by its name.
    pub runtimes: BTreeMap<String, String>,
}

impl Payload {
    /// Bytes of all its files, where all are known.
    pub fn bytes(&self) -> Option<u64> {
        self.files.iter().map(|file| file.bytes).sum()
    }
}
