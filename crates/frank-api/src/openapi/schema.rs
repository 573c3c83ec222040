//! Small JSON schemas to build larger ones from. Knows no dialect.

use serde_json::{Map, Value, json};

/// Fields of an object, each with its schema.
pub(super) type Fields = Vec<(&'static str, Value)>;

/// The type of what may be left out with `null`.
const NULL: &str = "null";

/// Any value.
pub(super) fn anything() -> Value {
    json!({})
}

/// No value: the field may only be `null`.
pub(super) fn nothing() -> Value {
    json!({"type": NULL})
}

pub(super) fn text() -> Value {
    json!({"type": "string"})
}

/// A text of `low` to `high` characters.
pub(super) fn text_of(low: usize, high: usize) -> Value {
    json!({"type": "string", "minLength": low, "maxLength": high})
}

pub(super) fn boolean() -> Value {
    json!({"type": "boolean"})
}

/// A number from `low` to `high`.
pub(super) fn number(low: f64, high: f64) -> Value {
    json!({"type": "number", "minimum": low, "maximum": high})
}

/// A whole number from `low` to `high`.
pub(super) fn integer(low: i64, high: i64) -> Value {
    json!({"type": "integer", "minimum": low, "maximum": high})
}

/// A whole number from `low` on.
pub(super) fn integer_from(low: i64) -> Value {
    json!({"type": "integer", "minimum": low})
}

/// A number of things.
pub(super) fn count() -> Value {
    integer_from(0)
}

/// One of several texts.
pub(super) fn word(words: &[&str]) -> Value {
    json!({"type": "string", "enum": words})
}

/// Exactly this value.
pub(super) fn only(value: impl Into<Value>) -> Value {
    json!({"const": value.into()})
}

pub(super) fn list(items: &Value) -> Value {
    json!({"type": "array", "items": items})
}

/// A list of `low` items or more.
pub(super) fn list_from(items: &Value, low: usize) -> Value {
    json!({"type": "array", "items": items, "minItems": low})
}

/// A list of `low` to `high` items.
pub(super) fn list_of(items: &Value, low: usize, high: usize) -> Value {
    json!({"type": "array", "items": items, "minItems": low, "maxItems": high})
}

pub(super) fn empty_list() -> Value {
    json!({"type": "array", "maxItems": 0})
}

pub(super) fn any_of(schemas: &[Value]) -> Value {
    json!({"anyOf": schemas})
}

/// An object with any fields.
pub(super) fn any_object() -> Value {
    json!({"type": "object"})
}

/// A JSON schema, which an answer is kept to.
pub(super) fn json_schema() -> Value {
    json!({"type": ["object", "boolean"]})
}

/// A schema of the document by its name.
pub(super) fn named(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// `schema`, or `null`.
pub(super) fn nullable(schema: Value) -> Value {
    let Value::Object(mut schema) = schema else { return schema };
    let is_nullable = schema.is_empty() || schema.get("type").is_some_and(|kind| kind == NULL);
    if is_nullable {
        return schema.into();
    }
    match schema.get_mut("type") {
        Some(Value::Array(kinds)) => kinds.push(NULL.into()),
        Some(kind) => *kind = json!([kind, NULL]),
        None => return any_of(&[schema.into(), nothing()]),
    }
    if let Some(Value::Array(words)) = schema.get_mut("enum") {
        words.push(Value::Null);
    }
    schema.into()
}

/// An object that clients send: of `optional` each may be left out or be `null`, and so may others, which are refused if
/// they are something.
pub(super) fn request(required: Fields, optional: Fields) -> Value {
    let optional = optional.into_iter().map(|(name, schema)| (name, nullable(schema)));
    let mut request = object(required, optional.collect());
    request["additionalProperties"] = nothing();
    request
}

/// An object with these fields and no others.
pub(super) fn object(required: Fields, optional: Fields) -> Value {
    let names: Vec<&str> = required.iter().map(|(name, _)| *name).collect();
    let fields = required.into_iter().chain(optional);
    let properties: Map<String, Value> =
        fields.map(|(name, schema)| (name.to_owned(), schema)).collect();
    let mut object =
        json!({"type": "object", "properties": properties, "additionalProperties": false});
    if !names.is_empty() {
        object["required"] = json!(names);
    }
    object
}
