//! Types of speculation of llama.cpp: which keep a context, which need a draft file, which options each uses.

use super::super::contract::{self, place};
use super::super::options::Given;
use super::OPTIONS;
use crate::fault::Fault;
use crate::placement::Placement;

/// Where a type of speculation has its drafter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drafter {
    /// In a file of its own.
    File,
    /// In the model's file, or in a head of its own.
    HeadOrFile,
    /// In the text that is there already.
    None,
}

/// A type of speculation.
struct SpecType {
    name: &'static str,
    drafter: Drafter,
    /// Whether it drafts a block at once, whose size bounds the depth.
    drafts_blocks: bool,
}

const fn spec(name: &'static str, drafter: Drafter, drafts_blocks: bool) -> SpecType {
    SpecType { name, drafter, drafts_blocks }
}

/// Types of llama-server 0.6.0, as its help lists them.
const TYPES: [SpecType; 10] = [
    spec("draft-simple", Drafter::File, false),
    spec("draft-eagle3", Drafter::File, false),
    spec("draft-mtp", Drafter::HeadOrFile, false),
    spec("draft-dflash", Drafter::File, true),
    spec("draft-dspark", Drafter::File, true),
    spec("ngram-simple", Drafter::None, false),
    spec("ngram-map-k", Drafter::None, false),
    spec("ngram-map-k4v", Drafter::None, false),
    spec("ngram-mod", Drafter::None, false),
    spec("ngram-cache", Drafter::None, false),
];

/// What options begin with that only some types use, the longer before what they begin with themselves.
const OPTION_USERS: [(&str, &str); 7] = [
    ("spec-draft-", "draft-"),
    ("spec-ngram-mod-", "ngram-mod"),
    ("spec-ngram-simple-", "ngram-simple"),
    ("spec-ngram-map-k4v-", "ngram-map-k4v"),
    ("spec-ngram-map-k-", "ngram-map-k"),
    ("spec-synth-", ""),
    ("lookup-cache-", "ngram-cache"),
];

/// Acceptance of a drafter whose weights were quantized, and of the same one in bf16, as recorded.
const QUANTIZED_DRAFTER: &str = "1.00 where bf16 gave 2.80 to 3.56";

/// Names of the types that an endpoint asks for.
fn asked(given: &[Given<'_>]) -> Vec<String> {
    let option = given.iter().find(|option| option.name == "spec-type");
    let Some(value) = option.map(|option| option.value) else { return Vec::new() };
    let names: Vec<String> = match value.as_array() {
        Some(values) => {
            values.iter().filter_map(|value| value.as_str().map(str::to_owned)).collect()
        }
        None => value
            .as_str()
            .unwrap_or_default()
            .split(',')
            .map(|name| name.trim().to_owned())
            .collect(),
    };
    names.into_iter().filter(|name| !name.is_empty() && name != "none").collect()
}

fn types(given: &[Given<'_>]) -> Vec<&'static SpecType> {
    let names = asked(given);
    TYPES.iter().filter(|spec| names.iter().any(|name| name == spec.name)).collect()
}

/// Whether the path of a draft file belongs on the command line.
pub(super) fn has_draft_path(placement: &Placement<'_>, given: &[Given<'_>]) -> bool {
    let drafts = types(given).into_iter().any(|spec| spec.drafter != Drafter::None);
    drafts && placement.draft_path.is_some()
}

/// What is wrong with the speculation of an endpoint.
pub(super) fn check(placement: &Placement<'_>, given: &[Given<'_>]) -> Vec<Fault> {
    let mut faults = Vec::new();
    faults.extend(unknown_types(placement, given));
    faults.extend(second_drafter(placement, given));
    faults.extend(draft_faults(placement, given));
    faults.extend(depth_fault(placement, given));
    faults.extend(unused_options(given));
    faults
}

fn spec_place(placement: &Placement<'_>) -> String {
    place(placement, "options.spec-type")
}

/// Types that neither the table nor the build's own help has.
fn unknown_types(placement: &Placement<'_>, given: &[Given<'_>]) -> Vec<Fault> {
    let is_unknown = |name: &String| !TYPES.iter().any(|spec| spec.name == name);
    let names = TYPES.map(|spec| spec.name).join(", ");
    let unknown = asked(given).into_iter().filter(is_unknown);
    unknown
        .map(|name| {
            let message = format!("`{name}` is no type of speculation of llama.cpp");
            let fault = Fault::error("unknown_value", spec_place(placement), message);
            fault.hint(format!("it has {names}"))
        })
        .collect()
}

/// One process has room for one context beside the model's.
fn second_drafter(placement: &Placement<'_>, given: &[Given<'_>]) -> Option<Fault> {
    let with_context: Vec<&str> = types(given)
        .into_iter()
        .filter(|spec| spec.drafter != Drafter::None)
        .map(|spec| spec.name)
        .collect();
    let names = with_context.join(" and ");
    let message =
        format!("{names} each keep a context of their own, and a process has room for one");
    let fault = Fault::error("second_drafter", spec_place(placement), message);
    (with_context.len() > 1).then(|| fault.hint("any number of ngram types goes with one of them"))
}

/// A draft file that is missing, or there for nothing.
fn draft_faults(placement: &Placement<'_>, given: &[Given<'_>]) -> Vec<Fault> {
    let types = types(given);
    let place = format!("models.{}.draft", placement.endpoint.model);
    let needs = types.iter().find(|spec| spec.drafter == Drafter::File);
    let mut faults = Vec::new();
    match (needs, placement.draft_path) {
        (Some(spec), None) => {
            let message =
                format!("`{}` drafts with a file of its own, and the model has none", spec.name);
            faults.push(Fault::error("missing_draft", place, message));
        }
        (None, Some(_)) if !types.iter().any(|spec| spec.drafter == Drafter::HeadOrFile) => {
            let message =
                "the draft file is not used: no type of speculation that asks for one is on";
            faults.push(Fault::warning("unused_draft", place, message).hint("set `spec-type`"));
        }
        (Some(spec), Some(_)) if spec.drafts_blocks => {
            faults.extend(quantized_fault(placement, spec.name));
        }
        _ => {}
    }
    faults
}

/// A drafter that may be unable to draft.
fn quantized_fault(placement: &Placement<'_>, name: &str) -> Option<Fault> {
    let is_quantized = placement.known.draft?.is_quantized?;
    let place = format!("models.{}.draft", placement.endpoint.model);
    let message =
        format!("a quantized drafter was seen to draft nothing: acceptance {QUANTIZED_DRAFTER}");
    let hint =
        format!("take the bf16 file for `{name}`, or prove it by its counter of accepted tokens");
    is_quantized.then(|| Fault::warning("quantized_drafter", place, message).hint(hint))
}

/// A block holds the token that it starts from, so a drafter of blocks makes one fewer.
fn depth_fault(placement: &Placement<'_>, given: &[Given<'_>]) -> Option<Fault> {
    let spec = types(given).into_iter().find(|spec| spec.drafts_blocks)?;
    let block_size = placement.known.draft?.block_size?;
    let depth_max = u64::from(block_size.saturating_sub(1));
    let depth: u64 =
        super::super::options::value_of(given, &OPTIONS, "spec-draft-n-max")?.parse().ok()?;
    let message = format!(
        "depth {depth}, max {depth_max}: `{}` drafts blocks of {block_size} with the token that each starts from",
        spec.name
    );
    let place = contract::place(placement, "options.spec-draft-n-max");
    (depth > depth_max).then(|| Fault::error("draft_depth", place, message))
}

/// Options that none of the types uses that are on.
fn unused_options(given: &[Given<'_>]) -> Vec<Fault> {
    let names = asked(given);
    let is_used = |user: &str| match user {
        "draft-" => names.iter().any(|name| name.starts_with(user)),
        "" => !names.is_empty(),
        user => names.iter().any(|name| name == user),
    };
    let mut faults = Vec::new();
    for option in given {
        let user = OPTION_USERS.iter().find(|(prefix, _)| option.name.starts_with(prefix));
        let Some((_, user)) = user.filter(|(_, user)| !is_used(user)) else { continue };
        let by = match *user {
            "" => "any speculation".to_owned(),
            "draft-" => "a draft type".to_owned(),
            user => format!("`{user}`"),
        };
        let message = format!("`{}` is used by {by} alone, which is not on", option.name);
        faults.push(Fault::warning("unused_option", &option.place, message).hint("take it out"));
    }
    faults
}
