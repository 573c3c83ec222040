//! Two turns of an agent: the second finds what the first computed, in each dialect's own words, with tools and hidden
//! thoughts between.

use serde_json::{Value, json};

use crate::script::says;
use crate::server::{Setup, TestServer};
use crate::tools::HERMES;

const CALL: &str = "Hm.</think>\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>";

/// Instructions of more than one page, behind a line that changes with every turn.
fn instructions(turn: usize) -> String {
    let line = format!("x-anthropic-billing-header: cc_version=1.{turn}; cch={turn}{turn};");
    format!(
        "{line}\nYou are a careful agent who looks things up before he answers, and says so in few words."
    )
}

fn parameters() -> Value {
    json!({"type": "object", "properties": {"city": {"type": "string", "maxLength": 9}}, "required": ["city"],
        "additionalProperties": false})
}

/// A model whose prompt begins its thoughts, and whose template drops those of earlier turns.
async fn server() -> TestServer {
    let template =
        HERMES.replace("<|im_start|>assistant\n' }}", "<|im_start|>assistant\n<think>' }}");
    let setup = Setup {
        answer: says(CALL),
        template: Some(template),
        prefix_cache: true,
        ..Setup::default()
    };
    setup.with_long_context().start().await
}

async fn ok(server: &TestServer, path: &str, body: &Value) -> Value {
    let response = server.post(path, body).send().await.expect("the server answers");
    let status = response.status();
    let reply: Value = response.json().await.expect("the answer is JSON");
    assert_eq!(status, 200, "{reply}");
    reply
}

/// What the second turn found must be all whole pages of the first turn's prompt: thoughts that are not shown again
/// change nothing before them.
fn check(server: &TestServer, cached: u64) {
    let first = server.controls.prompts()[0].len() as u64;
    assert!(cached >= first / 32 * 32 - 32, "{cached} of {first}");
    assert!(cached > 128, "{cached}");
}

#[tokio::test]
async fn the_second_turn_of_a_chat_finds_the_first() {
    let server = server().await;
    let tool =
        json!({"type": "function", "function": {"name": "weather", "parameters": parameters()}});
    let mut messages = vec![
        json!({"role": "system", "content": instructions(1)}),
        json!({"role": "user", "content": "Is it warm?"}),
    ];
    let body = |messages: &[Value]| json!({"messages": messages, "tools": [tool]});
    let reply = ok(&server, "/v1/chat/completions", &body(&messages)).await;
    let mut answer = reply["choices"][0]["message"].clone();
    assert_eq!(answer["reasoning_content"], "Hm.");
    answer.as_object_mut().expect("a message").remove("reasoning_content");
    let id = answer["tool_calls"][0]["id"].clone();
    messages[0]["content"] = instructions(2).into();
    messages.extend([answer, json!({"role": "tool", "tool_call_id": id, "content": "31"})]);
    let reply = ok(&server, "/v1/chat/completions", &body(&messages)).await;
    check(
        &server,
        reply["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().expect("told"),
    );
}

#[tokio::test]
async fn the_second_turn_of_messages_finds_the_first_also_streamed() {
    for stream in [false, true] {
        let server = server().await;
        let tool = json!({"name": "weather", "input_schema": parameters()});
        let body = |turn: usize, messages: &Value, stream: bool| {
            json!({"model": "scripted", "max_tokens": 200, "tools": [tool], "messages": messages, "stream": stream,
                "system": [{"type": "text", "text": instructions(turn), "cache_control": {"type": "ephemeral"}}]})
        };
        let asked = json!({"role": "user", "content": "Is it warm?"});
        let reply = ok(&server, "/v1/messages", &body(1, &json!([asked]), false)).await;
        assert_eq!(reply["stop_reason"], "tool_use", "{reply}");
        let call = reply["content"].as_array().expect("blocks").last().expect("a call");
        let result = json!([{"type": "tool_result", "tool_use_id": call["id"], "content": "31"}]);
        let messages = json!([asked, {"role": "assistant", "content": reply["content"]}, {"role": "user", "content": result}]);
        let count = ok(&server, "/v1/messages/count_tokens", &body(2, &messages, false)).await;
        let usage = if stream {
            let text =
                server.post("/v1/messages?beta=true", &body(2, &messages, true)).send().await;
            let text = text.expect("the server answers").text().await.expect("the stream ends");
            let events = text
                .split("\n\n")
                .filter_map(|frame| frame.split_once("data: ").map(|(_, data)| data));
            let events: Vec<Value> =
                events.map(|data| serde_json::from_str(data).expect("JSON")).collect();
            assert_eq!(events[0]["type"], "message_start");
            let end = events.iter().find(|event| event["type"] == "message_delta").expect("an end");
            assert_eq!(
                events[0]["message"]["usage"]["cache_read_input_tokens"],
                end["usage"]["cache_read_input_tokens"]
            );
            end["usage"].clone()
        } else {
            ok(&server, "/v1/messages", &body(2, &messages, false)).await["usage"].clone()
        };
        let cached = usage["cache_read_input_tokens"].as_u64().expect("told");
        check(&server, cached);
        let all = cached + usage["input_tokens"].as_u64().expect("told");
        assert_eq!(count["input_tokens"], all, "the count is that of the prompt");
    }
}

#[tokio::test]
async fn the_second_turn_of_responses_finds_the_first() {
    let server = server().await;
    let tool = json!({"type": "function", "name": "weather", "parameters": parameters()});
    let body = |turn: usize, input: &[Value]| json!({"instructions": instructions(turn), "tools": [tool], "input": input, "store": false});
    let mut input = vec![json!({"role": "user", "content": "Is it warm?"})];
    let reply = ok(&server, "/v1/responses", &body(1, &input)).await;
    let output = reply["output"].as_array().expect("items");
    let call = output.iter().find(|item| item["type"] == "function_call").expect("a call");
    let result =
        json!({"type": "function_call_output", "call_id": call["call_id"], "output": "31"});
    input.extend(output.iter().cloned());
    input.push(result);
    let reply = ok(&server, "/v1/responses", &body(2, &input)).await;
    check(&server, reply["usage"]["input_tokens_details"]["cached_tokens"].as_u64().expect("told"));
}
