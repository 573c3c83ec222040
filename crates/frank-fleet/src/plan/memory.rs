//! Whether all endpoints of a host fit on it together: frank's own planner for frank, and for other runtimes an estimate
//! from the header. Never a number for what is not known.

mod estimate;
mod frank;
mod pools;
mod spread;

use std::collections::BTreeMap;

use frank_plan::{Size, parse_size};
use serde::Serialize;

use crate::fault::Fault;
use crate::fleet_file::Endpoint;
use crate::generation::Generation;
use crate::plan::input::PlanInput;
use crate::plan::placing::Placed;

use self::estimate::Estimate;
use self::pools::{Pool, pools};

/// The device that a host's own memory is.
pub(super) const HOST_MEMORY: &str = "cpu:0";

/// Whether all endpoints of a host fit together. All numbers are bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryVerdict {
    /// Whether they fit, as far as is known.
    pub fits: bool,
    /// The host's memory first, then its devices.
    pub devices: Vec<DeviceMemory>,
    /// Endpoints and apps of which nobody can say what they hold.
    pub unknown: Vec<String>,
    /// Why some do not fit, and the way out.
    #[serde(skip)]
    problems: Vec<Fault>,
}

/// One device of a host. All numbers are bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeviceMemory {
    /// Its name.
    pub id: String,
    /// What it has.
    pub total: u64,
    /// What stays free on purpose.
    pub headroom: u64,
    /// What others than the endpoints of this host hold.
    pub others: u64,
    /// What the endpoints will hold.
    pub uses: Vec<MemoryUse>,
    /// What is left beside all that.
    pub left: u64,
    /// What is missing.
    pub short_by: u64,
}

/// What an endpoint holds on a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryUse {
    /// The endpoint or app.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
    /// Whether it is an estimate from the header and not a plan that is kept to.
    pub is_estimate: bool,
}

/// Plans all endpoints of `host` into its memory; `None` where nothing is known of the host.
///
/// What takes what it takes comes first, then frank with a budget, then frank without one, which makes do with the rest.
pub(super) fn verdict(
    input: &PlanInput<'_>,
    host: &str,
    placed: &[&Placed],
    applied: &Generation,
) -> Option<MemoryVerdict> {
    let facts = input.facts.get(host)?;
    let mut verdict = Verdict {
        pools: pools(input.file.hosts.get(host), facts, applied),
        unknown: Vec::new(),
        problems: Vec::new(),
    };
    for placed in placed {
        if let Some(app) = input.file.apps.get(&placed.name) {
            match app.memory.as_deref().and_then(|size| parse_size(size).ok()) {
                Some(bytes) => verdict.hold(HOST_MEMORY, &placed.name, bytes, false),
                None => verdict.unknown.push(placed.name.clone()),
            }
        }
    }
    let endpoints = placed
        .iter()
        .filter_map(|placed| Some((placed.name.as_str(), input.file.endpoints.get(&placed.name)?)));
    let mut endpoints: Vec<(&str, &Endpoint)> = endpoints.collect();
    endpoints.sort_by_key(|(_, it)| (it.runtime == "frank", it.memory_budget.is_none()));
    for (name, endpoint) in endpoints {
        verdict.endpoint(input, name, endpoint);
    }
    Some(verdict.told(host))
}

struct Verdict {
    pools: Vec<Pool>,
    unknown: Vec<String>,
    problems: Vec<Fault>,
}

impl Verdict {
    fn endpoint(&mut self, input: &PlanInput<'_>, name: &str, endpoint: &Endpoint) {
        let budget = endpoint.memory_budget.as_deref().and_then(|size| parse_size(size).ok());
        match (input.needs.get(name), endpoint.runtime.as_str()) {
            (Some(needs), "frank") => match frank::held(needs, endpoint, &self.pools) {
                Ok(held) => held.iter().for_each(|(id, bytes)| self.hold(id, name, *bytes, false)),
                Err((held, fault)) => {
                    held.iter().for_each(|(id, bytes)| self.hold(id, name, *bytes, false));
                    self.problems.push(Fault { place: format!("endpoints.{name}"), ..*fault });
                }
            },
            (Some(needs), runtime) if runtime != "command" => {
                let estimate =
                    Estimate::new(needs, endpoint, extra_bytes(input, endpoint), &self.pools);
                self.problems.extend(estimate.problem(name, endpoint, &self.pools, budget));
                for (id, bytes) in estimate.held {
                    self.hold(&id, name, bytes, true);
                }
            }
            _ => match budget {
                Some(bytes) => {
                    let device = endpoint.devices.first().map_or(HOST_MEMORY, String::as_str);
                    self.hold(device, name, bytes, false);
                }
                None => self.unknown.push(name.to_owned()),
            },
        }
    }

    fn hold(&mut self, id: &str, name: &str, bytes: u64, is_estimate: bool) {
        let Some(pool) = self.pools.iter_mut().find(|pool| pool.id == id) else { return };
        pool.uses.push(MemoryUse { name: name.to_owned(), bytes, is_estimate });
        // What a device borrows from its host is gone there too.
        if pool.is_shared
            && let Some(host) = self.pools.iter_mut().find(|it| it.id == HOST_MEMORY)
        {
            host.uses.push(MemoryUse { name: name.to_owned(), bytes, is_estimate });
        }
    }

    fn told(self, host: &str) -> MemoryVerdict {
        let devices: Vec<DeviceMemory> = self.pools.iter().map(Pool::told).collect();
        let mut problems = self.problems.clone();
        let is_said = |device: &DeviceMemory| {
            // An endpoint that was refused there says the same, and says what to change.
            let mut places = device.uses.iter().map(|it| format!("endpoints.{}", it.name));
            places.any(|place| self.problems.iter().any(|fault| fault.place.starts_with(&place)))
        };
        let shorts = devices.iter().filter(|device| device.short_by > 0 && !is_said(device));
        let shorts: Vec<Fault> = shorts.map(|device| short(host, device)).collect();
        problems.extend(shorts);
        if !self.unknown.is_empty() {
            let names = self.unknown.join(", ");
            let message = format!("nobody can say how much memory these hold: {names}");
            let hint = "`memory-budget` of an endpoint and `memory` of an app say it, or a header that is here";
            let fault = Fault::warning("memory_unknown", format!("hosts.{host}"), message);
            problems.push(fault.hint(hint));
        }
        let fits = !problems.iter().any(Fault::is_error);
        MemoryVerdict { fits, devices, unknown: self.unknown, problems }
    }
}

/// Bytes of a draft model and a projector, which lie on the first device.
fn extra_bytes(input: &PlanInput<'_>, endpoint: &Endpoint) -> u64 {
    let Some(model) = input.file.models.get(&endpoint.model) else { return 0 };
    let main = input.payloads.get(&model.payload);
    let projector = model.projector.as_ref().filter(|_| endpoint.vision);
    let bytes = [model.draft.as_ref(), projector].into_iter().flatten().map(|text| {
        let inside = main.and_then(|main| main.files.iter().find(|file| file.name == *text));
        match inside {
            Some(file) => file.bytes.unwrap_or(0),
            None => input.payloads.get(text).and_then(|payload| payload.bytes()).unwrap_or(0),
        }
    });
    bytes.sum()
}

fn short(host: &str, device: &DeviceMemory) -> Fault {
    let wanted: u64 = device.uses.iter().map(|it| it.bytes).sum();
    let mut uses: Vec<&MemoryUse> = device.uses.iter().collect();
    uses.sort_by_key(|it| std::cmp::Reverse(it.bytes));
    let about = |it: &&MemoryUse| if it.is_estimate { "about " } else { "" };
    let parts: Vec<String> =
        uses.iter().map(|it| format!("{} {}{}", it.name, about(it), Size(it.bytes))).collect();
    let message = format!(
        "{} is short by {}: {} wanted ({}), {} of it stay free, {} are held by others, and it has {}",
        device.id,
        Size(device.short_by),
        Size(wanted),
        parts.join(", "),
        Size(device.headroom),
        Size(device.others),
        Size(device.total),
    );
    Fault::error("does_not_fit", format!("hosts.{host}"), message)
        .hint("less `context` or fewer `slots`, a smaller quant, or another host for one of them")
}

impl MemoryVerdict {
    /// What is wrong with it.
    pub(super) fn faults(&self) -> Vec<Fault> {
        self.problems.clone()
    }

    /// What one endpoint holds, by device.
    pub(super) fn held_by(&self, name: &str) -> BTreeMap<String, u64> {
        let mut held = BTreeMap::new();
        for device in &self.devices {
            let mine = device.uses.iter().filter(|it| it.name == name).map(|it| it.bytes);
            let bytes: u64 = mine.sum();
            if bytes > 0 {
                held.insert(device.id.clone(), bytes);
            }
        }
        held
    }
}
