//! What the dialects accept, clamp, ignore and refuse.

use frank_api::{
    ApiError, ApiRequest, ChatRequest, CompletionPrompt, CompletionRequest, Delivery, ErrorKind,
};
use frank_chat::{Message, Role};
use serde_json::{Value, json};

use crate::dialect;
use crate::openapi::check_allowed;
use crate::properties::FIELDS;

pub(crate) fn parse_chat(body: &Value) -> Result<ChatRequest, ApiError> {
    let request = (dialect("openai_chat").parse)(body.to_string().as_bytes())?;
    check_allowed(dialect("openai_chat"), body);
    match request {
        ApiRequest::Chat(request) => Ok(request),
        ApiRequest::Completion(_) => panic!("a chat dialect gave a completion"),
    }
}

pub(crate) fn parse_completion(body: &Value) -> Result<CompletionRequest, ApiError> {
    let request = (dialect("completions").parse)(body.to_string().as_bytes())?;
    check_allowed(dialect("completions"), body);
    match request {
        ApiRequest::Completion(request) => Ok(request),
        ApiRequest::Chat(_) => panic!("a completion dialect gave a chat"),
    }
}

/// A chat request with `extra` fields.
fn chat_with(extra: Value) -> Value {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}]});
    let Value::Object(extra) = extra else { panic!("extra fields are an object") };
    body.as_object_mut().expect("the body is an object").extend(extra);
    body
}

pub(crate) fn accepted(extra: Value) -> ChatRequest {
    let body = chat_with(extra);
    parse_chat(&body).unwrap_or_else(|error| panic!("{body}: {error}"))
}

/// Checks that a chat request with `extra` is a 400 that blames `param` and says `says`.
pub(crate) fn refused(extra: Value, param: &str, says: &str) {
    let body = chat_with(extra);
    let error = parse_chat(&body).expect_err(&format!("{body} is refused"));
    assert_eq!(
        (error.kind, error.param.as_deref()),
        (ErrorKind::InvalidRequest, Some(param)),
        "{body}: {error}"
    );
    assert!(error.message.contains(says), "{body}: {error}");
}

#[test]
fn null_is_absent_for_every_parameter() {
    // Without its messages there is no request.
    for &name in FIELDS.iter().filter(|&&name| name != "messages") {
        let mut extra = json!({});
        extra[name] = Value::Null;
        let request = accepted(extra);
        let mut plain = accepted(json!({}));
        if name == "model" {
            plain.options.model = None;
        }
        assert_eq!(request, plain, "{name}");
    }
    let error = parse_chat(&json!({"messages": null})).unwrap_err();
    assert_eq!(error.message, "messages is required");
}

#[test]
fn max_tokens_of_nothing_is_refused_and_a_huge_one_is_taken() {
    for name in ["max_tokens", "max_completion_tokens"] {
        let with = |value: Value| {
            let mut extra = json!({});
            extra[name] = value;
            extra
        };
        for nothing in [json!(0), json!(-1), json!(i64::MIN)] {
            refused(with(nothing), name, "must be at least 1");
        }
        refused(with(json!(1.5)), name, "must be an integer");
        refused(with(json!("5")), name, "must be an integer");
        assert_eq!(accepted(with(json!(1))).options.max_tokens, Some(1));
        assert_eq!(accepted(with(json!(1_000_000_000))).options.max_tokens, Some(1_000_000_000));
        assert_eq!(accepted(with(json!(u64::MAX))).options.max_tokens, Some(u64::MAX));
    }
    assert_eq!(accepted(json!({})).options.max_tokens, None);
    assert_eq!(
        accepted(json!({"max_tokens": 5, "max_completion_tokens": 5})).options.max_tokens,
        Some(5)
    );
    refused(json!({"max_tokens": 5, "max_completion_tokens": 6}), "max_tokens", "differ");
}

#[test]
fn an_integer_may_be_written_with_a_fraction_of_nothing() {
    let request = accepted(json!({"max_tokens": 5.0, "top_k": 40.0, "seed": -1.0}));
    assert_eq!(request, accepted(json!({"max_tokens": 5, "top_k": 40, "seed": -1})));
    assert_eq!(accepted(json!({"max_tokens": 1e300})), accepted(json!({"max_tokens": u64::MAX})));
    refused(json!({"max_tokens": 5.5}), "max_tokens", "an integer");
    refused(json!({"max_tokens": -5.0}), "max_tokens", "at least 1");
    refused(json!({"top_k": 1e300}), "top_k", "must be from");
    refused(json!({"seed": -1e300}), "seed", "an integer");
    let prompt = |ids: Value| parse_completion(&json!({"prompt": ids})).map(|one| one.prompt);
    assert_eq!(prompt(json!([1.0, 2])).unwrap(), prompt(json!([1, 2])).unwrap());
    assert!(prompt(json!([1.5])).is_err() && prompt(json!([-1.0])).is_err());
}

#[test]
fn stop_is_a_text_or_up_to_sixteen() {
    let stops = |value: Value| accepted(json!({"stop": value})).options.stop;
    assert_eq!(stops(json!("\n")), ["\n"]);
    assert_eq!(stops(json!(["a", "b"])), ["a", "b"]);
    assert!(stops(json!([])).is_empty());
    assert_eq!(stops(json!(vec!["x"; 16])).len(), 16);
    refused(json!({"stop": vec!["x"; 17]}), "stop", "at most 16 texts, not 17");
    refused(json!({"stop": ["a", ""]}), "stop[1]", "must not be empty");
    refused(json!({"stop": [3]}), "stop[0]", "must be a string, not a number");
    refused(json!({"stop": {}}), "stop", "must be a string or a list of strings, not an object");
    refused(json!({"stop": "x".repeat(5000)}), "stop[0]", "at most 4096 bytes");
}

#[test]
fn usage_in_a_stream_only_when_asked() {
    let delivery = |extra: Value| accepted(extra).options.delivery;
    assert_eq!(delivery(json!({})), Delivery::Whole);
    assert_eq!(delivery(json!({"stream": true})), Delivery::Stream { usage: false });
    let asked = json!({"stream": true, "stream_options": {"include_usage": true, "include_obfuscation": false}});
    assert_eq!(delivery(asked), Delivery::Stream { usage: true });
    assert_eq!(delivery(json!({"stream_options": {"include_usage": true}})), Delivery::Whole);
    refused(json!({"stream_options": {"every": 5}}), "stream_options.every", "unknown parameter");
}

#[test]
fn parameters_that_cannot_be_honoured_are_named() {
    for (name, value) in [
        ("audio", json!({"voice": "x"})),
        ("modalities", json!(["text", "audio"])),
        ("prediction", json!({"type": "content", "content": "x"})),
        ("store", json!(true)),
        ("verbosity", json!("low")),
        ("web_search_options", json!({})),
    ] {
        let mut extra = json!({});
        extra[name] = value;
        refused(extra, name, "is not supported: leave it out");
    }
    refused(json!({"smoothing_factor": 2}), "smoothing_factor", "unknown parameter: smoothing");
}

#[test]
fn values_and_hints_that_change_nothing_are_taken() {
    let plain = accepted(json!({}));
    for extra in [
        json!({"tools": [], "tool_choice": "auto", "parallel_tool_calls": true, "functions": []}),
        json!({"response_format": {"type": "text"}, "logprobs": false, "top_logprobs": 0, "logit_bias": {}, "n_probs": 0, "grammar": ""}),
        json!({"user": "u", "metadata": {"a": "b"}, "store": false, "service_tier": "auto"}),
        json!({"safety_identifier": "x", "prompt_cache_key": "y", "modalities": ["text"]}),
        json!({"verbosity": "medium", "return_token_ids": false, "min_tokens": 0}),
    ] {
        assert_eq!(accepted(extra), plain);
    }
}

#[test]
fn load_generators_can_ask_for_an_exact_number_of_tokens() {
    let request = accepted(json!({"ignore_eos": true, "min_tokens": 8, "max_tokens": 8}));
    assert!(request.options.ignore_end);
    assert_eq!(request.options.min_tokens, 8);
    assert_eq!(accepted(json!({"min_tokens": 8, "stop": "x"})).options.min_tokens, 8);
    refused(json!({"min_tokens": 9, "max_tokens": 8}), "min_tokens", "must be from 0 to 8");
    refused(json!({"min_tokens": -1}), "min_tokens", "must be from 0");
}

#[test]
fn load_generators_are_told_what_they_ask_for_in_vain() {
    let options = json!({"include_usage": true, "continuous_usage_stats": true});
    let request =
        accepted(json!({"stream": true, "stream_options": options, "return_token_ids": true}));
    assert_eq!(request.options.delivery, Delivery::Stream { usage: true });
    let [one, other] = request.options.warnings.as_slice() else { panic!("two sentences") };
    assert!(one.starts_with("return_token_ids has no effect"), "{one}");
    assert!(other.starts_with("stream_options.continuous_usage_stats has no effect"), "{other}");
    let off = json!({"stream": true, "stream_options": {"continuous_usage_stats": false}});
    assert!(accepted(off).options.warnings.is_empty());
}

#[test]
fn text_parts_are_the_same_as_a_text_in_every_role() {
    for (role, expected) in [
        ("system", Role::System),
        ("developer", Role::System),
        ("user", Role::User),
        ("assistant", Role::Assistant),
    ] {
        let with = |content: Value| json!({"messages": [{"role": role, "content": content}]});
        let message = |content: &str| Message::new(expected, content);
        let parsed = |content: Value| parse_chat(&with(content)).unwrap().conversation.messages;
        assert_eq!(parsed(json!("a")), [message("a")]);
        assert_eq!(parsed(json!([{"type": "text", "text": "a"}])), [message("a")]);
        let parts = json!([{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": "b"}]);
        assert_eq!(parsed(parts), [message("a\nb")]);
    }
}

#[test]
fn messages_that_cannot_be_read_are_named_by_their_place() {
    let refused = |messages: Value, param: &str, says: &str| {
        let error = parse_chat(&json!({"messages": messages})).unwrap_err();
        assert_eq!(error.param.as_deref(), Some(param), "{messages}: {error}");
        assert!(error.message.contains(says), "{messages}: {error}");
    };
    let ok = json!({"role": "user", "content": "x"});
    refused(json!([]), "messages", "at least one");
    refused(json!("x"), "messages", "must be a list, not a string");
    refused(json!([ok, "x"]), "messages[1]", "must be an object, not a string");
    refused(json!([ok, {"content": "x"}]), "messages[1].role", "is required");
    refused(json!([{"role": "robot", "content": "x"}]), "messages[0].role", "not \"robot\"");
    refused(json!([{"role": "user"}]), "messages[0].content", "is required");
    refused(
        json!([{"role": "user", "content": 5}]),
        "messages[0].content",
        "a string or a list of text parts",
    );
    refused(
        json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]),
        "messages[0].content[0].type",
        "must be \"text\", not \"image_url\"",
    );
    refused(
        json!([{"role": "user", "content": "x", "tool_call_id": "1"}]),
        "messages[0].tool_call_id",
        "unknown parameter",
    );
    refused(
        json!([{"role": "user", "content": "x", "weight": 1}]),
        "messages[0].weight",
        "unknown parameter",
    );
}

#[test]
fn history_as_clients_send_it_back_is_taken() {
    let message = json!({"role": "assistant", "content": "x", "name": "bot", "refusal": null, "tool_calls": null,
        "function_call": null, "audio": null, "annotations": [], "reasoning_content": ""});
    let request = parse_chat(&json!({"messages": [message]})).unwrap();
    assert_eq!(request.conversation.messages[0].name.as_deref(), Some("bot"));
}

#[test]
fn an_answer_without_content_or_tool_calls_is_an_empty_text() {
    let parsed =
        |message: Value| parse_chat(&json!({"messages": [message]})).unwrap().conversation.messages;
    let empty = [Message::new(Role::Assistant, "")];
    assert_eq!(parsed(json!({"role": "assistant", "content": null})), empty);
    assert_eq!(parsed(json!({"role": "assistant", "content": null, "tool_calls": []})), empty);
    assert_eq!(parsed(json!({"role": "assistant"})), empty);
    assert_eq!(parsed(json!({"role": "assistant", "content": []})), empty);
    let error = parse_chat(&json!({"messages": [{"role": "user", "content": null}]})).unwrap_err();
    assert_eq!(error.message, "messages[0].content is required");
}

#[test]
fn reasoning_of_an_answer_comes_back_under_either_name() {
    let with = |fields: Value| {
        let mut message = json!({"role": "assistant", "content": "4"});
        message.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let request = parse_chat(&json!({"messages": [message]})).unwrap();
        request.conversation.messages[0].reasoning.clone()
    };
    assert_eq!(with(json!({"reasoning_content": "2 and 2"})).as_deref(), Some("2 and 2"));
    assert_eq!(with(json!({"reasoning": "2 and 2"})).as_deref(), Some("2 and 2"));
    assert_eq!(with(json!({"reasoning": "", "reasoning_content": null})), None);
}

#[test]
fn bodies_that_are_not_json_objects_are_refused() {
    let parse = dialect("openai_chat").parse;
    for (body, says) in [
        ("", "not JSON"),
        ("{", "line 1"),
        ("[1]", "must be an object, not a list"),
        ("{\"messages\": [}", "line 1 column 15"),
        ("\u{FEFF}{}", "not JSON"),
    ] {
        let error = parse(body.as_bytes()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidRequest);
        assert!(error.message.contains(says), "{body:?}: {error}");
    }
    assert!(parse(b"{\"a\": \"\xFF\"}").is_err());
}

#[test]
fn completions_take_a_text_or_token_ids() {
    let prompt = |value: Value| parse_completion(&json!({"prompt": value})).unwrap().prompt;
    assert_eq!(prompt(json!("Once")), CompletionPrompt::Text("Once".to_owned()));
    assert_eq!(prompt(json!(["Once"])), CompletionPrompt::Text("Once".to_owned()));
    assert_eq!(prompt(json!([1, 2])), CompletionPrompt::Tokens(vec![1, 2]));
    assert_eq!(prompt(json!([[1, 2]])), CompletionPrompt::Tokens(vec![1, 2]));
    let refused = |body: Value, param: &str, says: &str| {
        let error = parse_completion(&body).unwrap_err();
        assert_eq!(error.param.as_deref(), Some(param), "{body}: {error}");
        assert!(error.message.contains(says), "{body}: {error}");
    };
    refused(json!({}), "prompt", "is required");
    refused(json!({"prompt": ["a", "b"]}), "prompt", "one prompt, not 2");
    refused(json!({"prompt": [[1], [2]]}), "prompt", "one prompt, not 2");
    refused(json!({"prompt": [1, "a"]}), "prompt", "a list of token ids");
    refused(json!({"prompt": [[["x"]]]}), "prompt[0]", "a list of token ids");
    refused(json!({"prompt": [1, -1]}), "prompt[1]", "must be a token id, not -1");
    refused(json!({"prompt": [1.5]}), "prompt[0]", "must be a token id");
    refused(json!({"prompt": true}), "prompt", "not a boolean");
    for (name, value) in [("echo", json!(true)), ("best_of", json!(2)), ("suffix", json!("x"))] {
        let mut body = json!({"prompt": "x"});
        body[name] = value;
        refused(body, name, "not supported");
    }
    let harmless = json!({"prompt": "x", "echo": false, "best_of": 1, "suffix": null, "logprobs": null, "n": 1});
    assert!(parse_completion(&harmless).is_ok());
    let best = json!({"prompt": "x", "n": 3, "best_of": 3});
    assert_eq!(parse_completion(&best).unwrap().options.n_choices, Some(3));
}
