//! Alternatives of `oneOf`: those that more than one may accept are narrowed until a value is of one alone. The compiler
//! proves it by types, constants and required properties, and refuses what it cannot prove.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

type Keywords = Map<String, Value>;

/// Alternatives that are compared with each other. More are left to the compiler, which takes or refuses them: each of
/// so many would forbid all that the others require.
const COMPARED_MAX: usize = 128;

/// Narrows alternatives of which each requires properties that another does not: what one requires, the other may not
/// have. A value that both accepted was none before either.
pub(super) fn told_apart(alternatives: &[Value]) -> Vec<Value> {
    let mut narrowed = alternatives.to_vec();
    if alternatives.len() > COMPARED_MAX {
        return narrowed;
    }
    for (index, alternative) in alternatives.iter().enumerate() {
        for (other_index, other) in alternatives.iter().enumerate() {
            let (Value::Object(one), Value::Object(other)) = (alternative, other) else { continue };
            if index == other_index || are_apart(one, other) {
                continue;
            }
            if let Some(name) = only_of(other, one) {
                forbid(&mut narrowed[index], name);
            } else if other.keys().eq(["required"]) {
                // Whatever is of this one is of the other too.
                narrowed[index] = Value::Bool(false);
            } else {
                return alternatives.to_vec();
            }
        }
    }
    narrowed
}

/// A property that `one` requires and `other` does not; rather one that `other` does not name at all.
fn only_of<'a>(one: &'a Keywords, other: &Keywords) -> Option<&'a str> {
    let others = required(other);
    let mut only: Vec<&'a str> =
        required(one).into_iter().filter(|name| !others.contains(name)).collect();
    only.sort_by_key(|name| property(other, name).is_some());
    only.first().copied()
}

fn forbid(alternative: &mut Value, name: &str) {
    let Value::Object(keywords) = alternative else { return };
    keywords.entry("type").or_insert_with(|| json!("object"));
    let properties = keywords.entry("properties").or_insert_with(|| json!({}));
    properties[name] = Value::Bool(false);
}

/// Whether no value is accepted by both, as far as types and constants say.
fn are_apart(one: &Keywords, other: &Keywords) -> bool {
    if let (Some(one), Some(other)) = (types(one), types(other))
        && one.is_disjoint(&other)
    {
        return true;
    }
    if let (Some(one), Some(other)) = (constants(one), constants(other)) {
        return !one.iter().any(|value| other.contains(value));
    }
    let names: BTreeSet<&str> = required(one).union(&required(other)).copied().collect();
    names.into_iter().any(|name| match (property(one, name), property(other, name)) {
        (Some(Value::Object(one)), Some(Value::Object(other))) => are_apart(one, other),
        (None, Some(_)) => is_closed(one),
        (Some(_), None) => is_closed(other),
        _ => false,
    })
}

fn is_closed(keywords: &Keywords) -> bool {
    keywords.get("additionalProperties") == Some(&Value::Bool(false))
        && !keywords.contains_key("patternProperties")
}

fn required(keywords: &Keywords) -> BTreeSet<&str> {
    let names = keywords.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn property<'a>(keywords: &'a Keywords, name: &str) -> Option<&'a Value> {
    keywords.get("properties")?.get(name)
}

fn types(keywords: &Keywords) -> Option<BTreeSet<&str>> {
    let named = match keywords.get("type")? {
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        one => BTreeSet::from([one.as_str()?]),
    };
    // A whole number is a number.
    Some(named.into_iter().map(|name| if name == "integer" { "number" } else { name }).collect())
}

fn constants(keywords: &Keywords) -> Option<Vec<&Value>> {
    match (keywords.get("const"), keywords.get("enum")) {
        (Some(value), _) => Some(vec![value]),
        (None, Some(Value::Array(values))) => Some(values.iter().collect()),
        _ => None,
    }
}
