//! How many answers, what is told of them and what they must look like, as the dialects read it.

use frank_api::AnswerFormat;
use serde_json::{Value, json};

use crate::requests::{accepted, parse_completion, refused};

#[test]
fn several_answers_are_asked_for_within_bounds() {
    assert_eq!(accepted(json!({"n": 3})).options.n_choices, Some(3));
    refused(json!({"n": 0}), "n", "must be from 1 to 128");
    refused(json!({"n": 129}), "n", "must be from 1 to 128");
}

#[test]
fn log_probabilities_are_asked_for_as_each_dialect_does() {
    let chat = |extra: Value| accepted(extra).options.n_logprobs;
    assert_eq!(chat(json!({"logprobs": true})), Some(0));
    assert_eq!(chat(json!({"logprobs": true, "top_logprobs": 20})), Some(20));
    assert_eq!(chat(json!({"logprobs": false, "top_logprobs": 0})), None);
    assert_eq!(chat(json!({"n_probs": 4})), Some(4));
    refused(json!({"top_logprobs": 3}), "top_logprobs", "no effect without logprobs");
    refused(json!({"logprobs": true, "top_logprobs": 21}), "top_logprobs", "from 0 to 20");
    refused(json!({"logprobs": 3}), "logprobs", "must be true or false, not a number");
    refused(json!({"logprobs": true, "top_logprobs": 2, "n_probs": 3}), "n_probs", "differ");
    let completion =
        |logprobs: Value| parse_completion(&json!({"prompt": "x", "logprobs": logprobs}));
    assert_eq!(completion(json!(0)).unwrap().options.n_logprobs, Some(0));
    assert_eq!(completion(json!(5)).unwrap().options.n_logprobs, Some(5));
    assert_eq!(completion(Value::Null).unwrap().options.n_logprobs, None);
    assert_eq!(completion(json!(6)).unwrap_err().param.as_deref(), Some("logprobs"));
    assert_eq!(completion(json!(true)).unwrap_err().param.as_deref(), Some("logprobs"));
}

#[test]
fn the_form_of_an_answer_is_read_in_every_wrapping() {
    let rule = |extra: Value| {
        let rule = accepted(extra).options.format.expect("a rule");
        (rule.format, rule.param)
    };
    let schema = json!({"type": "object"});
    let expected = AnswerFormat::JsonSchema(schema.clone());
    let format = |format: Value| rule(json!({"response_format": format}));
    assert_eq!(
        format(json!({"type": "json_object"})),
        (AnswerFormat::JsonObject, "response_format")
    );
    assert_eq!(
        format(json!({"type": "json_object", "schema": schema})),
        (expected.clone(), "response_format.schema")
    );
    assert_eq!(
        format(json!({"type": "json_schema", "schema": schema})),
        (expected.clone(), "response_format.schema")
    );
    let wrapped = json!({"name": "n", "schema": schema, "strict": true, "description": "d"});
    assert_eq!(
        format(json!({"type": "json_schema", "json_schema": wrapped})),
        (expected.clone(), "response_format.json_schema.schema")
    );
    assert_eq!(rule(json!({"json_schema": schema})), (expected, "json_schema"));
    let grammar = "root ::= [a-z]";
    assert_eq!(
        rule(json!({"grammar": grammar})),
        (AnswerFormat::Gbnf(grammar.to_owned()), "grammar")
    );
    assert_eq!(accepted(json!({"response_format": {"type": "text"}})).options.format, None);
}

#[test]
fn forms_that_cannot_be_kept_are_named() {
    let format = |format: Value, param: &str, says: &str| {
        refused(json!({"response_format": format}), param, says);
    };
    format(json!({"type": "regex"}), "response_format.type", "text, json_object or json_schema");
    format(json!({}), "response_format.type", "is required");
    format(json!("json"), "response_format", "must be an object");
    format(json!({"type": "json_schema"}), "response_format.json_schema", "is required");
    format(
        json!({"type": "json_schema", "json_schema": {"name": "n"}}),
        "response_format.json_schema.schema",
        "is required",
    );
    format(json!({"type": "text", "extra": 1}), "response_format.extra", "unknown parameter");
    format(json!({"type": "json_object", "schema": 5}), "response_format.schema", "a JSON schema");
    refused(json!({"grammar": "x".repeat(70_000)}), "grammar", "at most 65536 bytes");
    let object = json!({"type": "json_object"});
    let both = json!({"grammar": "root ::= \"x\"", "response_format": object});
    refused(both, "grammar", "cannot be kept beside response_format");
    let both = json!({"json_schema": {}, "response_format": object});
    refused(both, "json_schema", "cannot be kept beside response_format");
    let endless = json!({"ignore_eos": true, "response_format": object});
    refused(endless, "ignore_eos", "cannot be kept beside response_format");
    let long = json!({"min_tokens": 3, "json_schema": {}});
    refused(long, "min_tokens", "cannot be kept beside json_schema");
}

#[test]
fn the_prompt_cache_can_be_declined() {
    assert_eq!(accepted(json!({"cache_prompt": false})).options.use_cache, Some(false));
    assert_eq!(accepted(json!({})).options.use_cache, None);
}
