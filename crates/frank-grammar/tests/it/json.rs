//! JSON objects and values: whatever a model draws, the answer parses and validates.

use frank_grammar::Grammar;
use frank_testkit::assets;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::{Value, json};

use crate::walk::{SMALL, Words, of_model};

/// Schemas as tools and people write them.
fn schemas() -> Vec<Value> {
    vec![
        json!({"type": "object"}),
        json!(true),
        json!({"type": "array", "items": {"type": "integer", "minimum": -5, "maximum": 120}, "minItems": 2, "maxItems": 4}),
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Person", "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 20, "description": "the name"},
                "age": {"type": "integer", "minimum": 0},
                "mail": {"anyOf": [{"type": "string", "format": "ipv4"}, {"type": "null"}], "default": null},
                "tags": {"type": "array", "items": {"enum": ["a", "b/c", "d\"e", 7, null]}, "maxItems": 3},
            },
            "required": ["name", "age"], "additionalProperties": false,
        }),
        json!({
            "$defs": {"node": {"type": "object", "properties": {
                "value": {"type": "number"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
                "required": ["value", "next"], "additionalProperties": false}},
            "$ref": "#/$defs/node",
        }),
        json!({
            "$defs": {
                "cat": {"type": "object", "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}},
                    "required": ["kind", "lives"], "additionalProperties": false},
                "dog": {"type": "object", "properties": {"kind": {"const": "dog"}, "good": {"type": "boolean"}},
                    "required": ["kind"], "additionalProperties": false},
            },
            "oneOf": [{"$ref": "#/$defs/cat"}, {"$ref": "#/$defs/dog"}], "discriminator": {"propertyName": "kind"},
        }),
        json!({"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3,5}$"}),
        json!({"type": "array", "prefixItems": [{"type": "boolean"}, {"const": {"a": [1, "x"]}}], "items": false, "minItems": 2}),
        json!({"type": "object", "patternProperties": {"^x_[a-z]{1,3}$": {"type": "integer"}}, "additionalProperties": false,
            "minProperties": 1, "maxProperties": 2}),
        json!({"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
            {"properties": {"b": {"type": "boolean"}}, "required": ["b"]}]}),
        json!({"type": "number", "exclusiveMinimum": 0, "maximum": 10, "multipleOf": 0.5}),
        json!({"type": ["string", "null"], "format": "date-time"}),
        json!({"type": "string", "format": "uuid"}),
        json!({"enum": [1, "two", null, true]}),
    ]
}

/// A schema of each kind that agents and clients for structured output send.
fn kinds() -> Vec<Value> {
    let object = |properties: Value| json!({"type": "object", "properties": properties, "additionalProperties": false});
    let string = |format: &str| json!({"type": "string", "format": format});
    let mut kinds: Vec<Value> = [
        "date-time",
        "date",
        "time",
        "duration",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "uuid",
        "uri",
        "uri-reference",
        "json-pointer",
        "relative-json-pointer",
        "idn-email",
        "iri",
    ]
    .map(string)
    .into();
    kinds.extend([
        object(json!({"command": {"type": "string"}, "timeout": {"type": "integer", "exclusiveMinimum": 0, "maximum": 600_000}})),
        object(json!({"edits": {"type": "array", "minItems": 1, "items": object(json!({"old": {"type": "string"}, "new": {"type": "string"}}))}})),
        json!({"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": {"type": ["string", "number"]}}),
        json!({"type": "object", "propertyNames": {"pattern": "^[a-z_]{1,8}$"}, "additionalProperties": {"type": "boolean"}}),
        json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "minProperties": 1}),
        json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"const": 1}}, "dependentRequired": {"a": ["b"]}, "maxProperties": 2, "additionalProperties": false}),
        json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "not": {"required": ["a", "b"]}, "additionalProperties": false}),
        json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "additionalProperties": false}),
        json!({"allOf": [{"$ref": "#/definitions/base~1"}, {"properties": {"kind": {"enum": ["a", "b"]}}, "required": ["kind"]}],
            "definitions": {"base/": {"type": "object", "properties": {"id": {"type": "integer", "format": "int32"}}, "required": ["id"]}}}),
        json!({"type": "array", "items": [{"type": "integer"}, {"type": "string"}], "additionalItems": {"type": "null"}, "maxItems": 4,
            "$schema": "http://json-schema.org/draft-07/schema#"}),
        json!({"type": "number", "multipleOf": 0.01, "minimum": -1, "exclusiveMaximum": 1}),
        json!({"type": "integer", "multipleOf": 7, "minimum": 100, "maximum": 9_000}),
        json!({"type": "string", "pattern": "^\\S+(\\s[[a-z]+)?.$", "minLength": 3, "maxLength": 30}),
        json!({"type": "string", "pattern": "[0-9]{2}", "maxLength": 10}),
        json!({"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["next"], "additionalProperties": false}),
        json!({"type": "object", "patternProperties": {"^S_": {"type": "string"}, "^I_": {"type": "integer"}}, "additionalProperties": false}),
        json!({"type": "object", "properties": {"a": {}}, "required": ["a", "z"], "unevaluatedProperties": false, "patternProperties": {"^z$": {"type": "null"}}}),
        json!({"const": {"a": [1, null, "x"], "b": {}}}),
    ]);
    kinds
}

#[test]
fn every_kind_of_schema_is_accepted_and_its_random_answers_validate() {
    for schema in kinds() {
        check(&SMALL, &schema, 8);
    }
}

fn check(words: &Words, schema: &Value, n_answers: u64) {
    let validator = jsonschema::options()
        .should_validate_formats(true)
        .build(schema)
        .expect("the schemas here are valid");
    let grammar = Grammar::json_schema(schema);
    for seed in 0..n_answers {
        let text = words.wander(&grammar, &mut ChaCha8Rng::seed_from_u64(seed));
        let value: Value = match serde_json::from_str(&text) {
            Ok(value) => value,
            // JSON has no bound on a number, the parser has.
            Err(error) if error.to_string().starts_with("number out of range") => continue,
            Err(error) => panic!("{error}: {text:?} of {schema}"),
        };
        assert!(validator.is_valid(&value), "{text:?} of {schema}");
    }
}

#[test]
fn every_random_answer_parses_and_validates() {
    for schema in schemas() {
        check(&SMALL, &schema, 12);
    }
}

#[test]
fn every_random_answer_of_real_vocabularies_parses_and_validates() {
    let models = [Some(assets::smollm2()), assets::gemma3()];
    for path in models.into_iter().flatten() {
        let words = of_model(&path);
        for schema in schemas() {
            check(&words, &schema, 2);
        }
    }
}

#[test]
fn json_object_is_an_object_and_nothing_else() {
    let grammar = Grammar::json_object();
    for good in ["{}", r#"{"a":1}"#, r#"{ "a": [1, 2.5e-3, null], "b": {"c": "\u0007\né"} }"#] {
        assert!(SMALL.accepts(&grammar, good), "{good}");
    }
    for bad in [
        "",
        "[]",
        "1",
        "{",
        "{}{}",
        r#"{"a":}"#,
        r#"{a:1}"#,
        r#"{"a":01}"#,
        "{\"a\":\"\n\"}",
        "x{}",
    ] {
        assert!(!SMALL.accepts(&grammar, bad), "{bad}");
    }
}

#[test]
fn white_space_is_a_space_or_an_indented_line_and_never_endless() {
    let grammar = Grammar::json_object();
    let pretty = "{\n    \"a\": [\n        1,\n        2\n    ],\r\n\t\"b\": true\n}";
    assert!(SMALL.accepts(&grammar, pretty));
    for endless in ["{  \"a\":1}", "{\n\n\"a\":1}", "{\"a\":  1}", "{\"a\":\t1}"] {
        assert!(!SMALL.accepts(&grammar, endless), "{endless:?}");
    }
    assert!(!SMALL.accepts(&Grammar::json_schema(&json!(true)), "[  1]"), "a boolean schema too");
    let indented = |n: usize| format!("{{\n{}\"a\":1}}", " ".repeat(n));
    assert!(SMALL.accepts(&grammar, &indented(64)));
    assert!(!SMALL.accepts(&grammar, &indented(65)));
}

#[test]
fn properties_come_in_the_order_of_the_schema_and_required_ones_always() {
    let schema = json!({"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "integer"}},
        "required": ["a"], "additionalProperties": false});
    let grammar = Grammar::json_schema(&schema);
    for good in [r#"{"b":1,"a":2}"#, r#"{"a":2}"#] {
        assert!(SMALL.accepts(&grammar, good), "{good}");
    }
    for bad in [r#"{"b":1}"#, r#"{"a":2,"b":1}"#, r#"{"a":2,"c":1}"#, r#"{"a":"2"}"#] {
        assert!(!SMALL.accepts(&grammar, bad), "{bad}");
    }
}

#[test]
fn an_answer_that_is_whole_allows_its_end_and_then_nothing() {
    let mut matcher = SMALL.compile(&Grammar::json_schema(&json!({"const": true})));
    assert!(!SMALL.allowed(&mut matcher).iter().any(|id| SMALL.ends.contains(id)));
    let token_id = SMALL.texts.iter().position(|text| text == b"true").expect("it is a token");
    matcher.accept(u32::try_from(token_id).expect("small")).expect("it is the answer");
    let after = SMALL.allowed(&mut matcher);
    assert!(after.is_empty() || SMALL.ends.iter().all(|end| after.contains(end)), "{after:?}");
}

#[test]
fn a_token_that_is_not_allowed_is_refused() {
    let mut matcher = SMALL.compile(&Grammar::json_object());
    assert!(matcher.accept(u32::from(b'x')).is_err());
}

#[test]
fn a_token_without_text_is_never_allowed() {
    let mut matcher = SMALL.compile(&Grammar::regex("(?s:.*)"));
    let allowed = SMALL.allowed(&mut matcher);
    assert!(!allowed.contains(&256), "token 256 has no text and is no end");
    assert!(allowed.contains(&255) && allowed.contains(&257) && allowed.contains(&u32::from(b'x')));
}
