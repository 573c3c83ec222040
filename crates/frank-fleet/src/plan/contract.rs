//! What an endpoint promises must reach its program: an option that was dropped on the way is found here, and not when its
//! default happens to change.

use std::net::IpAddr;

use serde_json::Value;

use crate::fault::Fault;
use crate::fleet_file::{Endpoint, Host};
use crate::placement::Placement;
use crate::reach::{BRIDGE_SUBNET, accept_rules, host_address};
use crate::runtimes::Runtime;
use crate::workload::{Env, EnvValue, Program, Workload};

/// What `placement` declares and its program does not get.
pub(super) fn check(
    runtime: &Runtime,
    placement: &Placement<'_>,
    workload: &Workload,
) -> Vec<Fault> {
    let (at, endpoint) = (format!("endpoints.{}", placement.name), placement.endpoint);
    let mut faults = runtime.absent(placement, workload);
    if !has_port(endpoint, workload) {
        faults.push(absent(format!("{at}.port"), "its port"));
    }
    // A command is what it is; what stands in it is its own.
    if endpoint.runtime == "command" {
        return faults;
    }
    let args = (runtime.args)(placement);
    let is_said = |place: &str| {
        let (mut variables, key) =
            (workload.env.iter(), place.rsplit('.').next().unwrap_or_default());
        args.iter().any(|arg| arg.place.starts_with(place))
            || variables.any(|env| env.name.to_lowercase().replace('_', "-").ends_with(key))
    };
    for (name, value) in &endpoint.options {
        let is_off = matches!(value, Value::Bool(false) | Value::Null);
        let place = format!("{at}.options.{name}");
        if !is_off && !is_said(&place) {
            faults.push(absent(place, &format!("option `{name}`")));
        }
    }
    faults
}

fn absent(at: String, what: &str) -> Fault {
    Fault::error("declared_but_absent", at, format!("{what} does not reach the program"))
}

/// Whether the port is published, or is one of the words of the program or of its environment.
fn has_port(endpoint: &Endpoint, workload: &Workload) -> bool {
    let port = endpoint.port.to_string();
    let holds = |word: &str| {
        word.strip_suffix(&port).is_some_and(|it| it.is_empty() || it.ends_with(['=', ':']))
    };
    let is_published = workload.published.iter().any(|it| it.port == endpoint.port);
    let in_env = |env: &Env| matches!(&env.value, EnvValue::Plain(value) if holds(value));
    let in_args = workload.program.args().iter().any(|word| holds(word));
    is_published || in_args || workload.env.iter().any(in_env)
}

/// Rules of a firewall for an endpoint that listens beyond its host: its own host, which asks whether it is healthy, and
/// the containers there are let in, and nobody else is.
pub(super) fn firewall(
    name: &str,
    endpoint: &Endpoint,
    host: &Host,
    workload: &Workload,
) -> Option<String> {
    let bind: IpAddr = endpoint.address().parse().ok()?;
    let is_process = matches!(workload.program, Program::Host { .. });
    if bind.is_loopback() || !is_process || endpoint.api_keys.is_some() {
        return None;
    }
    let own = if bind.is_unspecified() { host_address(host)?.parse().ok()? } else { bind };
    Some(accept_rules(name, endpoint.port, own, BRIDGE_SUBNET))
}
