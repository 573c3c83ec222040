//! What is wrong with a `frank.toml` by itself: names, references between tables, values that are none, secrets. Never asks
//! a host, a runtime or a target.

mod apps;
mod endpoints;
mod names;
mod ports;
mod secrets;
mod values;

use crate::fault::Fault;
use crate::fleet_file::{FleetFile, Host, Model};
use crate::plan::Tables;

use self::names::{check_name, check_owned_name};
use self::values::{check_size, check_text};

/// Everything that is wrong with `file`, errors and warnings, in the order of its tables.
pub fn check(file: &FleetFile, tables: &Tables<'_>) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (name, host) in &file.hosts {
        check_host(name, host, &mut faults);
    }
    for (name, model) in &file.models {
        check_model(name, model, &mut faults);
    }
    for (name, endpoint) in &file.endpoints {
        endpoints::check(file, tables, (name, endpoint), &mut faults);
    }
    for (name, app) in &file.apps {
        apps::check(file, tables, (name, app), &mut faults);
    }
    ports::check(file, &mut faults);
    secrets::check(file, &mut faults);
    check_unused(file, &mut faults);
    faults
}

fn check_host(name: &str, host: &Host, faults: &mut Vec<Fault>) {
    let at = format!("hosts.{name}");
    check_name("host", name, &at, faults);
    check_ssh(&host.ssh, &format!("{at}.ssh"), faults);
    for (key, value) in [("address", &host.address), ("folder", &host.folder)] {
        if let Some(value) = value {
            check_text(value, &format!("{at}.{key}"), faults);
        }
    }
    if let Some(folder) = host.folder.as_ref().filter(|folder| !folder.starts_with('/')) {
        let message = format!("`{folder}` is no absolute path");
        faults.push(Fault::error("bad_path", format!("{at}.folder"), message));
    }
    check_size(host.headroom.as_deref(), &format!("{at}.headroom"), faults);
    for (index, device) in host.devices.iter().enumerate() {
        let at = format!("{at}.devices.{index}");
        check_text(&device.id, &format!("{at}.id"), faults);
        check_size(device.memory.as_deref(), &format!("{at}.memory"), faults);
        check_size(device.headroom.as_deref(), &format!("{at}.headroom"), faults);
        if host.devices[..index].iter().any(|earlier| earlier.id == device.id) {
            let message = format!("device `{}` stands twice", device.id);
            faults.push(Fault::error("name_taken", format!("{at}.id"), message));
        }
    }
}

/// A destination of ssh is one argument of it, and must not be read as an option.
fn check_ssh(destination: &str, at: &str, faults: &mut Vec<Fault>) {
    let is_bad = destination.is_empty()
        || destination.starts_with('-')
        || destination.contains(|char: char| char.is_whitespace() || char.is_control());
    if is_bad {
        let message = "it is no destination of ssh".to_owned();
        faults.push(Fault::error("bad_ssh", at, message).hint(
            "`user@host`, `ssh://user@host:port`, a name of the ssh configuration, or `local`",
        ));
    }
}

fn check_model(name: &str, model: &Model, faults: &mut Vec<Fault>) {
    let at = format!("models.{name}");
    check_name("model", name, &at, faults);
    let texts = [
        ("payload", Some(&model.payload)),
        ("draft", model.draft.as_ref()),
        ("projector", model.projector.as_ref()),
        ("template", model.template.as_ref()),
    ];
    for (key, text) in texts {
        if let Some(text) = text {
            check_text(text, &format!("{at}.{key}"), faults);
        }
    }
    if let Some(template) = &model.template {
        check_beside(template, &format!("{at}.template"), faults);
    }
}

/// A file beside `frank.toml` lies in its folder or below, so that a project is whole.
fn check_beside(path: &str, at: &str, faults: &mut Vec<Fault>) {
    if path.starts_with('/') || path.split('/').any(|part| part == "..") {
        let message =
            format!("`{path}` is no path of a file beside frank.toml or in a folder there");
        faults.push(Fault::error("bad_path", at, message));
    }
}

fn check_unused(file: &FleetFile, faults: &mut Vec<Fault>) {
    for name in file.models.keys() {
        if !file.endpoints.values().any(|endpoint| endpoint.model == *name) {
            let message = format!("no endpoint serves the model `{name}`");
            faults.push(Fault::warning("unused", format!("models.{name}"), message));
        }
    }
    for name in file.endpoints.keys() {
        check_owned_name("endpoint", name, &format!("endpoints.{name}"), faults);
    }
    for name in file.apps.keys() {
        let at = format!("apps.{name}");
        check_owned_name("app", name, &at, faults);
        if file.endpoints.contains_key(name) {
            let message = format!("an endpoint is called `{name}` too");
            faults.push(Fault::error("name_taken", at, message));
        }
    }
}
