//! The keywords of JSON schemas that are honoured, and those that say nothing about an answer.

use serde_json::Value;

/// Formats of strings that are checked, all of those that the compiler has expressions for.
pub(super) const FORMATS: &[&str] =
    &["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"];

/// What the value of a keyword is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keyword {
    /// Says nothing about an answer.
    Annotation,
    /// An annotation of the whole document, which would change what references mean elsewhere.
    RootAnnotation,
    Schema,
    SchemaOrList,
    /// A list of schemas, not empty.
    List,
    /// Schemas by name.
    Map,
    Ref,
    Types,
    Format,
    /// A regular expression.
    Text,
    Number,
    /// A number, or a boolean as in draft 4.
    Bound,
    /// A number of things.
    Count,
    /// Names of properties.
    Names,
    /// Any values, at least one.
    Values,
    Any,
}

#[rustfmt::skip]
static KEYWORDS: &[(&str, Keyword)] = &[
    ("$anchor", Keyword::Annotation), ("$comment", Keyword::Annotation),
    ("contentEncoding", Keyword::Annotation), ("contentMediaType", Keyword::Annotation),
    ("default", Keyword::Annotation), ("deprecated", Keyword::Annotation),
    ("description", Keyword::Annotation), ("discriminator", Keyword::Annotation),
    ("example", Keyword::Annotation), ("examples", Keyword::Annotation),
    ("readOnly", Keyword::Annotation), ("title", Keyword::Annotation),
    ("writeOnly", Keyword::Annotation),
    ("$id", Keyword::RootAnnotation), ("$schema", Keyword::RootAnnotation),
    ("id", Keyword::RootAnnotation),
    ("$defs", Keyword::Map), ("definitions", Keyword::Map), ("$ref", Keyword::Ref),
    ("allOf", Keyword::List), ("anyOf", Keyword::List), ("oneOf", Keyword::List),
    ("const", Keyword::Any), ("enum", Keyword::Values), ("type", Keyword::Types),
    ("items", Keyword::SchemaOrList), ("prefixItems", Keyword::List),
    ("additionalItems", Keyword::Schema),
    ("minItems", Keyword::Count), ("maxItems", Keyword::Count),
    ("properties", Keyword::Map), ("patternProperties", Keyword::Map),
    ("additionalProperties", Keyword::Schema), ("required", Keyword::Names),
    ("minProperties", Keyword::Count), ("maxProperties", Keyword::Count),
    ("minLength", Keyword::Count), ("maxLength", Keyword::Count),
    ("pattern", Keyword::Text), ("format", Keyword::Format),
    ("minimum", Keyword::Number), ("maximum", Keyword::Number),
    ("exclusiveMinimum", Keyword::Bound), ("exclusiveMaximum", Keyword::Bound),
    ("multipleOf", Keyword::Number),
];

impl Keyword {
    /// The keyword of a name. A name that begins with `x-` is an annotation by convention, except for the compiler's
    /// own.
    pub(super) fn named(name: &str) -> Option<Keyword> {
        if name.starts_with("x-") && name != "x-guidance" {
            return Some(Keyword::Annotation);
        }
        KEYWORDS.iter().find(|(known, _)| *known == name).map(|(_, keyword)| *keyword)
    }

    /// What would be expected instead of a value that the keyword cannot have.
    pub(super) fn mistake(self, value: &Value) -> Option<&'static str> {
        let all_texts =
            |value: &Value| value.as_array().is_some_and(|list| list.iter().all(Value::is_string));
        let is_filled = |value: &Value| value.as_array().is_some_and(|list| !list.is_empty());
        let (is_right, expected) = match self {
            Keyword::Annotation | Keyword::RootAnnotation | Keyword::Any => (true, ""),
            Keyword::Schema => (value.is_object() || value.is_boolean(), "a schema"),
            Keyword::SchemaOrList => (
                value.is_object() || value.is_boolean() || value.is_array(),
                "a schema or a list of schemas",
            ),
            Keyword::List => (is_filled(value), "a list of schemas"),
            Keyword::Map => (value.is_object(), "an object of schemas"),
            Keyword::Ref | Keyword::Format | Keyword::Text => (value.is_string(), "a string"),
            Keyword::Types => (
                value.is_string() || (is_filled(value) && all_texts(value)),
                "the name of a type or a list of them",
            ),
            Keyword::Number => (value.is_number(), "a number"),
            Keyword::Bound => (value.is_number() || value.is_boolean(), "a number"),
            Keyword::Count => (value.is_u64(), "a whole number from 0"),
            Keyword::Names => (all_texts(value), "a list of names"),
            Keyword::Values => (is_filled(value), "a list of values"),
        };
        (!is_right).then_some(expected)
    }
}
