//! The pods of a program: their container, what it mounts, how it is asked for health.

use serde_json::{Map, Value, json};

use crate::workload::{Mount, Program, Readiness, Workload};

use super::super::{plain_env, secret_env};
use super::{claim_name, devices, selector, unexpanded};

/// The component that answers requests.
pub(super) const SERVES: &str = "serve";
/// The component that computes for it.
pub(super) const WORKS: &str = "work";

/// Seconds between two questions after health while a program starts, and while it is ready.
const PROBE_SECONDS: u64 = 10;
/// Seconds between two questions whether a program still lives, and how many of them it may leave unanswered: a server that
/// is busy for minutes is not a dead one.
const LIVENESS_SECONDS: u64 = 30;
const LIVENESS_FAILURES: u32 = 10;

/// The command line of a container; its texts are written as a cluster expands them.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) entrypoint: Option<String>,
    pub(super) args: Vec<String>,
}

impl Command {
    /// The command line of the program itself.
    pub(super) fn of_program(program: &Program) -> Self {
        let entrypoint = match program {
            Program::Container { entrypoint, .. } => entrypoint.as_deref().map(unexpanded),
            Program::Host { .. } => None,
        };
        Self { entrypoint, args: program.args().iter().map(|arg| unexpanded(arg)).collect() }
    }
}

/// A template of pods that run `command` in the program's image.
pub(super) fn template(
    workload: &Workload,
    component: &str,
    command: &Command,
    probes: Value,
) -> Value {
    let mut container = container(workload, component, command);
    if let Value::Object(probes) = probes {
        container.extend(probes);
    }
    json!({
        "metadata": { "labels": selector(workload, component), "annotations": workload.labels },
        "spec": {
            "automountServiceAccountToken": false,
            // Otherwise each service of the namespace sets variables here, some under the names of options.
            "enableServiceLinks": false,
            "terminationGracePeriodSeconds": 60,
            "containers": [container],
            "volumes": volumes(workload),
        },
    })
}

fn container(workload: &Workload, component: &str, command: &Command) -> Map<String, Value> {
    let image = match &workload.program {
        Program::Container { image, .. } => image.reference.as_str(),
        Program::Host { .. } => "",
    };
    let mut container = Map::new();
    let mut put = |key: &str, value: Value| container.insert(key.to_owned(), value);
    put("name", component.into());
    put("image", image.into());
    if let Some(path) = &command.entrypoint {
        put("command", json!([path]));
    }
    put("args", json!(command.args));
    put("env", json!(env(workload)));
    put("resources", resources(workload));
    put("securityContext", security(workload));
    put("volumeMounts", json!(volume_mounts(workload)));
    container
}

fn env(workload: &Workload) -> Vec<Value> {
    let plain = plain_env(workload)
        .map(|(name, value)| json!({ "name": name, "value": unexpanded(value) }));
    let secret = secret_env(workload).map(|(name, _)| {
        let key = json!({ "name": workload.name, "key": name });
        json!({ "name": name, "valueFrom": { "secretKeyRef": key } })
    });
    plain.chain(secret).collect()
}

/// Memory and devices, which a pod gets in full or is not started.
fn resources(workload: &Workload) -> Value {
    let devices = devices::limits(&workload.devices).unwrap_or_default();
    let mut limits: Map<String, Value> =
        devices.into_iter().map(|(resource, n)| (resource, n.to_string().into())).collect();
    if let Some(bytes) = workload.memory_limit {
        limits.insert("memory".to_owned(), bytes.to_string().into());
    }
    json!({ "limits": limits, "requests": limits })
}

fn security(workload: &Workload) -> Value {
    match workload.locks_memory {
        true => {
            json!({ "allowPrivilegeEscalation": false, "capabilities": { "add": ["IPC_LOCK"] } })
        }
        false => json!({ "allowPrivilegeEscalation": false }),
    }
}

fn volume_mounts(workload: &Workload) -> Vec<Value> {
    // The volume holds the files under the paths that they have on a host.
    let payload = |mount: &Mount| {
        let path = mount.source.trim_matches('/');
        json!({ "name": "payload", "mountPath": mount.target, "subPath": path, "readOnly": mount.read_only })
    };
    let mut mounts: Vec<Value> = workload.mounts.iter().map(payload).collect();
    if workload.shared_memory.is_some() {
        mounts.push(json!({ "name": "shared-memory", "mountPath": "/dev/shm" }));
    }
    mounts
}

fn volumes(workload: &Workload) -> Vec<Value> {
    let mut volumes = Vec::new();
    if !workload.mounts.is_empty() {
        let claim = json!({ "claimName": claim_name(workload) });
        volumes.push(json!({ "name": "payload", "persistentVolumeClaim": claim }));
    }
    if let Some(bytes) = workload.shared_memory {
        let memory = json!({ "medium": "Memory", "sizeLimit": bytes.to_string() });
        volumes.push(json!({ "name": "shared-memory", "emptyDir": memory }));
    }
    volumes
}

/// How a program is asked whether it is started, ready and alive; nothing where it cannot be asked.
pub(super) fn probes(readiness: &Readiness) -> Value {
    if readiness.port == 0 {
        return json!({});
    }
    let ask = |period: u64, failures: u64| {
        let mut probe = match readiness.path.as_str() {
            "" => json!({ "tcpSocket": { "port": readiness.port } }),
            path => json!({ "httpGet": { "path": path, "port": readiness.port } }),
        };
        probe["periodSeconds"] = period.into();
        probe["timeoutSeconds"] = PROBE_SECONDS.into();
        probe["failureThreshold"] = failures.into();
        probe
    };
    let starts = readiness.start_period.div_ceil(PROBE_SECONDS).max(1);
    json!({
        "ports": [{ "name": "serve", "containerPort": readiness.port }],
        "startupProbe": ask(PROBE_SECONDS, starts),
        "readinessProbe": ask(PROBE_SECONDS, 3),
        "livenessProbe": ask(LIVENESS_SECONDS, LIVENESS_FAILURES.into()),
    })
}
