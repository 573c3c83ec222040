//! Endpoints and apps on their hosts: from the tables of `frank.toml` to programs and files. Never compares them with what
//! was there.

mod payloads;

use std::collections::{BTreeMap, BTreeSet};

use crate::fault::Fault;
use crate::fleet_file::{App, Endpoint, FleetFile, Host, Model};
use crate::generation::{Inputs, sha256_hex};
use crate::host_facts::HostFacts;
use crate::placement::Placement;
use crate::plan::input::{Payload, PlanInput};
use crate::plan::outcome::GatePlan;
use crate::plan::{apps, contract, gates};
use crate::reach::{Client, Listener, Listening};
use crate::targets::{RenderedFile, TargetInput};
use crate::workload::{Mount, Program, Workload};

use self::payloads::{Paths, find};

/// An endpoint or app on its host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placed {
    /// Its name in `frank.toml`.
    pub name: String,
    /// Where it stands, as `endpoints.chat`.
    pub at: String,
    /// Its host.
    pub host: String,
    /// What keeps it running.
    pub target: String,
    /// Its program; `None` where something is wrong with it.
    pub workload: Option<Workload>,
    /// Its files on the host.
    pub files: Vec<RenderedFile>,
    /// Digests of all that decides what runs.
    pub inputs: Inputs,
    /// Payloads that it needs.
    pub payloads: Vec<Payload>,
    /// What must hold before anything stops.
    pub gates: Vec<GatePlan>,
    /// What is wrong.
    pub faults: Vec<Fault>,
    /// Rules of a firewall, where it listens beyond its host.
    pub firewall: Option<String>,
}

/// Names of an endpoint or app: its own, where it stands, its host's, its target's.
struct Names<'a> {
    name: &'a str,
    at: String,
    host: &'a str,
    target: &'a str,
}

pub(super) struct Placing<'a> {
    input: &'a PlanInput<'a>,
}

impl<'a> Placing<'a> {
    pub(super) fn new(input: &'a PlanInput<'a>) -> Self {
        Self { input }
    }

    /// Everything of the file whose host is known.
    pub(super) fn all(&self) -> Vec<Placed> {
        let file = self.input.file;
        let endpoints = file.endpoints.iter().filter_map(|(name, it)| self.endpoint(name, it));
        let mut all: Vec<Placed> =
            endpoints.chain(file.apps.iter().filter_map(|(name, it)| self.app(name, it))).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        refuse_shared_files(&mut all);
        all
    }

    fn endpoint(&self, name: &str, endpoint: &Endpoint) -> Option<Placed> {
        let (host, facts) = self.host(&endpoint.host)?;
        let model = self.input.file.models.get(&endpoint.model)?;
        let at = format!("endpoints.{name}");
        let names = Names { name, at, host: &endpoint.host, target: &endpoint.target };
        let mut placed = names.placed();
        check_devices(endpoint, host, facts, &mut placed);
        let endpoint = self.pinned(endpoint, &mut placed);
        let paths = find(self.input, (&endpoint, model), host, &mut placed);
        if let Some(paths) = paths.filter(|_| !placed.is_refused()) {
            self.render(&names, (&endpoint, model), (host, facts), &paths, &mut placed);
        }
        Some(placed)
    }

    fn host(&self, name: &str) -> Option<(&'a Host, &'a HostFacts)> {
        Some((self.input.file.hosts.get(name)?, self.input.facts.get(name)?))
    }

    /// The endpoint with the digest of its image.
    fn pinned(&self, endpoint: &Endpoint, placed: &mut Placed) -> Endpoint {
        let mut endpoint = endpoint.clone();
        if let Some(image) = &endpoint.image {
            endpoint.image = Some(self.image(image, placed));
        }
        endpoint
    }

    /// An image by its digest, from itself or from `frank.lock`: a tag may lead elsewhere tomorrow.
    fn image(&self, image: &str, placed: &mut Placed) -> String {
        if image.contains("@sha256:") {
            return image.to_owned();
        }
        if let Some(digest) = self.input.pins.images.get(image) {
            return format!("{}@{digest}", without_tag(image));
        }
        let message = format!("nothing says which bytes the image `{image}` is");
        let hint = "give it with its digest, as `registry/name@sha256:…`, or pin it in frank.lock";
        let fault = Fault::error("image_not_pinned", format!("{}.image", placed.at), message);
        placed.faults.push(fault.hint(hint));
        image.to_owned()
    }

    fn render(
        &self,
        names: &Names<'_>,
        (endpoint, model): (&Endpoint, &Model),
        (host, facts): (&Host, &HostFacts),
        paths: &Paths,
        placed: &mut Placed,
    ) {
        let tables = &self.input.tables;
        let Some(runtime) = tables.runtimes.iter().find(|it| it.name == endpoint.runtime) else {
            return;
        };
        let architecture = self.input.needs.get(names.name).map(|needs| needs.arch.as_str());
        let placement = Placement {
            name: names.name,
            endpoint,
            host,
            facts,
            model,
            model_path: &paths.model,
            draft_path: paths.draft.as_deref(),
            projector_path: paths.projector.as_deref(),
            template_path: paths.template.as_ref().map(|file| file.path.as_str()),
            architecture,
            known: self.input.known.get(names.name).copied().unwrap_or_default(),
        };
        placed.faults.extend((runtime.check)(&placement));
        if placed.is_refused() {
            return;
        }
        let workload = (runtime.render)(&placement);
        placed.faults.extend(contract::check(runtime, &placement, &workload));
        placed.files.extend(paths.template.clone());
        placed.inputs.add("verify", json(&endpoint.verify).as_bytes());
        if let Some(version) = self.input.pins.runtimes.get(&endpoint.runtime) {
            placed.inputs.add(format!("version {}", endpoint.runtime), version.as_bytes());
        }
        placed.firewall = contract::firewall(names.name, endpoint, host, &workload);
        placed.gates = gates::of_endpoint(endpoint, &placed.payloads);
        self.finish(workload, facts, placed);
    }

    fn app(&self, name: &str, app: &App) -> Option<Placed> {
        let (_, facts) = self.host(&app.host)?;
        let at = format!("apps.{name}");
        let mut placed = Names { name, at, host: &app.host, target: &app.target }.placed();
        let image = app.image.as_deref().map(|image| self.image(image, &mut placed));
        if !placed.is_refused() {
            let workload = apps::workload(name, app, image.as_deref());
            self.finish(workload, facts, &mut placed);
        }
        Some(placed)
    }

    /// The files of a program, and what decides what runs.
    fn finish(&self, workload: Workload, facts: &HostFacts, placed: &mut Placed) {
        let targets = self.input.tables.targets;
        let Some(target) = targets.iter().find(|target| target.name == placed.target) else {
            return;
        };
        let input = TargetInput { workload: &workload, facts, place: &placed.at };
        let faults = (target.check)(&input);
        let secrets = (target.secrets)(&input);
        if !faults.iter().any(Fault::is_error) {
            placed.files.extend((target.render)(&input));
        }
        placed.faults.extend(faults);
        if placed.is_refused() {
            placed.files.clear();
            return;
        }
        for file in &placed.files {
            let content = format!("{:o}\n{}", file.mode, file.content);
            placed.inputs.add(format!("file {}", file.path), content.as_bytes());
        }
        for payload in &placed.payloads {
            for file in &payload.files {
                let name = format!("payload {}/{}", payload.name, file.name);
                let said = file.sha256.clone().unwrap_or_else(|| format!("{:?}", file.bytes));
                placed.inputs.add(name, said.as_bytes());
            }
        }
        for mount in workload.mounts.iter().filter(|mount| !mount.is_folder) {
            if let Some(content) = self.mounted(&placed.host, mount) {
                placed.inputs.add(format!("mount {}", mount.source), content);
            }
        }
        for mount in workload.mounts.iter().filter(|mount| !mount.is_folder) {
            let key = (placed.host.clone(), mount.source.clone());
            if self.input.missing_files.contains(&key) {
                let message = format!("{} is not on the host `{}`", mount.source, placed.host);
                placed.faults.push(Fault::error("missing_file", placed.at.clone(), message));
            }
        }
        placed.gates.extend(gates::of_workload(&workload, &secrets));
        placed.gates.sort();
        placed.gates.dedup();
        placed.workload = Some(workload);
    }

    /// The content of a file that a container sees, where it could be read.
    fn mounted(&self, host: &str, mount: &Mount) -> Option<&'a [u8]> {
        let key = (host.to_owned(), mount.source.clone());
        self.input.host_files.get(&key).map(Vec::as_slice)
    }
}

impl Names<'_> {
    fn placed(&self) -> Placed {
        Placed {
            name: self.name.to_owned(),
            at: self.at.clone(),
            host: self.host.to_owned(),
            target: self.target.to_owned(),
            ..Placed::default()
        }
    }
}

impl Placed {
    /// Whether nothing may be done with it.
    pub(super) fn is_refused(&self) -> bool {
        self.faults.iter().any(Fault::is_error)
    }

    /// Its name on the host.
    pub(super) fn unit(&self) -> String {
        self.workload.as_ref().map_or_else(|| format!("frank-{}", self.name), |it| it.name.clone())
    }

    /// Who asks, when it asks others.
    pub(super) fn client(&self) -> Option<Client> {
        let workload = self.workload.as_ref()?;
        let is_bridged = matches!(workload.program, Program::Container { .. });
        Some(Client { name: self.name.clone(), host: self.host.clone(), is_bridged })
    }

    /// Where others reach it.
    pub(super) fn listeners(&self, file: &FleetFile) -> Vec<Listener> {
        let Some(workload) = &self.workload else { return Vec::new() };
        let listener = |address: &str, port, inner, listening| Listener {
            name: self.name.clone(),
            at: self.at.clone(),
            host: self.host.clone(),
            address: address.to_owned(),
            port,
            inner,
            listening,
        };
        let listening = match workload.program {
            Program::Container { .. } => Listening::Published,
            Program::Host { .. } => Listening::HostProcess,
        };
        let published = workload.published.iter();
        let mut all: Vec<Listener> =
            published.map(|it| listener(&it.address, it.port, it.inner, listening)).collect();
        // A process publishes nothing: it listens.
        let endpoint = file.endpoints.get(&self.name).filter(|_| all.is_empty());
        all.extend(endpoint.map(|it| listener(it.address(), it.port, it.port, listening)));
        all
    }

    /// Texts in which it may name others, with where they stand.
    pub(super) fn texts(&self, input: &PlanInput<'_>) -> Vec<(String, String)> {
        let Some(workload) = &self.workload else { return Vec::new() };
        let mut texts = Vec::new();
        if let Some(app) = input.file.apps.get(&self.name) {
            let args = app.command.iter().enumerate();
            texts.extend(args.map(|(at, arg)| (format!("{}.command.{at}", self.at), arg.clone())));
        }
        let env = match input.file.endpoints.get(&self.name) {
            Some(endpoint) => &endpoint.env,
            None => input.file.apps.get(&self.name).map_or(&EMPTY, |app| &app.env),
        };
        let env =
            env.iter().map(|(name, value)| (format!("{}.env.{name}", self.at), value.clone()));
        texts.extend(env);
        for mount in workload.mounts.iter().filter(|mount| !mount.is_folder) {
            let content = input.host_files.get(&(self.host.clone(), mount.source.clone()));
            let text = content.and_then(|content| std::str::from_utf8(content).ok());
            texts.extend(text.map(|text| (mount.source.clone(), text.to_owned())));
        }
        texts
    }
}

static EMPTY: BTreeMap<String, String> = BTreeMap::new();

/// An image's name without its tag, which says nothing beside a digest.
fn without_tag(image: &str) -> &str {
    match image.rsplit_once(':') {
        // A colon before a slash is that of the registry's port.
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    }
}

/// Devices that the host does not have.
fn check_devices(endpoint: &Endpoint, host: &Host, facts: &HostFacts, placed: &mut Placed) {
    let declared = host.devices.iter().map(|device| device.id.as_str());
    let found = facts.devices.iter().map(|device| device.id.as_str());
    let known: BTreeSet<&str> = declared.chain(found).chain(["cpu:0"]).collect();
    for (index, id) in endpoint.devices.iter().enumerate() {
        if !known.contains(id.as_str()) {
            let message = format!("host `{}` has no device `{}`", placed.host, id.escape_debug());
            let known: Vec<&str> = known.iter().copied().collect();
            let at = format!("{}.devices.{index}", placed.at);
            let fault = Fault::error("unknown_device", at, message);
            placed.faults.push(fault.hint(format!("it has {}", known.join(", "))));
        }
    }
}

/// Two that would write one file with two contents.
fn refuse_shared_files(all: &mut [Placed]) {
    let mut owners: BTreeMap<(String, String), (String, String)> = BTreeMap::new();
    for placed in all {
        for file in &placed.files {
            let key = (placed.host.clone(), file.path.clone());
            let value = (placed.name.clone(), sha256_hex(file.content.as_bytes()));
            match owners.get(&key) {
                Some((owner, digest)) if *digest != value.1 => {
                    let message = format!("{} would be written for `{owner}` too", file.path);
                    placed.faults.push(Fault::error("file_taken", placed.at.clone(), message));
                }
                Some(_) => {}
                None => {
                    owners.insert(key, value);
                }
            }
        }
    }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("texts and numbers are what JSON holds")
}
