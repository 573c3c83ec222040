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
        "if",
        "then",
        "else",
        "uniqueItems",
        "contains",
        "minContains",
        "maxContains",
        "unevaluatedItems",
        "$dynamicRef",
        "$recursiveRef",
        "x-guidance",
        "minLenght",
        "additonalProperties",
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
        (json!({"type": "object", "nullable": 1}), "/nullable: a boolean"),
        (json!({"enum": []}), "/enum: a list of values"),
        (json!({"format": "int32", "type": "string"}), "/format: the format int32 is none of"),
        (json!({"const": 9_007_199_254_740_993u64}), "/const: 9007199254740993 is beyond 2^53"),
        (json!("string"), "/: a schema is an object or a boolean"),
        (json!({"type": "strin"}), "strin"),
        (json!({"type": "string", "pattern": "(?=x)"}), "/pattern: look-around"),
        (json!({"patternProperties": {"(?!x)": {}}}), "/patternProperties/(?!x): look-around"),
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
        ("#/examples/1", "#/examples/1 is no schema of this document"),
    ];
    for (reference, expected) in cases {
        let schema =
            json!({"properties": {"a": {"$ref": reference}}, "examples": [{}], "$defs": {}});
        let refusal = refusal(&schema);
        assert!(refusal.contains("/properties/a/$ref") && refusal.contains(expected), "{refusal}");
    }
}

#[test]
fn alternatives_that_cannot_be_told_apart_are_refused() {
    let refusal = refusal(&json!({"oneOf": [{"type": "integer"}, {"type": "number"}]}));
    assert!(refusal.contains("oneOf") && refusal.contains("anyOf would do"), "{refusal}");
}

/// Whether each answer is accepted.
fn check(schema: &Value, good: &[&str], bad: &[&str]) {
    let grammar = Grammar::json_schema(schema);
    for good in good {
        assert!(SMALL.accepts(&grammar, good), "{good} of {schema}");
    }
    for bad in bad {
        assert!(!SMALL.accepts(&grammar, bad), "{bad} of {schema}");
    }
}

#[test]
fn keywords_that_the_compiler_lacks_are_said_in_others() {
    let names = |names: Value| json!({"type": "object", "propertyNames": names, "additionalProperties": {"type": "integer"}});
    check(&json!({"type": "string", "nullable": true}), &["null", "\"a\""], &["1"]);
    check(&json!({"type": "string", "nullable": false}), &["\"a\""], &["null"]);
    check(&names(json!({"type": "string"})), &[r#"{"a":1}"#], &[r#"{"a":"x"}"#]);
    check(
        &names(json!({"pattern": "^[ab]+$"})),
        &[r#"{"ab":1,"b":2}"#, "{}"],
        &[r#"{"c":1}"#, r#"{"a":"x"}"#],
    );
    check(
        &names(json!({"enum": ["a", "b"]})),
        &[r#"{"a":1,"b":2}"#, r#"{"b":1}"#],
        &[r#"{"c":1}"#],
    );
    check(&names(json!({"maxLength": 2})), &[r#"{"ab":1}"#], &[r#"{"abc":1}"#]);
    let optional = json!({"a": {"type": "integer"}, "b": {"type": "integer"}});
    check(
        &json!({"type": "object", "properties": optional, "minProperties": 1}),
        &[r#"{"a":1}"#, r#"{"b":1}"#, r#"{"a":1,"b":1}"#, r#"{"c":true}"#],
        &["{}"],
    );
    check(
        &json!({"type": "object", "properties": optional, "dependentRequired": {"a": ["b"]}}),
        &["{}", r#"{"b":1}"#, r#"{"a":1,"b":1}"#],
        &[r#"{"a":1}"#],
    );
    check(
        &json!({"type": "object", "properties": optional, "dependencies": {"a": {"properties": {"b": {"const": 2}}}}}),
        &[r#"{"b":1}"#, r#"{"a":1,"b":2}"#],
        &[r#"{"a":1,"b":1}"#],
    );
    check(
        &json!({"type": "object", "properties": {"a": {}}, "unevaluatedProperties": false}),
        &["{}"],
        &[r#"{"b":1}"#],
    );
    check(&json!({"not": {"type": "string"}}), &["1", "[]"], &["\"a\""]);
    check(
        &json!({"type": "object", "properties": optional, "not": {"required": ["a", "b"]}}),
        &["{}", r#"{"a":1}"#, r#"{"b":1}"#],
        &[r#"{"a":1,"b":1}"#],
    );
}

#[test]
fn alternatives_that_require_different_properties_exclude_each_other() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
    check(&schema, &[r#"{"a":1}"#, r#"{"b":1}"#], &["{}", r#"{"a":1,"b":1}"#]);
    let schema = json!({"oneOf": [
        {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]},
        {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}]});
    check(&schema, &[r#"{"url":"a"}"#, r#"{"path":"a"}"#], &[r#"{"url":"a","path":"a"}"#]);
    // What has both is of both.
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "additionalProperties": false, "oneOf": [{"required": ["a"]}, {"required": ["a", "b"]}]});
    check(&schema, &[r#"{"a":1}"#], &[r#"{"a":1,"b":1}"#, "{}"]);
    let schema = json!({"type": "object", "oneOf": [
        {"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"required": ["a", "b"]}]});
    assert!(refusal(&schema).contains("oneOf"), "what has both may be of one alone");
}

#[test]
fn a_keyword_that_cannot_be_said_in_others_is_named() {
    let object = |keyword: &str, value: Value| json!({"type": "object", "properties": {"a": {}}, keyword: value});
    let cases = [
        ("not", json!({"const": 1})),
        ("propertyNames", json!({"pattern": "x"})),
        ("propertyNames", json!({"minLength": 1, "enum": ["a"]})),
        ("minProperties", json!(2)),
        ("maxProperties", json!(1)),
    ];
    for (keyword, value) in cases {
        let schema = object(keyword, value);
        let refusal = refusal(&schema);
        assert!(refusal.contains(&format!("keyword {keyword} at /")), "{refusal} of {schema}");
    }
    let nullable = json!({"anyOf": [{"type": "string"}], "nullable": true});
    assert!(refusal(&nullable).contains("keyword nullable"));
}

#[test]
fn a_format_is_checked_or_named_and_binds_strings_alone() {
    let format = |name: &str| json!({"type": "string", "format": name});
    check(
        &format("date"),
        &["\"2024-02-29\"", "\"2000-02-29\""],
        &["\"2023-02-29\"", "\"1900-02-29\"", "\"2024-04-31\""],
    );
    check(
        &format("time"),
        &["\"23:59:59Z\"", "\"01:02:03.5+02:00\""],
        &["\"23:59:60Z\"", "\"24:00:00Z\"", "\"01:02:03\""],
    );
    check(
        &format("date-time"),
        &["\"2024-02-29T00:00:00Z\""],
        &["\"2024-02-29\"", "\"2023-02-29T00:00:00Z\""],
    );
    check(
        &format("email"),
        &["\"a.b+c@ex-ample.com\""],
        &["\"a@\"", "\"a..b@c.de\"", "\"a b@c.de\""],
    );
    check(&format("hostname"), &["\"a.b-c.example\""], &["\"a..b\"", "\"-a.b\"", "\"a_b\""]);
    check(
        &format("uri-reference"),
        &["\"/a/b?c=d#e\"", "\"https://a.b/c\"", "\"\""],
        &["\"a b\"", "\"%zz\""],
    );
    check(&format("json-pointer"), &["\"/a~1b/0\"", "\"\""], &["\"a\"", "\"/~2\""]);
    check(&format("byte"), &["\"YWI=\"", "\"\""], &["\"YWI\""]);
    check(&format("password"), &["\"anything\""], &["1"]);
    check(
        &json!({"type": "integer", "format": "int32"}),
        &["2147483647", "-2147483648"],
        &["2147483648", "\"1\""],
    );
    check(
        &json!({"type": "integer", "format": "int64"}),
        &["1830000000000000000"],
        &["9900000000000000000"],
    );
    check(&json!({"type": "number", "format": "double"}), &["0.5"], &["\"1\""]);
    check(&json!({"type": "integer", "format": "whatever"}), &["7"], &[]);
    let both = json!({"type": "string", "format": "date", "pattern": "^2"});
    check(&both, &["\"2024-01-01\""], &["\"1999-01-01\""]);
    for unknown in ["regex", "whatever"] {
        assert!(refusal(&format(unknown)).contains(&format!("the format {unknown} is none of")));
    }
}

#[test]
fn references_by_any_spelling_of_a_place_in_the_document_are_followed() {
    let yes = json!({"type": "boolean"});
    let cases = [
        json!({"$ref": "#/$defs/a~1b", "$defs": {"a/b": yes}}),
        json!({"$ref": "#/$defs/a%20b", "$defs": {"a b": yes}}),
        json!({"$id": "https://example.com/s", "$ref": "https://example.com/s#/$defs/a", "$defs": {"a": yes}}),
        json!({"$ref": "#a", "$defs": {"b": {"$anchor": "a", "type": "boolean"}}}),
        json!({"$ref": "#a", "definitions": {"b": {"id": "#a", "type": "boolean"}}}),
        json!({"$ref": "#/components/schemas/A", "components": {"schemas": {"A": yes}}}),
    ];
    for schema in cases {
        check(&schema, &["true", "false"], &["1", "null"]);
    }
    let tree = json!({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "object", "additionalProperties": {"$ref": "#/$defs/a~1b"}}}});
    check(&tree, &["{}", r#"{"x":{"y":{}}}"#], &["1", r#"{"x":1}"#]);
}

#[test]
fn the_order_of_keywords_changes_nothing() {
    let schema = json!({"exclusiveMinimum": true, "anyOf": [{"type": "integer"}], "minimum": 3});
    check(&schema, &["4"], &["3", "2"]);
    let schema = json!({"items": [{"type": "integer"}], "anyOf": [{"type": "array"}], "additionalItems": false, "minItems": 1});
    check(&schema, &["[1]"], &["[1,2]", "[]"]);
}

#[test]
fn a_bound_beyond_doubles_is_kept() {
    let schema = json!({"type": "integer", "minimum": 0, "maximum": 9_223_372_036_854_775_807_i64});
    check(&schema, &["9223372036854770000", "0"], &["9323372036854775807", "-1"]);
}
