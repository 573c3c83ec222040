//! Endpoints: what they refer to, and values that are none.

use std::net::IpAddr;

use serde_json::Value;

use crate::check::names::check_known;
use crate::check::values::{check_bind, check_count, check_size, check_text, check_value};
use crate::fault::Fault;
use crate::fleet_file::{Endpoint, FleetFile, secret_place};
use crate::plan::Tables;

pub(super) fn check(
    file: &FleetFile,
    tables: &Tables<'_>,
    (name, endpoint): (&str, &Endpoint),
    faults: &mut Vec<Fault>,
) {
    let at = format!("endpoints.{name}");
    let hosts = file.hosts.keys().map(String::as_str);
    check_known("host", &endpoint.host, hosts, &format!("{at}.host"), faults);
    let models = file.models.keys().map(String::as_str);
    check_known("model", &endpoint.model, models, &format!("{at}.model"), faults);
    let runtimes = tables.runtimes.iter().map(|runtime| runtime.name);
    check_known("runtime", &endpoint.runtime, runtimes, &format!("{at}.runtime"), faults);
    let targets = tables.targets.iter().map(|target| target.name);
    check_known("target", &endpoint.target, targets, &format!("{at}.target"), faults);
    check_text(&endpoint.alias, &format!("{at}.alias"), faults);
    check_bind(endpoint.bind.as_deref(), &format!("{at}.bind"), faults);
    check_count(endpoint.context, &format!("{at}.context"), faults);
    check_count(endpoint.slots, &format!("{at}.slots"), faults);
    check_size(endpoint.memory_budget.as_deref(), &format!("{at}.memory-budget"), faults);
    check_devices(endpoint, &at, faults);
    check_options(endpoint, &at, faults);
    check_env(&endpoint.env, &at, faults);
    check_program(endpoint, &at, faults);
    check_open(endpoint, &at, faults);
}

fn check_devices(endpoint: &Endpoint, at: &str, faults: &mut Vec<Fault>) {
    for (index, id) in endpoint.devices.iter().enumerate() {
        if endpoint.devices[..index].contains(id) {
            let message = format!("device `{}` stands twice", id.escape_debug());
            faults.push(Fault::error("name_taken", format!("{at}.devices.{index}"), message));
        }
    }
}

fn check_options(endpoint: &Endpoint, at: &str, faults: &mut Vec<Fault>) {
    for (name, value) in &endpoint.options {
        let at = format!("{at}.options.{name}");
        let is_inner = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
        let begins = name.starts_with(|char: char| char.is_ascii_alphanumeric());
        if !begins || !name.chars().all(is_inner) {
            let message = format!("`{}` is no name of an option", name.escape_debug());
            let hint = "in the runtime's own words, without the dashes before it";
            faults.push(Fault::error("bad_name", &at, message).hint(hint));
        }
        check_option_value(value, &at, faults);
    }
}

fn check_option_value(value: &Value, at: &str, faults: &mut Vec<Fault>) {
    match value {
        Value::String(text) => check_value(text, at, faults),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                check_option_value(item, &format!("{at}.{index}"), faults);
            }
        }
        Value::Object(entries) => {
            for (key, item) in entries {
                check_option_value(item, &format!("{at}.{key}"), faults);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Names and values of an environment.
pub(super) fn check_env(
    env: &std::collections::BTreeMap<String, String>,
    at: &str,
    faults: &mut Vec<Fault>,
) {
    for (name, value) in env {
        let at = format!("{at}.env.{name}");
        let is_inner = |char: char| char.is_ascii_alphanumeric() || char == '_';
        let is_good = !name.is_empty()
            && name.chars().all(is_inner)
            && !name.starts_with(|char: char| char.is_ascii_digit());
        if !is_good {
            let message = format!("`{}` is no name of a variable", name.escape_debug());
            faults.push(Fault::error("bad_name", &at, message));
        }
        check_value(value, &at, faults);
        if value.contains(['\n', '\r']) && secret_place(value).is_some() {
            let message = "the name of a secret's place holds a line break";
            faults.push(Fault::error("control_character", &at, message));
        }
    }
}

fn check_program(endpoint: &Endpoint, at: &str, faults: &mut Vec<Fault>) {
    if let Some(program) = &endpoint.program {
        check_text(program, &format!("{at}.program"), faults);
    }
    if let Some(image) = &endpoint.image {
        check_text(image, &format!("{at}.image"), faults);
    }
    if endpoint.program.is_some() && endpoint.image.is_some() && endpoint.target == "systemd" {
        let message = "a unit runs a program of the host, and an image is given too";
        let hint = "leave out `image`, or use the target `quadlet`";
        faults.push(Fault::error("program_and_image", format!("{at}.image"), message).hint(hint));
    }
}

/// Who answers other machines should know who asks.
fn check_open(endpoint: &Endpoint, at: &str, faults: &mut Vec<Fault>) {
    let bind: Option<IpAddr> = endpoint.address().parse().ok();
    if bind.is_some_and(|bind| !bind.is_loopback()) && endpoint.api_keys.is_none() {
        let message = format!("other machines reach it at {} without a key", endpoint.address());
        let hint = "give it `api-keys`, as `file:/etc/frank/keys`";
        let place = if endpoint.bind.is_some() { format!("{at}.bind") } else { at.to_owned() };
        faults.push(Fault::warning("open_endpoint", place, message).hint(hint));
    }
}
