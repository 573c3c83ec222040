//! The OpenAPI document says what the dialects read and write.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use frank_api::{
    DIALECTS, DetokenizeRequest, Dialect, ModelCard, TokenizeRequest, anthropic_model_body,
    anthropic_models_body, deleted_body, detokenize_body, model_body, models_body,
    openapi_document, tokenize_body,
};
use jsonschema::Validator;
use proptest::prelude::{prop, proptest};
use serde_json::{Value, json};

use crate::properties::{self, FIELDS};
use crate::transcripts::{cases, replay};

/// The schemas of a dialect: its request, a whole reply, the data of a frame, an error.
fn names(dialect: &Dialect) -> [&'static str; 4] {
    match dialect.name {
        "openai_chat" => ["ChatRequest", "ChatReply", "ChatChunk", "OpenAiError"],
        "completions" => ["CompletionRequest", "CompletionReply", "CompletionChunk", "OpenAiError"],
        "responses" => ["ResponsesRequest", "ResponsesReply", "ResponsesEvent", "OpenAiError"],
        "messages" => ["MessagesRequest", "MessagesReply", "MessagesEvent", "AnthropicError"],
        other => panic!("the schemas of {other} belong here"),
    }
}

/// What holds a value to a schema of the document.
fn validator(name: &str) -> Validator {
    let components = openapi_document("1")["components"].take();
    let schema = json!({"$ref": format!("#/components/schemas/{name}"), "components": components});
    jsonschema::validator_for(&schema).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn check(validator: &Validator, value: &Value, what: &str) {
    let errors: Vec<String> = validator
        .iter_errors(value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{what}: {errors:#?}\n{value:#}");
}

#[test]
fn every_route_is_there() {
    let document = openapi_document("1.2.3");
    assert_eq!(
        (&document["openapi"], &document["info"]["version"]),
        (&json!("3.2.0"), &json!("1.2.3"))
    );
    let paths: BTreeSet<&str> =
        document["paths"].as_object().expect("an object").keys().map(String::as_str).collect();
    let mut expected: BTreeSet<&str> = [
        "/v1/models",
        "/v1/models/{id}",
        "/tokenize",
        "/detokenize",
        "/health",
        "/metrics",
        "/openapi.json",
        "/",
    ]
    .into();
    let stored = "/v1/responses/{id}";
    for dialect in DIALECTS {
        expected.insert(dialect.path);
        expected.extend(dialect.count.map(|route| route.path));
        expected.extend((dialect.stores).then_some(stored));
    }
    assert_eq!(paths, expected);
    let methods = |path: &str| {
        document["paths"][path].as_object().map(|item| item.keys().cloned().collect::<Vec<_>>())
    };
    assert_eq!(methods(stored).unwrap(), ["get", "delete"]);
    assert_eq!(methods("/").unwrap(), ["get", "head"]);
}

#[test]
fn every_status_has_the_envelope_of_its_dialect() {
    let document = openapi_document("1");
    for dialect in DIALECTS {
        let responses = &document["paths"][dialect.path]["post"]["responses"];
        let [.., envelope] = names(dialect);
        for status in ["400", "401", "403", "404", "408", "413", "415", "429", "500", "503"] {
            let schema = &responses[status]["content"]["application/json"]["schema"]["$ref"];
            assert_eq!(
                *schema,
                format!("#/components/schemas/{envelope}"),
                "{} {status}",
                dialect.name
            );
        }
        assert!(responses["200"]["content"]["text/event-stream"].is_object(), "{}", dialect.name);
    }
}

/// All places of the document that say `key`.
fn find<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(name, value)| {
            found.extend((name == key).then_some(value));
            find(value, key, found);
        }),
        Value::Array(items) => items.iter().for_each(|item| find(item, key, found)),
        _ => {}
    }
}

#[test]
fn every_schema_is_one_and_every_reference_leads_to_one() {
    let document = openapi_document("1");
    for (name, schema) in document["components"]["schemas"].as_object().expect("an object") {
        assert!(jsonschema::draft202012::meta::is_valid(schema), "{name}");
    }
    let mut references = Vec::new();
    find(&document, "$ref", &mut references);
    for reference in references {
        let pointer = reference.as_str().and_then(|reference| reference.strip_prefix('#'));
        assert!(pointer.and_then(|pointer| document.pointer(pointer)).is_some(), "{reference}");
    }
}

#[test]
fn every_operation_has_its_own_id_and_links_lead_to_some() {
    let document = openapi_document("1");
    let paths = document["paths"].as_object().expect("an object");
    let operations = || paths.values().flat_map(|item| item.as_object().expect("methods").values());
    let ids: BTreeSet<&str> =
        operations().filter_map(|operation| operation["operationId"].as_str()).collect();
    assert_eq!(ids.len(), operations().count());
    let mut links = Vec::new();
    find(&document["paths"], "links", &mut links);
    let targets: Vec<&str> = links
        .iter()
        .flat_map(|links| links.as_object().expect("links by name").values())
        .filter_map(|link| link["operationId"].as_str())
        .collect();
    assert_eq!(targets, ["getResponse", "deleteResponse", "getModel"]);
    assert!(targets.iter().all(|target| ids.contains(target)), "{targets:?}");
}

#[test]
fn every_transcript_is_as_the_document_says() {
    for dialect in DIALECTS {
        let [request, whole, frame, error] = names(dialect).map(validator);
        for case in cases(dialect) {
            let what = case.display().to_string();
            let text = fs::read_to_string(&case).expect("the case can be read");
            let transcript: Value = serde_json::from_str(&text).expect("the case is JSON");
            let reply = replay(dialect, &transcript);
            let json = |text: &str| {
                serde_json::from_str(text).unwrap_or_else(|_| panic!("{what}: {text}"))
            };
            if let Some(body) = reply.strip_prefix("400 ") {
                check(&error, &json(body), &what);
                continue;
            }
            check(&request, &transcript["request"], &what);
            if let Some(body) = reply.strip_prefix("200 ") {
                check(&whole, &json(body), &what);
                continue;
            }
            let data = reply.lines().filter_map(|line| line.strip_prefix("data: "));
            for data in data.filter(|data| *data != "[DONE]").map(json) {
                let is_error = data.get("error").is_some() && data.get("type").is_none();
                check(if is_error { &error } else { &frame }, &data, &what);
            }
        }
    }
}

#[test]
fn other_replies_are_as_the_document_says() {
    let holds = |name: &str, value: Value| check(&validator(name), &value, name);
    let card = ModelCard { id: "m".to_owned(), created: 1_700_000_000, context_length: 8192 };
    let cards = std::slice::from_ref(&card);
    for list in [
        models_body(cards, false),
        models_body(cards, true),
        anthropic_models_body(cards),
        anthropic_models_body(&[]),
    ] {
        holds("ModelList", list);
    }
    holds("ModelCard", model_body(&card));
    holds("ModelCard", anthropic_model_body(&card));
    holds("ResponsesDeleted", deleted_body("resp_1"));
    holds("TokenizeReply", tokenize_body(&[1, 2]));
    holds("DetokenizeReply", detokenize_body("x"));
    holds("OpenApi", openapi_document("1"));
    for dialect in DIALECTS {
        if let Some(route) = dialect.count {
            holds("CountReply", (route.body)(7));
        }
    }
}

/// The fields in the first column of the tables of a page whose head begins with `head`, with the second cells.
fn documented(page: &str, head: &str) -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = fs::read_to_string(path).expect("the page is there");
    let mut is_listed = false;
    let mut fields = Vec::new();
    for line in text.lines() {
        let Some(row) = line.strip_prefix("| ") else {
            is_listed &= line.starts_with('|');
            continue;
        };
        is_listed |= row.starts_with(head);
        if let Some((names, rest)) =
            row.split_once(" | ").filter(|(names, _)| is_listed && names.starts_with('`'))
        {
            let names = names.trim_matches('`').split("`, `");
            let second = rest.split(" |").next().unwrap_or_default().trim().to_owned();
            fields.extend(names.map(|name| (name.to_owned(), second.clone())));
        }
    }
    fields
}

fn fields_of(name: &str) -> BTreeSet<String> {
    let schema = openapi_document("1")["components"]["schemas"][name].take();
    schema["properties"].as_object().expect("it has fields").keys().cloned().collect()
}

#[test]
fn requests_have_the_fields_of_the_pages() {
    let requests = documented("requests.md", "field | in |");
    let of = |other: &str| -> BTreeSet<String> {
        requests.iter().filter(|(_, whose)| whose != other).map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(fields_of("ChatRequest"), of("text"));
    assert_eq!(fields_of("CompletionRequest"), of("chat"));
    let all = |page: &str, head: &str| -> BTreeSet<String> {
        documented(page, head).into_iter().map(|(name, _)| name).collect()
    };
    let messages = all("messages.md", "field | here |");
    assert_eq!(fields_of("MessagesRequest"), messages);
    assert_eq!(fields_of("CountRequest"), messages);
    assert_eq!(fields_of("ResponsesRequest"), all("responses.md", "parameter |"));
}

#[test]
fn fields_of_requests_are_described_in_the_words_of_the_pages() {
    let document = openapi_document("1");
    let schemas = &document["components"]["schemas"];
    let temperature = &schemas["ChatRequest"]["properties"]["temperature"]["description"];
    assert_eq!(temperature, "0 to 2; 0 takes the most likely token each time.");
    for name in ["ChatRequest", "CompletionRequest", "ResponsesRequest"] {
        for (field, schema) in schemas[name]["properties"].as_object().expect("an object") {
            assert!(schema["description"].is_string(), "{name}.{field}");
        }
    }
}

/// Whether a dialect takes a request in which `field` is `value`.
fn takes(dialect: &Dialect, field: &str, value: Value) -> bool {
    let mut body = properties::taken(dialect);
    // What the field cannot be without.
    match (dialect.name, field) {
        ("openai_chat", "top_logprobs") => drop(body.insert("logprobs".to_owned(), json!(true))),
        ("completions", "best_of") => drop(body.insert("n".to_owned(), value.clone())),
        _ => {}
    }
    body.insert(field.to_owned(), value);
    (dialect.parse)(Value::Object(body).to_string().as_bytes()).is_ok()
}

#[test]
fn bounds_of_numbers_are_those_of_the_parsers() {
    let document = openapi_document("1");
    let mut n_checked = 0;
    for dialect in DIALECTS {
        let [request, ..] = names(dialect);
        let fields = &document["components"]["schemas"][request]["properties"];
        for (field, schema) in fields.as_object().expect("an object") {
            for (bound, integer_step, step) in [("minimum", -1, -1.0), ("maximum", 1, 1.0)] {
                let Some(value) = schema.get(bound) else { continue };
                let what = format!("{}: {field} {value}", dialect.name);
                assert!(takes(dialect, field, value.clone()), "{what} is taken");
                let beyond = match value.as_i64() {
                    Some(integer) => integer.checked_add(integer_step).map(Value::from),
                    None => value.as_f64().map(|number| json!(number + step)),
                };
                // Beyond the largest integer there is none to send.
                let Some(beyond) = beyond else { continue };
                assert!(!takes(dialect, field, beyond), "what is beyond {what} is refused");
                n_checked += 1;
            }
        }
    }
    assert!(n_checked > 100, "{n_checked}");
}

/// Checks that neither the document nor the parser of a dialect takes a body.
fn check_refused(name: &str, body: &Value) {
    let dialect = DIALECTS.iter().find(|dialect| dialect.name == name).expect("a dialect");
    let [request, ..] = names(dialect);
    assert!((dialect.parse)(body.to_string().as_bytes()).is_err(), "{name} takes {body}");
    assert!(!validator(request).is_valid(body), "the document takes {body}");
}

#[test]
fn what_the_parsers_refuse_in_a_field_the_document_does_not_promise() {
    let allowed = |tools: Value| {
        json!({"messages": [{"role": "user", "content": "Hi"}], "tool_choice": {
            "type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": tools},
        }})
    };
    check_refused("openai_chat", &allowed(json!([])));
    check_refused("openai_chat", &allowed(json!([{"type": "web_search"}])));
    let tools = |name: &str| json!([{"type": "function", "function": {"name": name}}]);
    check_refused(
        "openai_chat",
        &json!({"messages": [{"role": "user", "content": "Hi"}], "tools": tools("what is it?")}),
    );
    let messages = |extra: Value| {
        let mut body = json!({"max_tokens": 1, "messages": [{"role": "user", "content": "Hi"}]});
        body.as_object_mut().expect("an object").extend(extra.as_object().cloned().expect("too"));
        body
    };
    for extra in [
        json!({"messages": []}),
        json!({"messages": [{"role": "system"}]}),
        json!({"messages": [{"role": "assistant", "content": [
            {"type": "thinking", "thinking": "…", "signature": 1},
        ]}]}),
        json!({"messages": [{"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "1", "content": [{}]},
        ]}]}),
        json!({"messages": [{"role": "user", "content": [
            {"type": "search_result", "title": "", "source": "", "content": [{"type": "text"}]},
        ]}]}),
        json!({"thinking": {"type": "enabled"}}),
        json!({"thinking": {"type": "disabled", "budget_tokens": 1024}}),
        json!({"tool_choice": {"type": "tool"}}),
    ] {
        check_refused("messages", &messages(extra));
    }
    for item in [
        json!({"role": "user"}),
        json!({"type": "message", "content": "Hi"}),
        json!({"role": "user", "content": [{"type": "input_image"}]}),
        json!({"type": "function_call", "call_id": "1"}),
        json!({"type": "item_reference", "id": "1"}),
        json!({"type": "reasoning", "role": "user"}),
        json!({}),
    ] {
        check_refused("responses", &json!({"input": [item]}));
    }
}

#[test]
fn a_stream_is_described_by_its_events() {
    let document = openapi_document("1");
    for dialect in DIALECTS {
        let [_, _, frame, _] = names(dialect);
        let content = &document["paths"][dialect.path]["post"]["responses"]["200"]["content"];
        let data = &content["text/event-stream"]["itemSchema"]["properties"]["data"]["anyOf"];
        assert_eq!(data[0]["const"], "[DONE]", "{}", dialect.name);
        let schema = format!("#/components/schemas/{frame}");
        assert_eq!(data[1]["contentSchema"]["$ref"], schema, "{}", dialect.name);
    }
}

#[test]
fn bodies_for_tokens_are_as_the_parsers_take_them() {
    let (to, from) = (validator("TokenizeRequest"), validator("DetokenizeRequest"));
    for body in [
        json!({"content": "x", "add_special": true, "parse_special": null, "with_pieces": false}),
        json!({"content": 5}),
        json!({"content": "x", "with_pieces": true}),
        json!({"content": "x", "more": 1}),
        json!({}),
    ] {
        assert_eq!(
            to.is_valid(&body),
            TokenizeRequest::parse(body.to_string().as_bytes()).is_ok(),
            "{body}"
        );
    }
    for body in
        [json!({"tokens": [1, 2]}), json!({"tokens": [-1]}), json!({"tokens": "x"}), json!({})]
    {
        assert_eq!(
            from.is_valid(&body),
            DetokenizeRequest::parse(body.to_string().as_bytes()).is_ok(),
            "{body}"
        );
    }
}

fn validators() -> &'static [(&'static Dialect, Validator)] {
    static ALL: std::sync::OnceLock<Vec<(&Dialect, Validator)>> = std::sync::OnceLock::new();
    ALL.get_or_init(|| {
        DIALECTS.iter().map(|dialect| (dialect, validator(names(dialect)[0]))).collect()
    })
}

/// Checks a body that a dialect took: tests of what is taken call it, so that the document allows all of it.
pub(crate) fn check_allowed(dialect: &Dialect, body: &Value) {
    let (_, validator) = validators()
        .iter()
        .find(|(other, _)| other.name == dialect.name)
        .expect("each dialect has one");
    check(validator, body, dialect.name);
}

proptest! {
    #[test]
    fn what_a_parser_takes_the_document_allows(
        dialect in properties::dialect(),
        fields in prop::collection::vec((prop::sample::select(FIELDS), properties::value()), 1..4),
    ) {
        let mut body = properties::taken(dialect);
        body.extend(fields.into_iter().map(|(name, value)| (name.to_owned(), value)));
        let body = Value::Object(body);
        if (dialect.parse)(body.to_string().as_bytes()).is_ok() {
            check_allowed(dialect, &body);
        }
    }
}
