//! The target `kubernetes`: the objects of a program in a cluster, each a JSON document in a file. Talks to no cluster.
//!
//! JSON is YAML too, and its strings have one form of quotes: no value is ever taken for a number, a date or `no`.

mod devices;
mod group;
mod pod;

use serde_json::{Value, json};

use crate::fault::Fault;
use crate::workload::{Mount, Workload};

use super::{
    NeededSecret, RenderedFile, SecretStore, Target, TargetInput, container_faults, needed_secrets,
    program_faults,
};

/// Objects of a cluster.
pub(super) const KUBERNETES: Target = Target { name: "kubernetes", check, render, secrets };

/// Letters of a name: what is added to it for pods and their labels has to fit into 63.
const NAME_LETTERS_MAX: usize = 52;
/// The claim that is there already, with all payloads, where nobody knows how large one of its own must be.
const SHARED_CLAIM: &str = "frank-payloads";

fn check(input: &TargetInput<'_>) -> Vec<Fault> {
    let (workload, place) = (input.workload, input.place);
    let mut faults = program_faults(input);
    faults.extend(container_faults(input, KUBERNETES.name));
    let name = &workload.name;
    if name.len() > NAME_LETTERS_MAX
        || name.ends_with('-')
        || name.chars().any(|c| c.is_ascii_uppercase())
    {
        let message = format!(
            "the name {name:?} is not of {NAME_LETTERS_MAX} lower-case letters, digits and dashes at most"
        );
        faults.push(Fault::error("name", place, message));
    }
    for mount in workload.mounts.iter().filter(|mount| !can_be_mounted(mount)) {
        let message = format!(
            "kubernetes cannot mount {:?} at {:?}: both must be absolute paths without `..`, the second one without colons",
            mount.source, mount.target
        );
        faults.push(Fault::error("mount", place, message));
    }
    if let Err(device) = devices::limits(&workload.devices) {
        let message = format!("no resource of a cluster is known for the device {device:?}");
        faults.push(Fault::error("device", format!("{place}.devices"), message));
    }
    faults.extend(group::faults(input));
    faults
}

fn render(input: &TargetInput<'_>) -> Vec<RenderedFile> {
    let mut objects = group::objects(input);
    objects.extend(service(input.workload));
    objects.extend(claim(input.workload));
    let file = |(name, object): &(String, Value)| RenderedFile {
        path: format!("~/.config/frank/kubernetes/{}/{name}.json", input.workload.name),
        mode: 0o644,
        content: document(object),
    };
    objects.iter().map(file).collect()
}

fn secrets(input: &TargetInput<'_>) -> Vec<NeededSecret> {
    let object = &input.workload.name;
    needed_secrets(input.workload, |variable| SecretStore::Kubernetes {
        object: object.clone(),
        key: variable.to_owned(),
    })
}

/// The ports that others reach, under the name that stays while models change.
fn service(workload: &Workload) -> Option<(String, Value)> {
    if workload.published.is_empty() {
        return None;
    }
    let port = |port: &crate::workload::Published| json!({ "name": format!("port-{}", port.port), "port": port.port, "targetPort": port.inner });
    let ports: Vec<Value> = workload.published.iter().map(port).collect();
    let object = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(workload, &workload.name, pod::SERVES),
        "spec": { "selector": selector(workload, pod::SERVES), "ports": ports },
    });
    Some(("service".to_owned(), object))
}

/// A volume for what the program mounts, where its size is known.
fn claim(workload: &Workload) -> Option<(String, Value)> {
    let bytes = workload.storage.filter(|_| !workload.mounts.is_empty())?;
    // Workers that join the program load the same files on other nodes.
    let is_shared = workload.workers.as_ref().is_some_and(|workers| workers.port.is_none());
    let access = if is_shared { "ReadWriteMany" } else { "ReadWriteOnce" };
    let object = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(workload, &workload.name, pod::SERVES),
        "spec": {
            "accessModes": [access],
            "resources": { "requests": { "storage": bytes.to_string() } },
        },
    });
    Some(("claim".to_owned(), object))
}

fn claim_name(workload: &Workload) -> &str {
    if workload.storage.is_some() { &workload.name } else { SHARED_CLAIM }
}

fn metadata(workload: &Workload, name: &str, component: &str) -> Value {
    let mut annotations = workload.labels.clone();
    annotations.insert("description".to_owned(), workload.description.clone());
    json!({ "name": name, "labels": selector(workload, component), "annotations": annotations })
}

/// Labels that tell the pods of one component of a program from all others.
fn selector(workload: &Workload, component: &str) -> Value {
    json!({
        "app.kubernetes.io/name": workload.name,
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/managed-by": "frank",
    })
}

fn can_be_mounted(mount: &Mount) -> bool {
    let is_path = |path: &str| path.starts_with('/') && path.split('/').all(|part| part != "..");
    is_path(&mount.source) && is_path(&mount.target) && !mount.target.contains(':')
}

/// A document that a YAML parser and a JSON parser read alike.
fn document(object: &Value) -> String {
    format!("{object:#}\n")
}

/// A text of a command line or an environment that a cluster hands over as `text`, whatever variables it names.
///
/// `$(NAME)` is a variable there, and two `$` are one.
fn unexpanded(text: &str) -> String {
    text.replace('$', "$$")
}
