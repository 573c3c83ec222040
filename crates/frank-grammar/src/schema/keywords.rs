//! The keywords of JSON schemas that are honoured, and those that say nothing about an answer.

use serde_json::Value;

/// What the value of a keyword is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keyword {
    /// Says nothing about an answer.
    Annotation,
    /// A name of the schema, by which references in it are read.
    Id,
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
    /// Yes or no.
    Flag,
    /// A schema that is not to be met.
    Not,
    /// Schemas or lists of names by name.
    Dependencies,
    /// Cannot be honoured.
    Unsupported,
}

#[rustfmt::skip]
static KEYWORDS: &[(&str, Keyword)] = &[
    ("$anchor", Keyword::Annotation), ("$comment", Keyword::Annotation), ("$schema", Keyword::Annotation),
    ("$vocabulary", Keyword::Annotation), ("contentEncoding", Keyword::Annotation),
    ("contentMediaType", Keyword::Annotation), ("contentSchema", Keyword::Annotation),
    ("default", Keyword::Annotation), ("deprecated", Keyword::Annotation),
    ("description", Keyword::Annotation), ("discriminator", Keyword::Annotation),
    ("example", Keyword::Annotation), ("examples", Keyword::Annotation),
    ("readOnly", Keyword::Annotation), ("title", Keyword::Annotation),
    ("writeOnly", Keyword::Annotation),
    ("$id", Keyword::Id), ("id", Keyword::Id),
    ("$defs", Keyword::Map), ("definitions", Keyword::Map), ("$ref", Keyword::Ref),
    ("allOf", Keyword::List), ("anyOf", Keyword::List), ("oneOf", Keyword::List),
    ("const", Keyword::Any), ("enum", Keyword::Values), ("type", Keyword::Types),
    ("items", Keyword::SchemaOrList), ("prefixItems", Keyword::List),
    ("additionalItems", Keyword::Schema), ("uniqueItems", Keyword::Flag),
    ("minItems", Keyword::Count), ("maxItems", Keyword::Count),
    ("properties", Keyword::Map), ("patternProperties", Keyword::Map),
    ("additionalProperties", Keyword::Schema), ("propertyNames", Keyword::Schema),
    ("unevaluatedProperties", Keyword::Schema), ("required", Keyword::Names),
    ("minProperties", Keyword::Count), ("maxProperties", Keyword::Count),
    ("minLength", Keyword::Count), ("maxLength", Keyword::Count),
    ("pattern", Keyword::Text), ("format", Keyword::Format),
    ("minimum", Keyword::Number), ("maximum", Keyword::Number),
    ("exclusiveMinimum", Keyword::Bound), ("exclusiveMaximum", Keyword::Bound),
    ("multipleOf", Keyword::Number), ("nullable", Keyword::Flag),
    ("not", Keyword::Not), ("dependentRequired", Keyword::Dependencies),
    ("dependentSchemas", Keyword::Dependencies), ("dependencies", Keyword::Dependencies),
    // Of the standard's drafts, and not honoured.
    ("if", Keyword::Unsupported), ("then", Keyword::Unsupported),
    ("else", Keyword::Unsupported), ("contains", Keyword::Unsupported), ("minContains", Keyword::Unsupported),
    ("maxContains", Keyword::Unsupported), ("unevaluatedItems", Keyword::Unsupported), ("$dynamicRef", Keyword::Unsupported),
    ("$dynamicAnchor", Keyword::Unsupported), ("$recursiveRef", Keyword::Unsupported),
    ("$recursiveAnchor", Keyword::Unsupported), ("divisibleBy", Keyword::Unsupported),
    ("disallow", Keyword::Unsupported), ("extends", Keyword::Unsupported),
    // Of a widespread validator.
    ("formatMinimum", Keyword::Unsupported), ("formatMaximum", Keyword::Unsupported),
    ("formatExclusiveMinimum", Keyword::Unsupported), ("formatExclusiveMaximum", Keyword::Unsupported),
    ("patternRequired", Keyword::Unsupported), ("uniqueItemProperties", Keyword::Unsupported),
    // The compiler's own.
    ("x-guidance", Keyword::Unsupported),
];

/// Letters that may differ in a keyword that is misspelt.
const TYPOS_MAX: usize = 2;
/// Bytes of a name that is short enough to be a word of its own.
const SHORT: usize = 5;

impl Keyword {
    /// The keyword of a name. A name that no draft knows is an annotation, as the standard says, unless it looks like a
    /// constraint that is misspelt.
    pub(super) fn named(name: &str) -> Keyword {
        if let Some((_, keyword)) = KEYWORDS.iter().find(|(known, _)| *known == name) {
            return *keyword;
        }
        if name.starts_with("x-") || name.starts_with(['_', '@']) || !is_misspelt(name) {
            Keyword::Annotation
        } else {
            Keyword::Unsupported
        }
    }

    /// What would be expected instead of a value that the keyword cannot have.
    pub(super) fn mistake(self, value: &Value) -> Option<&'static str> {
        let all_texts =
            |value: &Value| value.as_array().is_some_and(|list| list.iter().all(Value::is_string));
        let is_filled = |value: &Value| value.as_array().is_some_and(|list| !list.is_empty());
        let is_schema = |value: &Value| value.is_object() || value.is_boolean();
        let (is_right, expected) = match self {
            Keyword::Annotation | Keyword::Id | Keyword::Any | Keyword::Unsupported => (true, ""),
            Keyword::Schema => (is_schema(value), "a schema"),
            Keyword::SchemaOrList => {
                (is_schema(value) || value.is_array(), "a schema or a list of schemas")
            }
            Keyword::List => (is_filled(value), "a list of schemas"),
            Keyword::Map | Keyword::Dependencies => (value.is_object(), "an object of schemas"),
            Keyword::Not => (is_schema(value), "a schema"),
            Keyword::Ref | Keyword::Format | Keyword::Text => (value.is_string(), "a string"),
            Keyword::Types => (
                value.is_string() || (is_filled(value) && all_texts(value)),
                "the name of a type or a list of them",
            ),
            Keyword::Number => (value.is_number(), "a number"),
            Keyword::Bound => (value.is_number() || value.is_boolean(), "a number"),
            Keyword::Count => (count(value).is_some(), "a whole number from 0"),
            Keyword::Names => (all_texts(value), "a list of names"),
            Keyword::Values => (is_filled(value), "a list of values"),
            Keyword::Flag => (value.is_boolean(), "a boolean"),
        };
        (!is_right).then_some(expected)
    }
}

/// A number of things; `2.0` is one too.
pub(super) fn count(value: &Value) -> Option<u64> {
    let whole = |number: f64| {
        ((0.0..1e15).contains(&number) && number.trunc() == number).then_some(number as u64)
    };
    value.as_u64().or_else(|| value.as_f64().and_then(whole))
}

fn is_misspelt(name: &str) -> bool {
    let of_constraints = KEYWORDS
        .iter()
        .filter(|(_, keyword)| !matches!(keyword, Keyword::Annotation | Keyword::Id))
        .map(|(known, _)| *known);
    let max = if name.len() <= SHORT { 1 } else { TYPOS_MAX };
    let lower = name.to_lowercase();
    name.len() >= SHORT - 1
        && of_constraints
            .filter(|known| known.len() >= SHORT - 1)
            .any(|known| strsim::osa_distance(&lower, &known.to_lowercase()) <= max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_no_draft_is_an_annotation_unless_it_looks_misspelt() {
        for name in [
            "name",
            "version",
            "readonly",
            "links",
            "javaType",
            "propertyOrder",
            "form",
            "_format",
            "x-enum",
        ] {
            assert_eq!(Keyword::named(name), Keyword::Annotation, "{name}");
        }
        for name in [
            "minLenght",
            "additonalProperties",
            "require",
            "propertis",
            "MaxItems",
            "enums",
            "x-guidance",
        ] {
            assert_eq!(Keyword::named(name), Keyword::Unsupported, "{name}");
        }
    }
}
