//! Speculation of vLLM: one JSON object, whichever way its parts were given.

use serde_json::{Map, Value};

use super::super::Arg;
use super::super::contract::{self, place};
use super::super::options::Given;
use crate::fault::Fault;
use crate::placement::Placement;

/// Methods whose drafter is a model of its own.
const WITH_FILE: [&str; 7] =
    ["draft_model", "eagle", "eagle3", "medusa", "mlp_speculator", "dflash", "dspark"];

/// Methods without a drafter.
const WITHOUT: [&str; 2] = ["ngram", "suffix"];

/// Methods that draft a block at once.
const BLOCKS: [&str; 2] = ["dflash", "dspark"];

/// Options that are parts of the object, with their names in it.
const SHORT: [(&str, &str); 2] =
    [("spec-method", "method"), ("spec-tokens", "num_speculative_tokens")];

/// Whether an argument is one that the object takes the place of.
pub(super) fn is_own(arg: &Arg) -> bool {
    let option = arg.place.rsplit_once(".options.").map_or("", |(_, option)| option);
    ["speculative-config", "sc"].contains(&option) || SHORT.iter().any(|(name, _)| *name == option)
}

/// The object as it was given; `None` without any of its parts.
fn config(given: &[Given<'_>]) -> Option<Map<String, Value>> {
    let mut config = Map::new();
    if let Some(option) = given.iter().find(|option| option.name == "speculative-config") {
        let parsed = match option.value {
            Value::String(text) => serde_json::from_str(text).ok()?,
            value => value.clone(),
        };
        // The runtime takes names with dashes too.
        let object = parsed.as_object()?.clone();
        config.extend(object.into_iter().map(|(name, value)| (name.replace('-', "_"), value)));
    }
    for (option, name) in SHORT {
        if let Some(option) = given.iter().find(|given| given.name == option) {
            config.insert(name.to_owned(), option.value.clone());
        }
    }
    (!config.is_empty()).then_some(config)
}

fn method(config: &Map<String, Value>) -> Option<&str> {
    config.get("method").and_then(Value::as_str)
}

fn is_mtp(method: &str) -> bool {
    method == "mtp" || method.ends_with("_mtp")
}

/// Whether the draft model belongs into the object.
pub(super) fn has_draft_path(placement: &Placement<'_>, given: &[Given<'_>]) -> bool {
    let Some(config) = config(given) else { return false };
    let takes_file = |method: &str| WITH_FILE.contains(&method) || is_mtp(method);
    placement.draft_path.is_some() && method(&config).is_some_and(takes_file)
}

/// The argument, with the draft model by its path.
pub(super) fn arg(placement: &Placement<'_>, given: &[Given<'_>]) -> Option<Arg> {
    let mut config = config(given)?;
    if let Some(draft) = placement.draft_path.filter(|_| has_draft_path(placement, given)) {
        config.insert("model".to_owned(), Value::String(contract::model_folder(draft)));
    }
    config.sort_keys();
    let words = vec!["--speculative-config".to_owned(), Value::Object(config).to_string()];
    Some(Arg { place: place(placement, "options.speculative-config"), words })
}

/// What is wrong with the speculation of an endpoint.
pub(super) fn check(placement: &Placement<'_>, given: &[Given<'_>]) -> Vec<Fault> {
    let place = place(placement, "options.speculative-config");
    let Some(config) = config(given) else {
        return shape_fault(given, place).or_else(|| unused_fault(placement)).into_iter().collect();
    };
    let mut faults = Vec::new();
    faults.extend(twice_fault(given, &config));
    if config.contains_key("model") {
        let message = "the draft model is set by `draft` of the endpoint's model";
        faults.push(Fault::error("contract_option", &place, message));
    }
    let Some(method) = method(&config) else {
        let message = "speculation without a `method`";
        faults.push(Fault::error("bad_value", place, message));
        return faults;
    };
    let is_known = WITH_FILE.contains(&method) || WITHOUT.contains(&method) || is_mtp(method);
    if !is_known {
        let message = format!("whether vLLM has the method `{method}` is not known");
        faults.push(Fault::warning("unknown_value", &place, message));
    }
    faults.extend(draft_fault(placement, method));
    faults.extend(depth_fault(placement, &config, method));
    faults
}

/// An object that is none.
fn shape_fault(given: &[Given<'_>], place: String) -> Option<Fault> {
    let option = given.iter().find(|option| option.name == "speculative-config")?;
    let is_empty = option.value.as_object().is_some_and(Map::is_empty);
    let message = "`speculative-config` is a JSON object";
    (!is_empty).then(|| Fault::error("bad_value", place, message))
}

/// A part that is given by an option of its own and in the object too.
fn twice_fault(given: &[Given<'_>], config: &Map<String, Value>) -> Option<Fault> {
    let object = given.iter().find(|option| option.name == "speculative-config")?;
    let text = object.value.to_string();
    let (option, name) = SHORT.iter().find_map(|(option, name)| {
        let option = given.iter().find(|given| given.name == *option)?;
        (config.contains_key(*name) && text.contains(&name.to_string())).then_some((option, name))
    })?;
    let message =
        format!("`{}` and `{name}` in `speculative-config` exclude each other", option.name);
    Some(Fault::error("option_twice", &option.place, message))
}

fn draft_place(placement: &Placement<'_>) -> String {
    format!("models.{}.draft", placement.endpoint.model)
}

fn unused_fault(placement: &Placement<'_>) -> Option<Fault> {
    let message = "the draft model is not used: no speculation is on";
    let fault = || Fault::warning("unused_draft", draft_place(placement), message);
    placement.draft_path.map(|_| fault().hint("set `speculative-config`"))
}

fn draft_fault(placement: &Placement<'_>, method: &str) -> Option<Fault> {
    match placement.draft_path {
        None if WITH_FILE.contains(&method) => {
            let message = format!("`{method}` drafts with a model of its own, and there is none");
            Some(Fault::error("missing_draft", draft_place(placement), message))
        }
        Some(_) if WITHOUT.contains(&method) => {
            let message = format!("the draft model is not used: `{method}` drafts from the text");
            Some(Fault::warning("unused_draft", draft_place(placement), message))
        }
        _ => None,
    }
}

fn depth_fault(
    placement: &Placement<'_>,
    config: &Map<String, Value>,
    method: &str,
) -> Option<Fault> {
    let depth = config.get("num_speculative_tokens").and_then(Value::as_u64)?;
    let block_size = placement.known.draft?.block_size.filter(|_| BLOCKS.contains(&method))?;
    let depth_max = u64::from(block_size.saturating_sub(1));
    let message = format!(
        "depth {depth}, max {depth_max}: `{method}` drafts blocks of {block_size} with the token that each starts from"
    );
    let place = place(placement, "options.speculative-config");
    (depth > depth_max).then(|| Fault::error("draft_depth", place, message))
}
