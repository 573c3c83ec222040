//! Calls of tools: what the model writes becomes calls, and an answer that must call cannot do otherwise.

use serde_json::{Value, json};

use crate::script::says;
use crate::server::{Setup, TestServer, ask, prompt_text, text_of};

/// A template of the family that writes calls as JSON between `<tool_call>` marks.
pub(crate) const HERMES: &str = "{% if tools %}{{ '<|im_start|>system\n<tools>' }}{% for tool in tools %}\
    {{ tool | tojson }}{% endfor %}{{ '</tools> Call as <tool_call>{\"name\": …, \"arguments\": …}</tool_call><|im_end|>\n' }}\
    {% endif %}{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content }}\
    {% for call in m.tool_calls or [] %}{{ '<tool_call>' + (call.function | tojson) + '</tool_call>' }}{% endfor %}\
    {{ '<|im_end|>\n' }}{% endfor %}{{ '<|im_start|>assistant\n' }}";

const CALL: &str =
    "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>";

pub(crate) fn weather(extra: Value) -> Value {
    let parameters = json!({
        "type": "object",
        "properties": {"city": {"enum": ["Paris"]}},
        "required": ["city"],
        "additionalProperties": false,
    });
    let tool =
        json!({"type": "function", "function": {"name": "weather", "parameters": parameters}});
    let mut extra = extra;
    extra["tools"] = json!([tool]);
    ask("Is it warm?", extra)
}

async fn server(answer: &str) -> TestServer {
    let template = Some(HERMES.to_owned());
    Setup { answer: says(answer), template, ..Setup::default() }.with_long_context().start().await
}

#[tokio::test]
async fn a_call_is_told_with_its_arguments_and_ends_as_one() {
    let server = server(&format!("Let me look.\n{CALL}")).await;
    let reply = server.chat_ok(&weather(json!({}))).await;
    let message = &reply["choices"][0]["message"];
    assert_eq!(reply["choices"][0]["finish_reason"], "tool_calls", "{reply}");
    assert_eq!(message["content"], "Let me look.");
    let call = &message["tool_calls"][0];
    assert_eq!(call["function"]["name"], "weather");
    assert!(call["id"].as_str().unwrap().starts_with("call_"));
    let arguments: Value =
        serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(arguments, json!({"city": "Paris"}));
}

#[tokio::test]
async fn a_streamed_call_begins_with_its_name_and_its_fragments_join_to_its_arguments() {
    let server = server(CALL).await;
    let chunks = server.chat_stream(&weather(json!({"stream": true}))).await;
    let calls: Vec<&Value> = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].get(0))
        .collect();
    assert_eq!(calls[0]["function"], json!({"name": "weather", "arguments": ""}));
    assert!(calls[0]["id"].is_string() && calls[0]["type"] == "function" && calls[0]["index"] == 0);
    assert!(
        calls[1..]
            .iter()
            .all(|call| call.get("id").is_none() && call["function"].get("name").is_none())
    );
    let joined: String =
        calls.iter().filter_map(|call| call["function"]["arguments"].as_str()).collect();
    assert_eq!(serde_json::from_str::<Value>(&joined).unwrap(), json!({"city": "Paris"}));
    assert!(calls.len() > 3, "arguments are told as they grow");
    let last = chunks.last().unwrap();
    assert_eq!(last["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(text_of(&chunks), "");
}

#[tokio::test]
async fn an_answer_that_must_call_calls_whatever_the_model_would_say() {
    let server = server("No, I would rather talk about something else.").await;
    let named = json!({"type": "function", "function": {"name": "weather"}});
    for choice in [json!("required"), named] {
        let reply = server.chat_ok(&weather(json!({"tool_choice": choice}))).await;
        let call = &reply["choices"][0]["message"]["tool_calls"][0]["function"];
        assert_eq!(call["name"], "weather", "{reply}");
        let arguments = call["arguments"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(arguments).unwrap(), json!({"city": "Paris"}));
        assert_eq!(reply["choices"][0]["finish_reason"], "tool_calls");
    }
}

#[tokio::test]
async fn an_answer_that_must_not_call_is_text_and_the_model_sees_no_tool() {
    let server = server(CALL).await;
    let reply = server.chat_ok(&weather(json!({"tool_choice": "none"}))).await;
    assert_eq!(reply["choices"][0]["message"]["content"], CALL);
    assert_eq!(reply["choices"][0]["finish_reason"], "stop");
    let prompt = prompt_text(&server, 0);
    assert!(!prompt.contains("weather"));
}

#[tokio::test]
async fn one_call_is_all_where_calls_may_not_be_parallel() {
    let server = server(&format!("{CALL}\n{CALL}")).await;
    let calls = async |parallel: bool| {
        let reply = server.chat_ok(&weather(json!({"parallel_tool_calls": parallel}))).await;
        reply["choices"][0]["message"]["tool_calls"].as_array().unwrap().len()
    };
    assert_eq!((calls(true).await, calls(false).await), (2, 1));
}

#[tokio::test]
async fn a_template_without_tools_still_calls_them() {
    let server =
        Setup { answer: says("I would rather not."), ..Setup::default() }.with_long_context();
    let server = server.start().await;
    let reply = server.chat_ok(&weather(json!({"tool_choice": "required"}))).await;
    let call = &reply["choices"][0]["message"]["tool_calls"][0]["function"];
    assert_eq!(call["name"], "weather", "{reply}");
    let arguments = call["arguments"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(arguments).unwrap(), json!({"city": "Paris"}));
    let prompt = prompt_text(&server, 0);
    assert!(prompt.contains("weather"), "the model is told of its tools");
}

#[tokio::test]
async fn a_schema_of_a_strict_tool_that_cannot_be_kept_is_named() {
    let server = server(CALL).await;
    let body = |strict: bool, choice: &str| {
        let mut body = weather(json!({"tool_choice": choice}));
        let function = &mut body["tools"][0]["function"];
        function["strict"] = json!(strict);
        function["parameters"]["$dynamicRef"] = json!("#node");
        body
    };
    for (strict, choice) in [(true, "auto"), (false, "required")] {
        let response = server.chat(&body(strict, choice)).await;
        assert_eq!(response.status(), 400);
        let error: Value = response.json().await.unwrap();
        assert!(error["error"]["message"].as_str().unwrap().contains("$dynamicRef"), "{error}");
    }
    // A model that is free to call does so in its own words.
    let reply = server.chat_ok(&body(false, "auto")).await;
    assert_eq!(reply["choices"][0]["finish_reason"], "tool_calls", "{reply}");
}

#[tokio::test]
async fn a_broken_call_that_nothing_keeps_right_is_text() {
    let server =
        server("<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \n</tool_call>")
            .await;
    let mut body = weather(json!({}));
    body["tools"][0]["function"]["parameters"]["$dynamicRef"] = json!("#node");
    let reply = server.chat_ok(&body).await;
    assert_eq!(reply["choices"][0]["finish_reason"], "stop", "{reply}");
    assert!(reply["choices"][0]["message"]["content"].as_str().unwrap().contains("<tool_call>"));
    assert!(reply["choices"][0]["message"].get("tool_calls").is_none());
}

#[tokio::test]
async fn a_call_and_its_result_come_back_in_the_prompt() {
    let server = server("Warm.").await;
    let mut body = weather(json!({}));
    body["messages"] = json!([
        {"role": "user", "content": "Is it warm?"},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\": \"Paris\"}"}},
        ]},
        {"role": "tool", "tool_call_id": "call_1", "content": "31 degrees"},
    ]);
    let reply = server.chat_ok(&body).await;
    assert_eq!(reply["choices"][0]["message"]["content"], "Warm.");
    let prompt = prompt_text(&server, 0);
    assert!(prompt.contains("31 degrees") && prompt.contains("{\"city\": \"Paris\"}"), "{prompt}");
}

#[tokio::test]
async fn a_call_that_is_cut_off_leaves_no_markup_in_the_answer() {
    for (choice, limits) in [("required", 1..60), ("auto", 12..60)] {
        let server = server(CALL).await;
        for limit in limits.step_by(7) {
            let body = weather(json!({"tool_choice": choice, "max_tokens": limit}));
            let reply = server.chat_ok(&body).await;
            assert_eq!(reply["choices"][0]["finish_reason"], "length", "{reply}");
            let content = reply["choices"][0]["message"]["content"].as_str().unwrap_or_default();
            assert_eq!(content, "", "{choice} {limit}: {reply}");
        }
    }
}

#[tokio::test]
async fn arguments_are_an_object_whatever_their_schema_says() {
    let server = server("no").await;
    let body = |parameters: Value| {
        let mut body = weather(json!({"tool_choice": "required"}));
        body["tools"][0]["function"]["parameters"] = parameters;
        body
    };
    for none in [json!({"type": "array"}), json!({"type": "string"}), json!({"const": 5})] {
        assert_eq!(server.chat(&body(none.clone())).await.status(), 400, "{none}");
    }
    let one = json!({"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"], "additionalProperties": false});
    let reply =
        server.chat_ok(&body(json!({"anyOf": [{"type": "string", "maxLength": 3}, one]}))).await;
    let arguments =
        reply["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"].clone();
    let arguments = arguments.as_str().unwrap_or_else(|| panic!("no call in {reply}"));
    assert_eq!(serde_json::from_str::<Value>(arguments).unwrap(), json!({"a": 1}));
}

#[tokio::test]
async fn tools_that_differ_in_the_order_of_their_arguments_keep_it() {
    let server = server("no").await;
    for order in [["a", "b"], ["b", "a"]] {
        let mut body = weather(json!({"tool_choice": "required"}));
        let mut properties = serde_json::Map::new();
        order
            .iter()
            .for_each(|name| drop(properties.insert((*name).to_owned(), json!({"const": 1}))));
        body["tools"][0]["function"]["parameters"] = json!({"type": "object", "properties": properties, "required": ["a", "b"], "additionalProperties": false});
        let reply = server.chat_ok(&body).await;
        let arguments = &reply["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"];
        let arguments = arguments.as_str().expect("a call");
        let place = |name: &str| arguments.find(&format!("\"{name}\"")).expect("it is there");
        assert!(place(order[0]) < place(order[1]), "{order:?}: {arguments}");
    }
}
