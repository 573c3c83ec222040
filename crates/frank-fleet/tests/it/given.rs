//! What the tests of files and plans are given: a fleet, what its hosts have, a runtime and a target that say what they got.

use std::collections::{BTreeMap, BTreeSet};

use frank_fleet::{
    Arg, DeviceFacts, Endpoint, Fault, Fleet, FleetPlan, Generation, HostFacts, Known,
    NeededSecret, Payload, PayloadFile, Pins, Placement, PlanInput, Program, Published, Readiness,
    RenderedFile, Runtime, Tables, Target, TargetInput, Workload, plan,
};
use frank_plan::{ComputeNeeds, LayerState, ModelNeeds, PromptWork};

pub(crate) const GIB: u64 = 1 << 30;

/// A fleet without faults.
pub(crate) const FLEET: &str = r#"# A fleet.
[hosts.box]
ssh = "me@box.lan"
address = "192.168.1.10"
headroom = "4GiB"

[models.qwen]
payload = "hf:org/qwen:Q4_K_M"
template = "qwen.jinja"

[endpoints.chat]
host = "box"
port = 7770
alias = "chat"
model = "qwen"
runtime = "plain"
target = "files"
context = 8192
slots = 2

[apps.metrics]
host = "box"
image = "registry.lan/metrics@sha256:00"
target = "files"
ports = ["127.0.0.1:9090:9090"]
memory = "512MiB"
command = []
"#;

pub(crate) static RUNTIMES: [Runtime; 1] = [Runtime {
    name: "plain",
    check: |placement| {
        let is_refused = placement.endpoint.options.contains_key("refused");
        let place = format!("endpoints.{}.options.refused", placement.name);
        let fault = || Fault::error("refused_option", place, "it is refused");
        is_refused.then(fault).into_iter().collect()
    },
    render: plain,
    args: plain_args,
    defaults: Vec::new,
    ignores: &[],
}];

fn plain_args(placement: &Placement<'_>) -> Vec<Arg> {
    let arg = |field: &str, words: Vec<String>| Arg {
        place: format!("endpoints.{}.{field}", placement.name),
        words,
    };
    let endpoint = placement.endpoint;
    let mut args = vec![
        arg("model", vec!["--model".to_owned(), placement.model_path.to_owned()]),
        arg("port", vec!["--port".to_owned(), endpoint.port.to_string()]),
        arg("alias", vec!["--alias".to_owned(), endpoint.alias.clone()]),
        // A default that is made explicit renders the same.
        arg("context", vec!["--ctx".to_owned(), endpoint.context.unwrap_or(4096).to_string()]),
    ];
    let paths = [("draft", placement.draft_path), ("template", placement.template_path)];
    for (name, path) in paths {
        args.extend(path.map(|path| arg(name, vec![format!("--{name}"), path.to_owned()])));
    }
    // An option that is dropped on the way.
    let options = endpoint.options.iter().filter(|(name, _)| *name != "dropped");
    args.extend(options.map(|(name, value)| {
        arg(&format!("options.{name}"), vec![format!("--{name}"), value.to_string()])
    }));
    args
}

fn plain(placement: &Placement<'_>) -> Workload {
    let words = plain_args(placement).into_iter().flat_map(|arg| arg.words);
    let (name, endpoint) = (placement.name, placement.endpoint);
    Workload {
        name: format!("frank-{name}"),
        description: endpoint.alias.clone(),
        program: program(endpoint, words.collect()),
        published: published(endpoint),
        readiness: Readiness {
            path: "/health".to_owned(),
            port: endpoint.port,
            start_period: 600,
            ..Readiness::default()
        },
        ..Workload::default()
    }
}

fn program(endpoint: &Endpoint, args: Vec<String>) -> Program {
    match &endpoint.image {
        Some(image) => Program::Container {
            image: frank_fleet::Image { reference: image.clone() },
            entrypoint: None,
            args,
        },
        None => {
            Program::Host { argv: std::iter::once("/bin/plain".to_owned()).chain(args).collect() }
        }
    }
}

fn published(endpoint: &Endpoint) -> Vec<Published> {
    let published = |_: &String| Published {
        address: endpoint.address().to_owned(),
        port: endpoint.port,
        inner: endpoint.port,
    };
    endpoint.image.iter().map(published).collect()
}

pub(crate) static TARGETS: [Target; 1] = [Target {
    name: "files",
    check: |_| Vec::new(),
    render: |input| {
        let content = format!("{:#?}\n", input.workload);
        vec![RenderedFile {
            path: format!("/etc/{}.unit", input.workload.name),
            mode: 0o644,
            content,
        }]
    },
    secrets: no_secrets,
}];

fn no_secrets(_: &TargetInput<'_>) -> Vec<NeededSecret> {
    Vec::new()
}

pub(crate) fn tables() -> Tables<'static> {
    Tables { runtimes: &RUNTIMES, targets: &TARGETS }
}

/// Everything that a plan is made from, owned.
#[derive(Default)]
pub(crate) struct Given {
    pub(crate) fleet: Fleet,
    pub(crate) facts: BTreeMap<String, HostFacts>,
    pub(crate) payloads: BTreeMap<String, Payload>,
    pub(crate) needs: BTreeMap<String, ModelNeeds>,
    pub(crate) known: BTreeMap<String, Known<'static>>,
    pub(crate) pins: Pins,
    pub(crate) applied: BTreeMap<String, Generation>,
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    pub(crate) host_files: BTreeMap<(String, String), Vec<u8>>,
    pub(crate) missing_files: BTreeSet<(String, String)>,
}

impl Given {
    /// The fleet of `text`, whose hosts have 128 GiB, with every payload pinned.
    pub(crate) fn new(text: &str) -> Self {
        let fleet = Fleet::read(text).unwrap_or_else(|faults| panic!("{faults:?}"));
        let facts = |name: &String| (name.clone(), host(name));
        let payload = |payload: &String| {
            let name = payload.replace([':', '/'], "-");
            let model_file = "m.gguf".to_owned();
            let file = |name: &str| PayloadFile {
                name: name.to_owned(),
                bytes: Some(GIB),
                sha256: Some("ab".repeat(32)),
            };
            let files = vec![file("m.gguf"), file("draft.gguf")];
            (payload.clone(), Payload { name, model_file, files })
        };
        let payloads = fleet.file.models.values().map(|model| payload(&model.payload)).collect();
        let templates = fleet.file.models.values().filter_map(|model| model.template.clone());
        let files = templates.map(|name| (name, b"{{ messages }}".to_vec())).collect();
        let facts = fleet.file.hosts.keys().map(facts).collect();
        Self { fleet, facts, payloads, files, ..Self::default() }
    }

    pub(crate) fn plan(&self) -> FleetPlan {
        plan(&self.input())
    }

    pub(crate) fn input(&self) -> PlanInput<'_> {
        PlanInput {
            file: &self.fleet.file,
            facts: &self.facts,
            payloads: &self.payloads,
            needs: &self.needs,
            known: &self.known,
            pins: &self.pins,
            applied: &self.applied,
            files: &self.files,
            host_files: &self.host_files,
            missing_files: &self.missing_files,
            tables: tables(),
        }
    }

    /// Takes what the plan would apply for applied.
    pub(crate) fn apply(&mut self) {
        for host in self.plan().hosts {
            if let Some(record) = host.record {
                let record = Generation::from_json(&record.to_json()).unwrap();
                self.applied.insert(host.host, record);
            }
        }
    }

    /// The same with another text.
    pub(crate) fn rewritten(&mut self, text: &str) {
        self.fleet = Fleet::read(text).unwrap_or_else(|faults| panic!("{faults:?}"));
    }

    /// Codes of the errors of the plan.
    pub(crate) fn codes(&self) -> Vec<&'static str> {
        let plan = self.plan();
        plan.faults().filter(|fault| fault.is_error()).map(|fault| fault.code).collect()
    }
}

pub(crate) fn host(name: &str) -> HostFacts {
    HostFacts {
        hostname: name.to_owned(),
        platform: "Linux x86_64".to_owned(),
        ram: 128 * GIB,
        ram_free: 126 * GIB,
        cores: 16,
        systemd: Some(257),
        podman: Some("5.4.2".to_owned()),
        linger: Some(true),
        ..HostFacts::default()
    }
}

pub(crate) fn card(id: &str, bytes: u64) -> DeviceFacts {
    DeviceFacts {
        id: id.to_owned(),
        kind: id.split(':').next().unwrap_or_default().to_owned(),
        name: "a card".to_owned(),
        total: bytes,
        free: bytes,
        ..DeviceFacts::default()
    }
}

/// What a dense model of so many bytes and layers needs, with keys and values of 1 MiB for each 1,024 tokens of a layer.
pub(crate) fn needs(bytes: u64, layers: u32) -> ModelNeeds {
    let layer = LayerState::Paged { bytes_per_token: 1024, window: None };
    ModelNeeds {
        arch: "qwen3".to_owned(),
        file_bytes: bytes,
        layers,
        experts: 0,
        experts_used: 0,
        context_train: 32768,
        dense_bytes: bytes,
        expert_bytes: 0,
        expert_layers: Vec::new(),
        expert_staging_bytes: 0,
        state: vec![layer; layers as usize],
        compute: ComputeNeeds::default(),
        runtime_bytes: 0,
        page_table_reach: 0,
        io_staging_bytes: 0,
        decode_bytes_per_token: bytes,
        prompt: PromptWork::default(),
        warnings: Vec::new(),
    }
}
