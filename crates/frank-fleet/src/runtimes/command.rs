//! Any other server, by its command. Names in braces stand for what the endpoint says, so that its contract stays when
//! it changes.

use serde_json::Value;

use super::contract::{self, KeyWay, Parts, place};
use super::{Arg, Runtime};
use crate::fault::Fault;
use crate::placement::Placement;
use crate::workload::{LogRules, Workload};

/// A command.
pub(super) const RUNTIME: Runtime =
    Runtime { name: "command", check, render, args, defaults: Vec::new, ignores: &[] };

/// What the options of a command are.
const OPTIONS: [&str; 2] = ["args", "health"];

/// The names that may stand in braces, with the value of each.
fn names(placement: &Placement<'_>) -> [(&'static str, Option<String>); 9] {
    let endpoint = placement.endpoint;
    let text = |text: Option<&str>| text.map(str::to_owned);
    let number = |number: Option<u32>| number.map(|number| number.to_string());
    [
        ("port", Some(endpoint.port.to_string())),
        ("address", text(Some(contract::listen_address(placement)))),
        ("alias", Some(endpoint.alias.clone())),
        ("model", text(Some(placement.model_path))),
        ("draft", text(placement.draft_path)),
        ("projector", text(placement.projector_path.filter(|_| endpoint.vision))),
        ("template", text(placement.template_path)),
        ("context", number(endpoint.context)),
        ("slots", number(endpoint.slots)),
    ]
}

fn check(placement: &Placement<'_>) -> Vec<Fault> {
    let endpoint = placement.endpoint;
    let mut faults = contract::check(placement, KeyWay::None);
    for name in endpoint.options.keys().filter(|name| !OPTIONS.contains(&name.as_str())) {
        let place = place(placement, &format!("options.{name}"));
        let message = format!("a command has no option `{name}`");
        let hint = "it has `args`, a list, and `health`, a path";
        faults.push(Fault::error("unknown_option", place, message).hint(hint));
    }
    if endpoint.program.is_none() && endpoint.image.is_none() {
        let message = "a command names its `program`, or an `image`";
        faults.push(Fault::error("no_program", place(placement, "program"), message));
    }
    faults.extend(args_faults(placement));
    if endpoint.options.get("health").is_some_and(|health| !is_path(health)) {
        let place = place(placement, "options.health");
        faults.push(Fault::error("bad_value", place, "`health` is a path, as /health"));
    }
    faults
}

fn is_path(value: &Value) -> bool {
    value.as_str().is_some_and(|path| path.starts_with('/'))
}

fn args_faults(placement: &Placement<'_>) -> Vec<Fault> {
    let place = place(placement, "options.args");
    let Some(words) = words(placement) else {
        let message = "`args` is a list of texts";
        return vec![Fault::error("bad_value", place, message)];
    };
    let mut faults = Vec::new();
    let names = names(placement);
    let whole = words.join("\n") + &placement.endpoint.env.values().cloned().collect::<String>();
    for name in ["port", "model"].into_iter().filter(|name| !whole.contains(&format!("{{{name}}}")))
    {
        let message =
            format!("`{{{name}}}` is nowhere in the command, so it would not follow the endpoint");
        faults.push(match name {
            "port" => Fault::error("contract_unused", &place, message),
            _ => Fault::warning("contract_unused", &place, message),
        });
    }
    for (name, value) in names {
        if value.is_none() && words.iter().any(|word| word.contains(&format!("{{{name}}}"))) {
            let message = format!("`{{{name}}}` stands in the command, and the endpoint has none");
            faults.push(Fault::error("contract_unset", &place, message));
        }
    }
    faults
}

/// The arguments as they were given.
fn words(placement: &Placement<'_>) -> Option<Vec<String>> {
    let Some(args) = placement.endpoint.options.get("args") else { return Some(Vec::new()) };
    args.as_array()?.iter().map(|word| word.as_str().map(str::to_owned)).collect()
}

/// A word with the values of the names in it. What a value holds in braces is no name.
fn filled(word: &str, names: &[(&str, Option<String>)]) -> String {
    let mut out = String::with_capacity(word.len());
    let mut rest = word;
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let found = names.iter().find_map(|(name, value)| {
            let after = from.strip_prefix('{')?.strip_prefix(name)?.strip_prefix('}')?;
            Some((value.as_deref()?, after))
        });
        match found {
            Some((value, after)) => {
                out.push_str(value);
                rest = after;
            }
            None => {
                out.push('{');
                rest = &from[1..];
            }
        }
    }
    out + rest
}

fn args(placement: &Placement<'_>) -> Vec<Arg> {
    let names = names(placement);
    let place = place(placement, "options.args");
    let words = words(placement).unwrap_or_default().into_iter();
    words.map(|word| Arg { place: place.clone(), words: vec![filled(&word, &names)] }).collect()
}

fn render(placement: &Placement<'_>) -> Workload {
    let health = placement.endpoint.options.get("health").and_then(Value::as_str);
    let parts = Parts {
        program: "",
        entrypoint: None,
        args: args(placement),
        given: &[],
        env: Vec::new(),
        keys: KeyWay::None,
        start_period: contract::START_PERIOD,
        health: health.unwrap_or("/health").to_owned(),
        metrics: None,
        log: LogRules::default(),
        gates: Vec::new(),
        is_limited: true,
    };
    let mut workload = contract::workload(placement, parts);
    let names = names(placement);
    for env in &mut workload.env {
        if let crate::workload::EnvValue::Plain(value) = &mut env.value {
            *value = filled(value, &names);
        }
    }
    workload
}
