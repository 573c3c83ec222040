//! Secrets that stand where only their place should. What is told never repeats them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::fault::Fault;
use crate::fleet_file::{FleetFile, SecretRef, is_secret_name, is_secret_value, secret_place};

const HINT: &str = "`env:NAME` for a variable of whoever deploys, `file:PATH` for a file on the host, `credential:NAME` \
    for a credential there";

pub(super) fn check(file: &FleetFile, faults: &mut Vec<Fault>) {
    for (name, model) in &file.models {
        let texts = [Some(&model.payload), model.draft.as_ref(), model.projector.as_ref()];
        for (key, text) in ["payload", "draft", "projector"].into_iter().zip(texts) {
            check_value(text.map_or("", String::as_str), &format!("models.{name}.{key}"), faults);
        }
    }
    for (name, endpoint) in &file.endpoints {
        let at = format!("endpoints.{name}");
        check_keys(endpoint.api_keys.as_ref(), &format!("{at}.api-keys"), faults);
        check_env(&endpoint.env, &at, faults);
        for (name, value) in &endpoint.options {
            check_option(name, value, &format!("{at}.options.{name}"), faults);
        }
    }
    for (name, app) in &file.apps {
        let at = format!("apps.{name}");
        check_env(&app.env, &at, faults);
        check_args(&app.command, &format!("{at}.command"), faults);
    }
}

fn check_keys(keys: Option<&SecretRef>, at: &str, faults: &mut Vec<Fault>) {
    if keys.is_some_and(|keys| secret_place(&keys.0).is_none()) {
        let message = "it does not say where the keys are";
        faults.push(Fault::error("plain_secret", at, message).hint(HINT));
    }
}

fn check_env(env: &BTreeMap<String, String>, at: &str, faults: &mut Vec<Fault>) {
    for (name, value) in env {
        check_named(name, value, &format!("{at}.env.{name}"), faults);
    }
}

fn check_option(name: &str, value: &Value, at: &str, faults: &mut Vec<Fault>) {
    match value {
        Value::String(text) => check_named(name, text, at, faults),
        Value::Array(items) => {
            let texts: Option<Vec<String>> =
                items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
            if let Some(texts) = texts {
                check_args(&texts, at, faults);
            }
            for (index, item) in items.iter().enumerate().filter(|_| is_secret_name(name)) {
                check_option(name, item, &format!("{at}.{index}"), faults);
            }
        }
        Value::Object(entries) => {
            for (key, item) in entries {
                check_option(key, item, &format!("{at}.{key}"), faults);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Arguments, in which a secret follows its option or stands behind `=` in it.
fn check_args(args: &[String], at: &str, faults: &mut Vec<Fault>) {
    let mut option = "";
    for (index, arg) in args.iter().enumerate() {
        let at = format!("{at}.{index}");
        match arg.split_once('=').filter(|_| arg.starts_with('-')) {
            Some((name, value)) => check_named(name, value, &at, faults),
            None if arg.starts_with('-') => {}
            None => check_named(option, arg, &at, faults),
        }
        option = if arg.starts_with("--") && !arg.contains('=') { arg } else { "" };
    }
}

fn check_named(name: &str, value: &str, at: &str, faults: &mut Vec<Fault>) {
    let is_empty = value.is_empty();
    if is_secret_name(name) && !is_empty && secret_place(value).is_none() {
        let message = format!("the value of `{}` is a secret", name.escape_debug());
        faults.push(Fault::error("plain_secret", at, message).hint(HINT));
    } else {
        check_value(value, at, faults);
    }
}

fn check_value(value: &str, at: &str, faults: &mut Vec<Fault>) {
    if is_secret_value(value) {
        let message = "the value looks like a secret";
        faults.push(Fault::error("plain_secret", at, message).hint(HINT));
    }
}
