//! What the compiler does not know, said in keywords that it does: each rewrite allows the same answers, or some fewer.

use serde_json::{Map, Value, json};

use super::alternatives;
use super::formats::{self, Format};
use super::keywords::count;
use super::{bad, child, shown};
use crate::error::GrammarError;

/// Properties of which each gets an alternative of its own.
const ALTERNATIVES_MAX: usize = 30;
/// Properties that may need others: each doubles the ways to write an object.
const DEPENDENCIES_MAX: usize = 5;
/// Keywords that bring schemas for the same value. The compiler compiles what stands between two of them by itself, so
/// that keywords that need each other must not be parted.
const APPLICATORS: [&str; 6] = ["const", "enum", "allOf", "anyOf", "oneOf", "$ref"];

type Keywords = Map<String, Value>;

/// The keywords of the schema at `pointer` as they are compiled.
///
/// # Errors
/// [`GrammarError`] where they cannot be said so.
pub(super) fn rewritten(mut keywords: Keywords, pointer: &str) -> Result<Keywords, GrammarError> {
    let unsupported = |keyword: &str| GrammarError::UnsupportedKeyword {
        keyword: keyword.to_owned(),
        pointer: shown(pointer).to_owned(),
    };
    allow_null(&mut keywords).ok_or_else(|| unsupported("nullable"))?;
    write_format(&mut keywords, pointer)?;
    negate(&mut keywords).ok_or_else(|| unsupported("not"))?;
    for keyword in ["dependencies", "dependentRequired", "dependentSchemas"] {
        depend(&mut keywords, keyword).ok_or_else(|| unsupported(keyword))?;
    }
    if let Some(Value::Array(list)) = keywords.get_mut("oneOf") {
        *list = alternatives::told_apart(list);
    }
    name_literal_patterns(&mut keywords);
    close(&mut keywords).ok_or_else(|| unsupported("unevaluatedProperties"))?;
    name_properties(&mut keywords).ok_or_else(|| unsupported("propertyNames"))?;
    bound_below(&mut keywords).ok_or_else(|| unsupported("minProperties"))?;
    bound_above(&mut keywords).ok_or_else(|| unsupported("maxProperties"))?;
    let (last, first): (Keywords, Keywords) =
        keywords.into_iter().partition(|(name, _)| APPLICATORS.contains(&name.as_str()));
    Ok(first.into_iter().chain(last).collect())
}

/// OpenAPI's `nullable`, which adds a type to those that are named.
fn allow_null(keywords: &mut Keywords) -> Option<()> {
    if keywords.remove("nullable") != Some(Value::Bool(true)) {
        return Some(());
    }
    let types = keywords.get_mut("type")?;
    let mut all = type_names(types);
    if !all.iter().any(|name| name == "null") {
        all.push("null".to_owned());
    }
    *types = json!(all);
    Some(())
}

fn type_names(types: &Value) -> Vec<String> {
    let name = |value: &Value| value.as_str().map(str::to_owned);
    match types {
        Value::Array(list) => list.iter().filter_map(name).collect(),
        one => name(one).into_iter().collect(),
    }
}

/// Formats bind strings; some names are those of formats of numbers.
fn write_format(keywords: &mut Keywords, pointer: &str) -> Result<(), GrammarError> {
    let Some(Value::String(name)) = keywords.remove("format") else { return Ok(()) };
    let types = keywords.get("type").map(type_names);
    let is_of = |wanted: &str| types.as_ref().is_none_or(|types| types.iter().any(|t| t == wanted));
    if !is_of("string") {
        if let Some((least, greatest)) = formats::of_numbers(&name) {
            bound(keywords, "minimum", "exclusiveMinimum", least);
            bound(keywords, "maximum", "exclusiveMaximum", greatest);
        }
        return Ok(());
    }
    match formats::of_strings(&name) {
        Some(Format::Annotation) => {}
        Some(Format::Compiled(name)) => {
            keywords.insert("format".to_owned(), json!(name));
        }
        Some(Format::Expression(expression, length_max)) => {
            let mut more = Keywords::from_iter([("pattern".to_owned(), json!(expression))]);
            if let Some(max) = length_max {
                more.insert("maxLength".to_owned(), json!(max));
            }
            join(keywords, more);
        }
        None => {
            let known = formats::names();
            let what = format!("the format {name} is none of {known}");
            return Err(bad(&child(pointer, "format"), what));
        }
    }
    Ok(())
}

fn bound(keywords: &mut Keywords, name: &str, exclusive: &str, value: i64) {
    if !keywords.contains_key(name) && !keywords.contains_key(exclusive) {
        keywords.insert(name.to_owned(), json!(value));
    }
}

/// Adds keywords, beside those of the same name where there are any.
fn join(keywords: &mut Keywords, more: Keywords) {
    if !more.keys().any(|name| keywords.contains_key(name)) {
        keywords.extend(more);
        return;
    }
    require_all(keywords, vec![Value::Object(more)]);
}

/// `not` where it is about types or required properties alone.
fn negate(keywords: &mut Keywords) -> Option<()> {
    let Some(negated) = keywords.remove("not") else { return Some(()) };
    let negated = negated.as_object()?;
    let opposites = match negated.iter().next() {
        None => vec![Value::Bool(false)],
        Some(_) if negated.len() > 1 => return None,
        Some((name, value)) if name == "required" => vec![without_all(value)?],
        Some((name, value)) if name == "type" => vec![json!({"type": other_types(value)})],
        Some((name, Value::Array(list))) if name == "anyOf" => {
            let only_required = |schema: &Value| {
                let schema = schema.as_object().filter(|schema| schema.len() == 1)?;
                without_all(schema.get("required")?)
            };
            list.iter().map(only_required).collect::<Option<Vec<Value>>>()?
        }
        Some(_) => return None,
    };
    require_all(keywords, opposites);
    Some(())
}

/// An object that lacks one of these properties at least.
fn without_all(names: &Value) -> Option<Value> {
    let lacking =
        |name: &Value| Some(json!({"type": "object", "properties": {name.as_str()?: false}}));
    let lacking: Option<Vec<Value>> = names.as_array()?.iter().map(lacking).collect();
    match lacking?.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(json!({"anyOf": several})),
    }
}

/// All types but those. Numbers that are no whole ones have no type of their own, and are left out too.
fn other_types(types: &Value) -> Vec<&'static str> {
    let named = type_names(types);
    let is_other = |name: &&str| {
        let is_number = *name == "number" && named.iter().any(|name| name == "integer");
        !is_number && !named.iter().any(|named| named == name)
    };
    ["null", "boolean", "number", "string", "array", "object"]
        .into_iter()
        .filter(is_other)
        .collect()
}

/// What a property needs beside it: it is not there, or what it needs is.
fn depend(keywords: &mut Keywords, name: &str) -> Option<()> {
    let Some(Value::Object(dependencies)) = keywords.remove(name) else { return Some(()) };
    if dependencies.len() > DEPENDENCIES_MAX {
        return None;
    }
    let is_object = keywords.get("type") == Some(&json!("object"));
    let of_type = |mut schema: Value| {
        if is_object && let Value::Object(keywords) = &mut schema {
            keywords.entry("type").or_insert_with(|| json!("object"));
        }
        schema
    };
    let dependencies = dependencies.into_iter().map(|(name, needed)| {
        let needed = match needed {
            Value::Array(names) => of_type(json!({"required": names})),
            Value::String(name) => of_type(json!({"required": [name]})),
            schema => schema,
        };
        json!({"anyOf": [of_type(json!({"properties": {name: false}})), needed]})
    });
    require_all(keywords, dependencies.collect());
    Some(())
}

/// Adds schemas that all have to be met.
fn require_all(keywords: &mut Keywords, schemas: Vec<Value>) {
    if schemas.is_empty() {
        return;
    }
    if let Value::Array(list) = keywords.entry("allOf").or_insert_with(|| json!([])) {
        list.extend(schemas);
    }
}

/// `unevaluatedProperties` where no other schema evaluates properties of the same object.
fn close(keywords: &mut Keywords) -> Option<()> {
    let Some(schema) = keywords.remove("unevaluatedProperties") else { return Some(()) };
    if schema == Value::Bool(true) || schema == json!({}) {
        return Some(());
    }
    if keywords.contains_key("additionalProperties") {
        // Every property is evaluated.
        return Some(());
    }
    if ["allOf", "anyOf", "oneOf", "$ref"].iter().any(|name| keywords.contains_key(*name)) {
        return None;
    }
    keywords.insert("additionalProperties".to_owned(), schema);
    Some(())
}

/// A pattern that one name alone matches is that property: beside a property of the name, no name would be left for it.
fn name_literal_patterns(keywords: &mut Keywords) {
    let Some(Value::Object(mut patterns)) = keywords.remove("patternProperties") else { return };
    let literal = |pattern: &str| {
        let name = pattern.strip_prefix('^')?.strip_suffix('$')?;
        let is_plain = name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | ' '));
        is_plain.then(|| name.to_owned())
    };
    for pattern in patterns.keys().cloned().collect::<Vec<_>>() {
        let Some(name) = literal(&pattern) else { continue };
        let Some(schema) = patterns.shift_remove(&pattern) else { continue };
        let properties = keywords.entry("properties").or_insert_with(|| json!({}));
        properties[&name] = match properties.get(&name) {
            Some(listed) => json!({"allOf": [listed, schema]}),
            None => schema,
        };
    }
    if !patterns.is_empty() {
        keywords.insert("patternProperties".to_owned(), Value::Object(patterns));
    }
}

/// `propertyNames`: names become properties or patterns of properties.
fn name_properties(keywords: &mut Keywords) -> Option<()> {
    let names = match keywords.remove("propertyNames") {
        None | Some(Value::Bool(true)) => return Some(()),
        Some(Value::Object(names)) => names,
        Some(_) => return None,
    };
    let known = ["type", "enum", "const", "pattern", "minLength", "maxLength"];
    if !names.keys().all(|name| known.contains(&name.as_str()))
        || names.get("type").is_some_and(|types| *types != json!("string"))
    {
        return None;
    }
    let rest = keywords.get("additionalProperties").cloned().unwrap_or(Value::Bool(true));
    let constant = names.get("const").map(|value| vec![value.clone()]);
    let listed = constant.or_else(|| names.get("enum").and_then(Value::as_array).cloned());
    let has_other = ["pattern", "minLength", "maxLength"].iter().any(|n| names.contains_key(*n));
    match (listed, has_other) {
        (None, false) => return Some(()),
        (Some(_), true) => return None,
        (Some(listed), false) => list_names(keywords, &listed, &rest)?,
        (None, true) => {
            if has_properties(keywords) {
                return None;
            }
            let pattern = expression(&names)?;
            keywords.insert("patternProperties".to_owned(), json!({pattern: rest}));
        }
    }
    keywords.insert("additionalProperties".to_owned(), Value::Bool(false));
    Some(())
}

fn has_properties(keywords: &Keywords) -> bool {
    ["properties", "patternProperties"].iter().any(|name| {
        keywords.get(*name).and_then(Value::as_object).is_some_and(|map| !map.is_empty())
    })
}

/// The expression of a name that has a pattern or a length.
fn expression(names: &Keywords) -> Option<String> {
    let length = |name: &str| names.get(name).map(count);
    match (names.get("pattern").and_then(Value::as_str), length("minLength"), length("maxLength")) {
        (Some(pattern), None, None) => Some(pattern.to_owned()),
        (None, min, max) => {
            let min = min.flatten().unwrap_or(0);
            let max = max.flatten().map_or(String::new(), |max| max.to_string());
            Some(format!("^(?s:.){{{min},{max}}}$"))
        }
        _ => None,
    }
}

/// Only properties of these names may be there.
fn list_names(keywords: &mut Keywords, listed: &[Value], rest: &Value) -> Option<()> {
    if keywords.contains_key("patternProperties") {
        return None;
    }
    let mut properties = match keywords.remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    };
    properties.retain(|name, _| listed.iter().any(|value| value.as_str() == Some(name)));
    if *rest != Value::Bool(false) {
        for name in listed.iter().filter_map(Value::as_str) {
            properties.entry(name).or_insert_with(|| rest.clone());
        }
    }
    keywords.insert("properties".to_owned(), Value::Object(properties));
    Some(())
}

/// How the properties of an object are bound.
struct Properties {
    /// Names that may be there and need not.
    optional: Vec<String>,
    n_required: u64,
    /// Whether others than those of `properties` may be there.
    is_open: bool,
}

impl Properties {
    fn of(keywords: &Keywords) -> Self {
        let empty = Map::new();
        let listed = keywords.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let names = keywords.get("required").and_then(Value::as_array);
        let mut required: Vec<&str> =
            names.into_iter().flatten().filter_map(Value::as_str).collect();
        required.sort_unstable();
        required.dedup();
        let is_optional = |(name, schema): &(&String, &Value)| {
            !required.contains(&name.as_str()) && **schema != Value::Bool(false)
        };
        let optional = listed.iter().filter(is_optional).map(|(name, _)| name.clone()).collect();
        let patterns = keywords.get("patternProperties").and_then(Value::as_object);
        let is_open = keywords.get("additionalProperties") != Some(&Value::Bool(false))
            || patterns.is_some_and(|patterns| !patterns.is_empty());
        Self { optional, n_required: required.len() as u64, is_open }
    }
}

/// `minProperties`: the compiler counts where every property is required, or one of those that are listed is missing.
fn bound_below(keywords: &mut Keywords) -> Option<()> {
    let Some(min) = keywords.get("minProperties").and_then(count) else { return Some(()) };
    let Properties { optional, n_required, is_open } = Properties::of(keywords);
    if min <= n_required {
        keywords.remove("minProperties");
        return Some(());
    }
    if min - n_required > 1 {
        // The same name may come twice in an object, and counts once.
        return None;
    }
    if optional.is_empty() || !is_open {
        return Some(());
    }
    if keywords.get("type") != Some(&json!("object")) || optional.len() > ALTERNATIVES_MAX {
        return None;
    }
    keywords.remove("minProperties");
    let mut either: Vec<Value> =
        optional.iter().map(|name| json!({"type": "object", "required": [name]})).collect();
    let none: Keywords = optional.into_iter().map(|name| (name, Value::Bool(false))).collect();
    either.push(json!({"type": "object", "properties": none, "minProperties": min}));
    join(keywords, Keywords::from_iter([("anyOf".to_owned(), Value::Array(either))]));
    Some(())
}

/// `maxProperties`: the compiler counts where every property is required.
fn bound_above(keywords: &mut Keywords) -> Option<()> {
    let Some(max) = keywords.get("maxProperties").and_then(count) else { return Some(()) };
    let Properties { optional, n_required, is_open } = Properties::of(keywords);
    let n_listed = n_required + optional.len() as u64;
    if !is_open && n_listed <= max {
        keywords.remove("maxProperties");
        return Some(());
    }
    let is_one = !is_open && max == n_required + 1;
    (optional.is_empty() || is_one).then_some(())
}
