//! Apps: what they refer to, and values that are none.

use crate::check::endpoints::check_env;
use crate::check::names::check_known;
use crate::check::values::{check_size, check_text, check_value};
use crate::fault::Fault;
use crate::fleet_file::{App, FleetFile};
use crate::fleet_file::{app_health, app_mount, app_port};
use crate::plan::Tables;

pub(super) fn check(
    file: &FleetFile,
    tables: &Tables<'_>,
    (name, app): (&str, &App),
    faults: &mut Vec<Fault>,
) {
    let at = format!("apps.{name}");
    let hosts = file.hosts.keys().map(String::as_str);
    check_known("host", &app.host, hosts, &format!("{at}.host"), faults);
    let targets = tables.targets.iter().map(|target| target.name);
    check_known("target", &app.target, targets, &format!("{at}.target"), faults);
    check_env(&app.env, &at, faults);
    check_size(app.memory.as_deref(), &format!("{at}.memory"), faults);
    if let Some(image) = &app.image {
        check_text(image, &format!("{at}.image"), faults);
    }
    for (index, arg) in app.command.iter().enumerate() {
        check_value(arg, &format!("{at}.command.{index}"), faults);
    }
    if app.image.is_none() && app.command.first().is_none_or(String::is_empty) {
        let message = "it has neither an image nor a command";
        faults.push(Fault::error("nothing_to_run", at.clone(), message));
    }
    check_outside(app, &at, faults);
}

/// Ports, mounts and the address of its health, which are texts of a form.
fn check_outside(app: &App, at: &str, faults: &mut Vec<Fault>) {
    for (index, port) in app.ports.iter().enumerate() {
        if app_port(port).is_none() {
            let message = format!("`{}` is no port", port.escape_debug());
            let hint = "as `8080`, `8080:80` or `127.0.0.1:8080:80`";
            faults
                .push(Fault::error("bad_port", format!("{at}.ports.{index}"), message).hint(hint));
        }
    }
    for (index, mount) in app.mounts.iter().enumerate() {
        if app_mount(mount).is_none() {
            let message = format!("`{}` is no mount", mount.escape_debug());
            let hint = "as `/on/host:/in/container` or `/on/host:/in/container:ro`; a folder ends with `/`";
            faults.push(
                Fault::error("bad_mount", format!("{at}.mounts.{index}"), message).hint(hint),
            );
        }
    }
    if let Some(health) = app.health.as_ref().filter(|health| app_health(health).is_none()) {
        let message = format!("`{}` is no address of a health check", health.escape_debug());
        let hint = "as `http://127.0.0.1:9090/-/healthy`";
        faults.push(Fault::error("bad_health", format!("{at}.health"), message).hint(hint));
    }
}
