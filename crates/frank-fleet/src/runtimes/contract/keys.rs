//! Keys that clients must show, as each runtime takes them. Never a key itself.

use super::{arg, place};
use crate::fault::Fault;
use crate::fleet_file::{SecretPlace, secret_place};
use crate::placement::Placement;
use crate::runtimes::Arg;
use crate::workload::{Env, EnvValue};

/// How a runtime takes the keys that clients must show.
#[derive(Clone, Copy)]
pub(in super::super) enum KeyWay {
    /// An option that names a file, one key a line, and a variable with one key where there is one.
    File {
        /// The option, without dashes.
        option: &'static str,
        /// The variable.
        variable: Option<&'static str>,
    },
    /// A variable with one key.
    Variable(&'static str),
    /// Not at all.
    None,
}

/// Keys that a runtime cannot take as the endpoint gives them.
pub(super) fn key_fault(placement: &Placement<'_>, keys: KeyWay) -> Option<Fault> {
    let place = place(placement, "api-keys");
    let endpoint = placement.endpoint;
    let reference = endpoint.api_keys.as_ref()?;
    let Some(secret) = secret_place(&reference.0) else {
        let message = "keys are named by where they are: env:NAME, file:PATH or credential:NAME";
        return Some(Fault::error("secret_value", place, message));
    };
    let message = match (keys, secret) {
        (KeyWay::None, _) => {
            let message = format!("{} asks nobody for a key", endpoint.runtime);
            let fault = Fault::error("no_api_keys", place, message);
            return Some(fault.hint("bind it to 127.0.0.1 and put something before it that does"));
        }
        (KeyWay::File { variable: None, .. }, SecretPlace::Env(_) | SecretPlace::Credential(_)) => {
            format!("{} reads keys from a file: file:PATH", endpoint.runtime)
        }
        (KeyWay::Variable(_), SecretPlace::File(_)) => {
            format!(
                "{} takes one key from a variable: env:NAME or credential:NAME",
                endpoint.runtime
            )
        }
        _ => return None,
    };
    Some(Fault::error("no_api_keys", place, message))
}

/// The argument for keys in a file.
pub(in super::super) fn key_arg(placement: &Placement<'_>, keys: KeyWay) -> Option<Arg> {
    let KeyWay::File { option, .. } = keys else { return None };
    let SecretPlace::File(path) = secret_place(&placement.endpoint.api_keys.as_ref()?.0)? else {
        return None;
    };
    Some(arg(placement, "api-keys", &[&format!("--{option}"), path]))
}

/// The variable for a key that is in none of the runtime's files.
pub(super) fn key_variable(placement: &Placement<'_>, keys: KeyWay) -> Option<Env> {
    let reference = &placement.endpoint.api_keys.as_ref()?.0;
    let name = match (keys, secret_place(reference)?) {
        (
            KeyWay::Variable(name) | KeyWay::File { variable: Some(name), .. },
            SecretPlace::Env(_),
        )
        | (
            KeyWay::Variable(name) | KeyWay::File { variable: Some(name), .. },
            SecretPlace::Credential(_),
        ) => name,
        _ => return None,
    };
    Some(Env { name: name.to_owned(), value: EnvValue::Secret(reference.clone()) })
}

/// The file that holds the keys.
pub(super) fn key_file(placement: &Placement<'_>, keys: KeyWay) -> Option<String> {
    key_arg(placement, keys)?.words.pop()
}
