//! The fleet of `frank.toml`: what runs where with which runtime, as files for each host and a plan. Never computes with a
//! model, and never puts a secret into a file.

mod check;
mod fault;
mod fleet_file;
mod generation;
mod host_facts;
mod init;
mod placement;
mod plan;
mod reach;
mod runtimes;
mod targets;
mod workload;

pub use check::check;
pub use fault::{Fault, Severity};
pub use fleet_file::{
    App, DeviceEntry, Endpoint, Fleet, FleetFile, HOST_FOLDER, Host, Located, Model, SecretPlace,
    SecretRef, VerifyPolicy, secret_place,
};
pub use generation::{
    AppliedEndpoint, AppliedFile, GENERATION_FORMAT, Generation, GenerationError, Inputs,
};
pub use host_facts::{DeviceFacts, HostFacts, LinkFacts};
pub use init::{InitHost, init};
pub use placement::{BuildFacts, CheckpointFacts, DraftFacts, Known, Placement};
pub use plan::{
    Change, DeviceMemory, EndpointPlan, FileChange, FleetPlan, GatePlan, HostPlan, MemoryUse,
    MemoryVerdict, Payload, PayloadFetch, PayloadFile, Pins, Placed, PlanInput, Stop, Tables, plan,
};
pub use reach::{BRIDGE_SUBNET, Client, HOST_ALIASES, Listener, Listening, Via, reaches, ways};
pub use runtimes::{
    Arg, BenchRun, DefaultClaim, Learned, LearnedOption, RUNTIMES, Runtime, check_llama_bench,
    kv_pool_tokens, learn, llama_bench,
};
pub use targets::{
    NeededSecret, RenderedFile, SecretStore, TARGETS, Target, TargetInput, quadlet_key_faults,
    unit_key_faults,
};
pub use workload::{
    Device, Env, EnvValue, Gate, Image, LogRules, Mount, Program, Published, Readiness, WorkerArg,
    Workers, Workload,
};
