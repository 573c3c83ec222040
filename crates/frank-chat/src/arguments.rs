//! What the arguments of a call may look like, as patterns made of a tool's schema.

use serde_json::{Map, Value, json};

use crate::conversation::Tool;
use crate::pattern::Pattern;
use crate::schema::Kinds;

/// The schema of all arguments of a tool together. It describes an object, whatever the client left out.
pub(crate) fn schema_of(tool: &Tool) -> Value {
    let Some(Value::Object(schema)) = &tool.parameters else { return json!({"type": "object"}) };
    let mut schema = schema.clone();
    let says_more = ["type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"];
    if !says_more.iter().any(|key| schema.contains_key(*key)) {
        schema.insert("type".to_owned(), json!("object"));
    }
    Value::Object(schema)
}

/// All arguments as one JSON object.
pub(crate) fn as_object(tool: &Tool) -> Pattern {
    Pattern::Json(schema_of(tool))
}

/// An argument of a tool.
pub(crate) struct Argument {
    pub(crate) key: String,
    pub(crate) is_required: bool,
    /// Its schema, with the definitions that it may refer to.
    pub(crate) schema: Value,
    /// Whether it can only be a string.
    pub(crate) is_string: bool,
}

/// The arguments of a tool in the order of its schema; `None` where it names none and takes any.
pub(crate) fn arguments_of(tool: &Tool) -> Option<Vec<Argument>> {
    let root = schema_of(tool);
    let properties = root.get("properties")?.as_object()?;
    let required: Vec<&str> = match root["required"].as_array() {
        Some(names) => names.iter().filter_map(Value::as_str).collect(),
        None => Vec::new(),
    };
    let argument = |(key, schema): (&String, &Value)| Argument {
        key: key.clone(),
        is_required: required.contains(&key.as_str()),
        schema: with_definitions(schema, &root),
        is_string: Kinds::of(schema, &root, 0).is_string(),
    };
    Some(properties.iter().map(argument).collect())
}

/// A part of a schema that still finds what the whole one defines.
fn with_definitions(schema: &Value, root: &Value) -> Value {
    let Value::Object(own) = schema else { return schema.clone() };
    if !has_reference(schema) {
        return schema.clone();
    }
    let mut own: Map<String, Value> = own.clone();
    for key in ["$defs", "definitions"] {
        if let Some(definitions) = root.get(key)
            && !own.contains_key(key)
        {
            own.insert(key.to_owned(), definitions.clone());
        }
    }
    Value::Object(own)
}

/// Whether a schema refers to another.
fn has_reference(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => map.contains_key("$ref") || map.values().any(has_reference),
        Value::Array(items) => items.iter().any(has_reference),
        _ => false,
    }
}

/// A string without quotes around it, up to `end`: any, or one of those that the schema lists.
pub(crate) fn bare_string(schema: &Value, end: &str) -> Pattern {
    let listed = match (&schema["const"], &schema["enum"]) {
        (Value::String(text), _) => vec![text.clone()],
        (_, Value::Array(values)) => {
            values.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    };
    if listed.is_empty() || listed.iter().any(|text| text.contains(end)) {
        return Pattern::TextThrough { end: end.to_owned() };
    }
    let texts = listed.into_iter().map(Pattern::Literal).collect();
    Pattern::Sequence(vec![Pattern::OneOf(texts), Pattern::literal(end)])
}

/// Arguments one after the other, each in a form of its own, with white space between them.
pub(crate) fn in_a_row(arguments: Vec<Argument>, form: impl Fn(&Argument) -> Pattern) -> Pattern {
    let item = |argument: Argument| {
        let pattern = Pattern::Sequence(vec![form(&argument), Pattern::Space]);
        if argument.is_required { pattern } else { Pattern::Optional(Box::new(pattern)) }
    };
    Pattern::Sequence(arguments.into_iter().map(item).collect())
}

/// Arguments with `comma` between them: the required ones, then those of the others that are given.
pub(crate) fn with_commas(
    arguments: &[Argument],
    comma: &str,
    form: impl Fn(&Argument) -> Pattern,
) -> Pattern {
    let after_comma =
        |argument: &Argument| Pattern::Sequence(vec![Pattern::literal(comma), form(argument)]);
    let optional = |pattern| Pattern::Optional(Box::new(pattern));
    let (required, others): (Vec<&Argument>, Vec<&Argument>) =
        arguments.iter().partition(|argument| argument.is_required);
    let Some((first, required)) = required.split_first() else {
        let from = |(at, first): (usize, &&Argument)| {
            let rest = others[at + 1..].iter().map(|other| optional(after_comma(other)));
            Pattern::Sequence(std::iter::once(form(first)).chain(rest).collect())
        };
        let starts: Vec<Pattern> = others.iter().enumerate().map(from).collect();
        return if starts.is_empty() {
            Pattern::Sequence(starts)
        } else {
            optional(Pattern::OneOf(starts))
        };
    };
    let required = required.iter().map(|argument| after_comma(argument));
    let others = others.iter().map(|argument| optional(after_comma(argument)));
    Pattern::Sequence(std::iter::once(form(first)).chain(required).chain(others).collect())
}
