//! Runtimes: what each makes of a placement, refuses and warns about.

mod builds;
mod contract;
mod devices;
pub(crate) mod goldens;
mod learned;
mod llama_cpp;
mod lucebox;
mod options;
mod vllm;

use frank_fleet::{
    BuildFacts, CheckpointFacts, DeviceFacts, DraftFacts, Endpoint, Fault, Host, HostFacts, Known,
    Model, Placement, Runtime, Severity, Workload,
};
use serde_json::{Value, json};

/// An image that is pinned.
pub(crate) const IMAGE: &str = "registry.example/llm:1@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Names of all runtimes.
pub(crate) const NAMES: [&str; 5] = ["frank", "llama.cpp", "vllm", "lucebox", "command"];

/// All that a placement is made of.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) endpoint: Value,
    pub(crate) model: Model,
    pub(crate) host: Host,
    pub(crate) facts: HostFacts,
    pub(crate) model_path: String,
    pub(crate) draft_path: Option<String>,
    pub(crate) projector_path: Option<String>,
    pub(crate) template_path: Option<String>,
    pub(crate) architecture: Option<String>,
    pub(crate) build: Option<BuildFacts>,
    pub(crate) draft: Option<DraftFacts>,
    pub(crate) checkpoint: Option<CheckpointFacts>,
}

/// An endpoint under a runtime that nothing is wrong with.
pub(crate) fn case(runtime: &str) -> Case {
    let options = match runtime {
        "command" => json!({"args": ["--port", "{port}", "-m", "{model}", "--name", "{alias}"]}),
        _ => json!({}),
    };
    let endpoint = json!({
        "host": "box", "port": 7770, "alias": "chat", "model": "m", "runtime": runtime,
        "target": "systemd", "program": format!("/opt/{runtime}/server"), "context": 8192,
        "slots": 1, "memory-budget": "20GiB", "options": options,
    });
    let payload = "hf:org/repo:Q4_K_M".to_owned();
    Case {
        endpoint,
        model: Model { payload, draft: None, projector: None, template: None },
        host: Host { ssh: "box".to_owned(), ..Host::default() },
        facts: HostFacts { hostname: "box".to_owned(), ..HostFacts::default() },
        model_path: "/srv/models/m/m-00001-of-00003.gguf".to_owned(),
        draft_path: None,
        projector_path: None,
        template_path: None,
        architecture: None,
        build: None,
        draft: None,
        checkpoint: None,
    }
}

impl Case {
    /// The same with another value of a field of the endpoint.
    pub(crate) fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.endpoint[field] = value.into();
        self
    }

    /// The same with an option.
    pub(crate) fn option(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.endpoint["options"][name] = value.into();
        self
    }

    /// The same in a container.
    pub(crate) fn in_image(mut self) -> Self {
        self.endpoint["program"] = Value::Null;
        self.with("image", IMAGE)
    }

    /// The same with a draft model in a folder of its own.
    pub(crate) fn with_draft(mut self) -> Self {
        self.model.draft = Some("MTP/draft.gguf".to_owned());
        self.draft_path = Some("/srv/models/m/MTP/draft.gguf".to_owned());
        self
    }

    /// The same with a projector in another folder.
    pub(crate) fn with_projector(mut self) -> Self {
        self.model.projector = Some("mmproj.gguf".to_owned());
        self.projector_path = Some("/srv/models/p/mmproj.gguf".to_owned());
        self
    }

    /// The same on a host with these devices: name and instruction set.
    pub(crate) fn on(mut self, devices: &[(&str, &str)]) -> Self {
        let device = |(id, arch): &(&str, &str)| DeviceFacts {
            id: (*id).to_owned(),
            kind: id.split(':').next().unwrap().to_owned(),
            arch: Some((*arch).to_owned()),
            total: 32 << 30,
            free: 32 << 30,
            ..DeviceFacts::default()
        };
        self.facts.devices = devices.iter().map(device).collect();
        self
    }

    /// What `use_it` makes of it.
    pub(crate) fn placed<T>(
        &self,
        use_it: impl FnOnce(&'static Runtime, &Placement<'_>) -> T,
    ) -> T {
        let endpoint: Endpoint = serde_json::from_value(self.endpoint.clone()).unwrap();
        let runtime = Runtime::named(&endpoint.runtime).unwrap();
        let placement = Placement {
            name: "chat",
            endpoint: &endpoint,
            host: &self.host,
            facts: &self.facts,
            model: &self.model,
            model_path: &self.model_path,
            draft_path: self.draft_path.as_deref(),
            projector_path: self.projector_path.as_deref(),
            template_path: self.template_path.as_deref(),
            architecture: self.architecture.as_deref(),
            known: Known {
                build: self.build.as_ref(),
                draft: self.draft.as_ref(),
                checkpoint: self.checkpoint.as_ref(),
            },
        };
        use_it(runtime, &placement)
    }

    /// What is wrong with it.
    pub(crate) fn faults(&self) -> Vec<Fault> {
        self.placed(|runtime, placement| (runtime.check)(placement))
    }

    /// What is wrong with it, as `error code place: message (hint)`.
    pub(crate) fn said(&self) -> Vec<String> {
        let line = |fault: Fault| {
            let severity = match fault.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            };
            let hint = fault.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
            format!("{severity} {} {fault}{hint}", fault.code)
        };
        self.faults().into_iter().map(line).collect()
    }

    /// Codes of its errors.
    pub(crate) fn errors(&self) -> Vec<&'static str> {
        let errors = self.faults().into_iter().filter(|fault| fault.severity == Severity::Error);
        errors.map(|fault| fault.code).collect()
    }

    /// Codes of its warnings.
    pub(crate) fn warnings(&self) -> Vec<&'static str> {
        let warnings =
            self.faults().into_iter().filter(|fault| fault.severity == Severity::Warning);
        warnings.map(|fault| fault.code).collect()
    }

    /// Its program; nothing may be wrong with it.
    #[track_caller]
    pub(crate) fn workload(&self) -> Workload {
        assert_eq!(self.errors(), Vec::<&str>::new(), "{:?}", self.said());
        self.placed(|runtime, placement| (runtime.render)(placement))
    }

    /// The arguments of its program.
    #[track_caller]
    pub(crate) fn args(&self) -> Vec<String> {
        self.workload().program.args().to_vec()
    }

    /// The value that follows an argument.
    #[track_caller]
    pub(crate) fn value(&self, name: &str) -> Option<String> {
        let args = self.args();
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1).cloned()
    }
}
