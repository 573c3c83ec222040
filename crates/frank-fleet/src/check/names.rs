//! Names of tables, and names that refer to them.

use crate::fault::Fault;

/// More characters than a label of a host name or of a cluster's object has are no name.
const NAME_CHARS_MAX: usize = 63;

/// Characters that names of units and objects leave for frank's own prefix.
const OWNED_NAME_CHARS_MAX: usize = 50;

/// A name of a host or a model.
pub(super) fn check_name(kind: &str, name: &str, at: &str, faults: &mut Vec<Fault>) {
    let is_inner = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_');
    let is_good = name.len() <= NAME_CHARS_MAX
        && name.chars().all(is_inner)
        && name.starts_with(|char: char| char.is_ascii_alphanumeric());
    if !is_good {
        let message = format!("`{}` is no name for a {kind}", name.escape_debug());
        let hint = format!(
            "letters, digits, `-` and `_`, a letter or digit first, {NAME_CHARS_MAX} at most"
        );
        faults.push(Fault::error("bad_name", at, message).hint(hint));
    }
}

/// A name that becomes that of a unit, a container and an object of a cluster.
pub(super) fn check_owned_name(kind: &str, name: &str, at: &str, faults: &mut Vec<Fault>) {
    let is_inner = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-';
    let is_good = !name.is_empty()
        && name.len() <= OWNED_NAME_CHARS_MAX
        && name.chars().all(is_inner)
        && !name.starts_with('-')
        && !name.ends_with('-');
    if !is_good {
        let message = format!("`{}` is no name for an {kind}", name.escape_debug());
        let hint = format!(
            "small letters, digits and `-`, none of which stands at an end, {OWNED_NAME_CHARS_MAX} at most"
        );
        faults.push(Fault::error("bad_name", at, message).hint(hint));
    }
}

/// A name that must be one of `known`.
pub(super) fn check_known<'a>(
    kind: &str,
    name: &str,
    known: impl Iterator<Item = &'a str>,
    at: &str,
    faults: &mut Vec<Fault>,
) {
    let known: Vec<&str> = known.collect();
    if known.contains(&name) {
        return;
    }
    let code = match kind {
        "host" => "unknown_host",
        "model" => "unknown_model",
        "runtime" => "unknown_runtime",
        _ => "unknown_target",
    };
    let message = format!("there is no {kind} `{}`", name.escape_debug());
    let hint = match nearest(name, &known) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => format!("there is no {kind} at all"),
        None => format!("there is {}", known.join(", ")),
    };
    faults.push(Fault::error(code, at, message).hint(hint));
}

/// The known name that a mistyped one most likely means.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let distances = known.iter().map(|&other| (strsim::damerau_levenshtein(name, other), other));
    let (distance, near) = distances.min()?;
    (distance <= 1 + name.chars().count() / 4).then_some(near)
}
