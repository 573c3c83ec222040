//! `frank.toml`: hosts, models, endpoints and apps. Sizes are texts with a unit. No value is a secret; a secret is named
//! by where it is.

mod app_forms;
mod places;
mod reading;
mod secret;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use self::app_forms::{app_health, app_mount, app_port};
pub use self::places::Located;
pub use self::reading::Fleet;
pub use self::secret::{SecretPlace, secret_place};
pub(crate) use self::secret::{is_secret_name, is_secret_value};

/// Where a host keeps what frank brings to it, unless `frank.toml` says otherwise.
pub const HOST_FOLDER: &str = "/var/lib/frank";

/// A whole `frank.toml`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FleetFile {
    /// Machines, by name.
    #[serde(default)]
    pub hosts: BTreeMap<String, Host>,
    /// Payloads, by name.
    #[serde(default)]
    pub models: BTreeMap<String, Model>,
    /// What answers requests, by name.
    #[serde(default)]
    pub endpoints: BTreeMap<String, Endpoint>,
    /// Other containers and commands of the fleet, by name.
    #[serde(default)]
    pub apps: BTreeMap<String, App>,
}

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Host {
    /// Where ssh finds it, as `user@box.lan` or a name of the ssh configuration; `local` is this machine.
    pub ssh: String,
    /// Address by which others reach it.
    pub address: Option<String>,
    /// Memory that is never planned on it, beside that of its devices, as `4GiB`.
    pub headroom: Option<String>,
    /// Folder on it that holds models and files of the fleet [default: /var/lib/frank].
    pub folder: Option<String>,
    /// Devices that the host's own facts do not tell, or that are to be used otherwise.
    #[serde(default)]
    pub devices: Vec<DeviceEntry>,
    /// Libraries of the GPU driver, as `/usr/lib64/libcuda.so.1`, on a host without a container toolkit: containers get them and
    /// the device nodes one by one.
    pub gpu_libraries: Option<Vec<String>>,
    /// For people.
    pub notes: Option<String>,
}

impl Host {
    /// Folder on it that holds models and files of the fleet.
    pub fn folder(&self) -> &str {
        self.folder.as_deref().unwrap_or(HOST_FOLDER)
    }
}

/// A device of a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DeviceEntry {
    /// Its name, as `cpu:0`, `cuda:0`, `rocm:1`.
    pub id: String,
    /// Its memory, as `24GiB`.
    pub memory: Option<String>,
    /// What is left free on it, as `1536MiB`.
    pub headroom: Option<String>,
    /// For people.
    pub notes: Option<String>,
}

/// A payload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Model {
    /// What `frank pull` takes, as `hf:org/repo:Q4_K_M`.
    pub payload: String,
    /// A draft model or head for speculation, in the same notation, or a path in the payload.
    pub draft: Option<String>,
    /// A projector for images or sound, likewise.
    pub projector: Option<String>,
    /// A chat template that takes the place of the model's own: a file beside `frank.toml`.
    pub template: Option<String>,
}

/// What answers requests at a port of a host, whatever runs behind it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Endpoint {
    /// A name of `hosts`.
    pub host: String,
    /// The port that stays while models and runtimes change.
    pub port: u16,
    /// Address to listen on [default: 127.0.0.1].
    pub bind: Option<String>,
    /// The name under which clients ask for the model, which stays too.
    pub alias: String,
    /// A name of `models`.
    pub model: String,
    /// `frank`, `llama.cpp`, `vllm`, `lucebox` or `command`.
    pub runtime: String,
    /// The program, where the runtime is one on the host, or the image with its digest, where it is a container.
    pub program: Option<String>,
    /// An image, as `registry/name@sha256:…`.
    pub image: Option<String>,
    /// `systemd`, `systemd-user`, `quadlet`, `process` or `kubernetes`.
    pub target: String,
    /// Tokens of context of each request.
    pub context: Option<u32>,
    /// Requests at once.
    pub slots: Option<u32>,
    /// Devices of the host that it may use [default: all].
    #[serde(default)]
    pub devices: Vec<String>,
    /// Whether it reads images.
    #[serde(default)]
    pub vision: bool,
    /// All that its process may hold, as `48GiB`.
    pub memory_budget: Option<String>,
    /// Options of the runtime, in its own words without dashes.
    #[serde(default)]
    pub options: BTreeMap<String, serde_json::Value>,
    /// Environment; a value that is a secret is `env:NAME`, `file:PATH` or `credential:NAME`.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The keys that it asks for.
    pub api_keys: Option<SecretRef>,
    /// What is proved after a start.
    #[serde(default)]
    pub verify: VerifyPolicy,
}

impl Endpoint {
    /// Address that it listens on.
    pub fn address(&self) -> &str {
        self.bind.as_deref().unwrap_or("127.0.0.1")
    }
}

/// Where a secret is: `env:NAME`, `file:PATH` or `credential:NAME`. Never the secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct SecretRef(pub String);

/// What is proved after a start, beside a completion and a tool call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct VerifyPolicy {
    /// Whether no tool call is asked for.
    #[serde(default)]
    pub no_tool_call: bool,
    /// Regular expressions of lines that its log must hold.
    #[serde(default)]
    pub log_must: Vec<String>,
    /// Regular expressions of lines that its log must not hold.
    #[serde(default)]
    pub log_must_not: Vec<String>,
    /// Seconds until it must be healthy [default: that of the runtime].
    pub start_period: Option<u64>,
}

/// Any other container or command, with the same gates, health and way back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct App {
    /// A name of `hosts`.
    pub host: String,
    /// Its command with arguments, or those of its image.
    #[serde(default)]
    pub command: Vec<String>,
    /// An image, as `registry/name@sha256:…`.
    pub image: Option<String>,
    /// `systemd`, `systemd-user`, `quadlet`, `process` or `kubernetes`.
    pub target: String,
    /// Ports on the host, as `8080` or `127.0.0.1:8080:80`.
    #[serde(default)]
    pub ports: Vec<String>,
    /// Files and folders, as `/on/host:/in/container:ro`.
    #[serde(default)]
    pub mounts: Vec<String>,
    /// As in an endpoint.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// A path that answers 200 when it is healthy, as `http://127.0.0.1:9090/-/healthy`.
    pub health: Option<String>,
    /// Memory that it takes, for the verdict over its host, as `512MiB`.
    pub memory: Option<String>,
}

impl FleetFile {
    /// What a `frank.toml` may say, as a JSON schema.
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(FleetFile).to_value()
    }
}
