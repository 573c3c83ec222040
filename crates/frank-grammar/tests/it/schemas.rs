//! What of a JSON schema is refused: by keyword and place, and nothing silently dropped.

use frank_grammar::{Grammar, GrammarError};
use serde_json::{Value, json};

use crate::walk::SMALL;

fn refusal(schema: &Value) -> String {
    match SMALL.try_compile(&Grammar::json_schema(schema)) {
        Ok(_) => panic!("taken: {schema}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_keyword_that_cannot_be_honoured_is_named_with_its_place() {
    let keywords = [
        "not",
        "if",
        "then",
        "else",
        "uniqueItems",
        "contains",
        "minContains",
        "maxContains",
        "propertyNames",
        "dependentRequired",
        "dependentSchemas",
        "dependencies",
        "unevaluatedProperties",
        "unevaluatedItems",
        "$dynamicRef",
        "$recursiveRef",
        "nullable",
        "x-guidance",
        "minLenght",
    ];
    for keyword in keywords {
        for nested in [false, true] {
            let schema = json!({"type": "array", "items": {}, keyword: true});
            let (schema, place) = if nested {
                (json!({"type": "object", "properties": {"a/b~c": schema}}), "/properties/a~1b~0c")
            } else {
                (schema, "/")
            };
            let error = SMALL.try_compile(&Grammar::json_schema(&schema)).err();
            let expected = GrammarError::UnsupportedKeyword {
                keyword: keyword.to_owned(),
                pointer: place.to_owned(),
            };
            assert_eq!(error, Some(expected), "{schema}");
        }
    }
}

#[test]
fn annotations_change_nothing() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-04/schema#", "$id": "https://example.com/x", "title": "t",
        "description": "d", "default": 3, "examples": [1], "deprecated": true, "x-order": 1, "const": "a",
    });
    let grammar = Grammar::json_schema(&schema);
    assert!(SMALL.accepts(&grammar, "\"a\"") && !SMALL.accepts(&grammar, "\"b\""));
}

#[test]
fn a_value_of_the_wrong_kind_is_named_with_its_place() {
    let cases = [
        (json!({"type": 5}), "/type: the name of a type"),
        (json!({"properties": []}), "/properties: an object of schemas"),
        (json!({"properties": {"a": 1}}), "/properties/a: a schema is an object"),
        (json!({"items": {"minItems": -1}}), "/items/minItems: a whole number"),
        (json!({"enum": []}), "/enum: a list of values"),
        (json!({"format": "int32", "type": "string"}), "/format: the format int32 is none of"),
        (json!({"const": 9_007_199_254_740_993u64}), "/const: 9007199254740993 is beyond 2^53"),
        (json!("string"), "/: a schema is an object or a boolean"),
        (json!({"type": "strin"}), "strin"),
        (json!({"type": "string", "pattern": "(?=x)"}), "look-around"),
        (json!({"type": "integer", "minimum": 3, "maximum": 2}), ""),
    ];
    for (schema, expected) in cases {
        let refusal = refusal(&schema);
        assert!(refusal.contains(expected), "{refusal}\nof {schema}");
    }
}

#[test]
fn a_reference_stays_inside_the_document() {
    let cases = [
        ("https://example.com/schema.json", "a reference is # or #/"),
        ("other.json#/a", "a reference is # or #/"),
        ("#anchor", "a reference is # or #/"),
        ("#/$defs/missing", "#/$defs/missing is no schema of this document"),
        ("#/examples/0", "#/examples/0 is no schema of this document"),
    ];
    for (reference, expected) in cases {
        let schema = json!({"properties": {"a": {"$ref": reference}}, "examples": [{"not": {}}], "$defs": {}});
        let refusal = refusal(&schema);
        assert!(refusal.contains("/properties/a/$ref") && refusal.contains(expected), "{refusal}");
    }
}

#[test]
fn alternatives_that_cannot_be_told_apart_are_refused() {
    let refusal = refusal(&json!({"oneOf": [{"type": "integer"}, {"type": "number"}]}));
    assert!(refusal.contains("oneOf"), "{refusal}");
}
