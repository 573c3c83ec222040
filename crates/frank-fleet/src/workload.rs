//! What a runtime makes of a placement, and a target makes files of: a program with all that it needs.

use std::collections::BTreeMap;

/// A program to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// Its name on the host, as `frank-chat`: letters, digits and dashes.
    pub name: String,
    /// For people, one line.
    pub description: String,
    /// What is run.
    pub program: Program,
    /// Its environment.
    pub env: Vec<Env>,
    /// Files and folders that it sees, for a container.
    pub mounts: Vec<Mount>,
    /// Devices that it uses.
    pub devices: Vec<Device>,
    /// Ports that others reach.
    pub published: Vec<Published>,
    /// How its readiness is asked for.
    pub readiness: Readiness,
    /// Bytes of memory that it may hold, as a limit of the system; `None` where the runtime keeps its own.
    pub memory_limit: Option<u64>,
    /// Whether it locks memory.
    pub locks_memory: bool,
    /// Bytes of memory that its processes share among each other in a container, where that is more than a container has.
    pub shared_memory: Option<u64>,
    /// Processes on other machines that serve the same model with it, where a target can start them.
    pub workers: Option<Workers>,
    /// Bytes of the files that it mounts, where they are known: the size of a volume of its own.
    pub storage: Option<u64>,
    /// What must be there before anything stops, and only what this program calls for.
    pub gates: Vec<Gate>,
    /// What its log must, may and must not say.
    pub log: LogRules,
    /// The family of its metrics, as `frank`, `llamacpp`, `vllm`.
    pub metrics: Option<&'static str>,
    /// Labels that tell what it is: endpoint, alias, generation.
    pub labels: BTreeMap<String, String>,
}

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// A program of the host.
    Host {
        /// Path and arguments, each as the program gets it.
        argv: Vec<String>,
    },
    /// A container.
    Container {
        /// Its image.
        image: Image,
        /// What takes the place of the image's entry point.
        entrypoint: Option<String>,
        /// Arguments.
        args: Vec<String>,
    },
}

impl Default for Program {
    fn default() -> Self {
        Self::Host { argv: Vec::new() }
    }
}

impl Program {
    /// Its arguments, without its own name.
    pub fn args(&self) -> &[String] {
        match self {
            Self::Host { argv } => argv.get(1..).unwrap_or_default(),
            Self::Container { args, .. } => args,
        }
    }
}

/// Processes on other machines, each in a container of the same image, that serve one model with a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workers {
    /// How many, beside the program itself.
    pub count: u32,
    /// The port that the program calls them at; `None` where they call the program.
    pub port: Option<u16>,
    /// What takes the place of the image's entry point in them.
    pub entrypoint: Option<String>,
    /// Their arguments.
    pub args: Vec<WorkerArg>,
    /// Arguments of the program itself, after its others.
    pub first_args: Vec<WorkerArg>,
}

/// An argument that may depend on where the processes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerArg {
    /// As it is.
    Plain(String),
    /// The address of the program that workers join.
    FirstAddress,
    /// Which one it is: 0 for the program, from 1 on for workers.
    Rank,
    /// How many there are, the program among them.
    Count,
    /// Address and port of all workers that are called, with commas between.
    WorkerAddresses,
}

/// What must be there before anything stops. A file is one on the host, and is compared with what is pinned where it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gate {
    /// An image that can be run, by its digest.
    Image(String),
    /// A program of the host that tells its version.
    Program(String),
    /// The model's file, or its folder.
    Model(String),
    /// A draft model or head.
    Draft(String),
    /// A projector.
    Projector(String),
    /// A chat template.
    Template(String),
    /// Any other file that is named in an option.
    File(String),
    /// Patches of the runtime, as `mxfp4`, in a clone beside it.
    Patches(String),
    /// Kernels that the runtime does not bring itself, as `mxfp4`.
    Library(String),
}

/// An image of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// As `registry/name@sha256:…`.
    pub reference: String,
}

/// A variable of the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Env {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: EnvValue,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvValue {
    /// As it is; no secret.
    Plain(String),
    /// A secret by where it is on the host (`env:NAME`, `file:PATH` or `credential:NAME`), whose value is never in a rendered
    /// file.
    Secret(String),
}

/// A file or folder that a container sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// On the host.
    pub source: String,
    /// In the container.
    pub target: String,
    /// Whether it cannot be written.
    pub read_only: bool,
    /// Whether it is a folder, which is made where it is missing; a missing file is an error.
    pub is_folder: bool,
}

/// A device that a program uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Device {
    /// A device node or folder of the host, as `/dev/kfd`.
    Node(String),
    /// A device by the interface for containers, as `nvidia.com/gpu=0`.
    Cdi(String),
}

/// A port that others reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// Address on the host.
    pub address: String,
    /// Port on the host.
    pub port: u16,
    /// Port that the program listens on.
    pub inner: u16,
}

/// How readiness is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// A path that answers 200 when a token can be made.
    pub path: String,
    /// The port that is asked, as the program listens on it.
    pub port: u16,
    /// Seconds until it must answer.
    pub start_period: u64,
    /// A command in a container that ends with 0 when it is ready, where its image has one.
    pub command: Option<Vec<String>>,
}

/// What a log must, may and must not say, as regular expressions of lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogRules {
    /// At least one line each.
    pub must: Vec<String>,
    /// Lines that look like faults and are none.
    pub may: Vec<String>,
    /// No line.
    pub must_not: Vec<String>,
}
