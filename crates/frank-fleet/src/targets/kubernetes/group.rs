//! What keeps the pods of a program: alone, with workers that join it, or with workers that it calls.

use serde_json::{Value, json};

use crate::fault::Fault;
use crate::workload::{EnvValue, WorkerArg, Workers, Workload};

use super::super::TargetInput;
use super::pod::{Command, SERVES, WORKS, probes, template};
use super::{metadata, selector, unexpanded};

/// What is wrong with the workers of a program.
pub(super) fn faults(input: &TargetInput<'_>) -> Vec<Fault> {
    let Some(workers) = &input.workload.workers else { return Vec::new() };
    let fault = |message: &str| vec![Fault::error("workers", input.place, message)];
    if workers.count == 0 {
        return fault("no workers are asked for; leave them out instead");
    }
    let is_meant = |arg: &WorkerArg| match arg {
        WorkerArg::Plain(_) | WorkerArg::Count => true,
        WorkerArg::FirstAddress | WorkerArg::Rank => workers.port.is_none(),
        WorkerArg::WorkerAddresses => workers.port.is_some(),
    };
    match workers.args.iter().chain(&workers.first_args).all(is_meant) {
        true => Vec::new(),
        false => fault("an argument asks for an address that these workers do not have"),
    }
}

/// The objects that keep the pods, each with the name of its file.
pub(super) fn objects(input: &TargetInput<'_>) -> Vec<(String, Value)> {
    let workload = input.workload;
    match &workload.workers {
        None => vec![alone(workload, &Command::of_program(&workload.program))],
        Some(workers) => match workers.port {
            None => vec![joined(workload, workers)],
            Some(port) => called(workload, workers, port),
        },
    }
}

/// One pod. Two at a time would want the same devices, and what it writes must not be written by two.
fn alone(workload: &Workload, command: &Command) -> (String, Value) {
    let writes = workload.mounts.iter().any(|mount| !mount.read_only);
    let (kind, file) =
        if writes { ("StatefulSet", "statefulset") } else { ("Deployment", "deployment") };
    let mut spec = json!({
        "replicas": 1,
        "selector": { "matchLabels": selector(workload, SERVES) },
        "template": template(workload, SERVES, command, probes(&workload.readiness)),
    });
    match writes {
        true => spec["serviceName"] = workload.name.as_str().into(),
        false => spec["strategy"] = json!({ "type": "Recreate" }),
    }
    let object = json!({
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": metadata(workload, &workload.name, SERVES),
        "spec": spec,
    });
    (file.to_owned(), object)
}

/// Workers that join the program: started, numbered and ended with it. The cluster must know `LeaderWorkerSet`.
fn joined(workload: &Workload, workers: &Workers) -> (String, Value) {
    let command = |entrypoint: Option<String>, mut args: Vec<String>, more: &[WorkerArg]| {
        args.extend(more.iter().map(joined_arg));
        Command { entrypoint, args }
    };
    let program = Command::of_program(&workload.program);
    let first = command(program.entrypoint, program.args, &workers.first_args);
    let worker = command(workers.entrypoint.as_deref().map(unexpanded), Vec::new(), &workers.args);
    let object = json!({
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": metadata(workload, &workload.name, SERVES),
        "spec": {
            "replicas": 1,
            "leaderWorkerTemplate": {
                "size": workers.count + 1,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": template(workload, SERVES, &first, probes(&workload.readiness)),
                "workerTemplate": template(workload, WORKS, &worker, json!({})),
            },
        },
    });
    ("leaderworkerset".to_owned(), object)
}

/// Variables that the controller of `LeaderWorkerSet` sets in each pod.
fn joined_arg(arg: &WorkerArg) -> String {
    match arg {
        WorkerArg::Plain(text) => unexpanded(text),
        WorkerArg::FirstAddress => "$(LWS_LEADER_ADDRESS)".to_owned(),
        WorkerArg::Rank => "$(LWS_WORKER_INDEX)".to_owned(),
        WorkerArg::Count => "$(LWS_GROUP_SIZE)".to_owned(),
        WorkerArg::WorkerAddresses => String::new(),
    }
}

/// Workers that the program calls: numbered pods under a name each, reached by the program's pods alone, since workers ask
/// nobody who they are.
fn called(workload: &Workload, workers: &Workers, port: u16) -> Vec<(String, Value)> {
    let name = format!("{}-rpc", workload.name);
    let arg = |arg: &WorkerArg| called_arg(arg, &name, workers, port);
    let mut first = Command::of_program(&workload.program);
    first.args.extend(workers.first_args.iter().map(arg));
    let entrypoint = workers.entrypoint.as_deref().map(unexpanded);
    let command = Command { entrypoint, args: workers.args.iter().map(arg).collect() };
    let answers = json!({
        "ports": [{ "name": "rpc", "containerPort": port }],
        "readinessProbe": { "tcpSocket": { "port": port } },
    });
    // They get what they compute with over the network: no files, and no secret for those who call nobody.
    let bare = Workload {
        mounts: Vec::new(),
        shared_memory: None,
        env: workload
            .env
            .iter()
            .filter(|env| matches!(env.value, EnvValue::Plain(_)))
            .cloned()
            .collect(),
        ..workload.clone()
    };
    let set = json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata(workload, &name, WORKS),
        "spec": {
            "replicas": workers.count,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": { "matchLabels": selector(workload, WORKS) },
            "template": template(&bare, WORKS, &command, answers),
        },
    });
    vec![
        alone(workload, &first),
        ("rpc-statefulset".to_owned(), set),
        ("rpc-service".to_owned(), rpc_service(workload, &name, port)),
        ("rpc-networkpolicy".to_owned(), rpc_policy(workload, &name, port)),
    ]
}

fn called_arg(arg: &WorkerArg, name: &str, workers: &Workers, port: u16) -> String {
    match arg {
        WorkerArg::Plain(text) => unexpanded(text),
        WorkerArg::Count => (workers.count + 1).to_string(),
        WorkerArg::WorkerAddresses => {
            let addresses: Vec<String> =
                (0..workers.count).map(|i| format!("{name}-{i}.{name}:{port}")).collect();
            addresses.join(",")
        }
        WorkerArg::FirstAddress | WorkerArg::Rank => String::new(),
    }
}

/// The names of the workers' pods.
fn rpc_service(workload: &Workload, name: &str, port: u16) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(workload, name, WORKS),
        "spec": {
            "clusterIP": "None",
            "selector": selector(workload, WORKS),
            "ports": [{ "name": "rpc", "port": port, "targetPort": port }],
        },
    })
}

fn rpc_policy(workload: &Workload, name: &str, port: u16) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(workload, name, WORKS),
        "spec": {
            "podSelector": { "matchLabels": selector(workload, WORKS) },
            "policyTypes": ["Ingress"],
            "ingress": [{
                "from": [{ "podSelector": { "matchLabels": selector(workload, SERVES) } }],
                "ports": [{ "protocol": "TCP", "port": port }],
            }],
        },
    })
}
