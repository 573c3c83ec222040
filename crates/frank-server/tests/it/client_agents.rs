//! Two turns of coding agents and of a chat page, in the shapes in which they send them: their fields and schemas, our
//! own words. A tool is called and its result comes back; most of the second prompt was computed for the first.

use reqwest::RequestBuilder;
use serde_json::{Value, json};

use crate::script::says;
use crate::server::{Setup, TestServer};
use crate::tools::HERMES;

/// Tokens of a context in which tools and both turns have room; here a token is a byte.
const N_CTX: usize = 8192;

/// An endpoint that calls `tool` until it sees what the tool gave.
async fn endpoint(tool: &str) -> TestServer {
    let call = format!(r#"{{"name": "{tool}", "arguments": {{"command": "echo $((40+2))"}}}}"#);
    let call = format!("I look.\n<tool_call>\n{call}\n</tool_call>");
    let setup = Setup {
        answer: says(&call),
        replies: vec![("It printed 42", says("Done."))],
        template: Some(HERMES.to_owned()),
        prefix_cache: true,
        n_ctx: N_CTX,
        kv_blocks: u32::try_from(4 * N_CTX / 32).expect("a small number"),
        ..Setup::default()
    };
    setup.start().await
}

/// The events of a reply that must be a stream.
async fn events(request: RequestBuilder) -> Vec<Value> {
    let response = request.send().await.expect("the server answers");
    let status = response.status();
    let text = response.text().await.expect("the reply ends");
    assert_eq!(status, 200, "{text}");
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]")
        .map(|data| serde_json::from_str(data).expect("events are JSON"))
        .collect()
}

/// That of a prompt all pages were found again, which hold 32 tokens.
fn is_found_again(cached: &Value, first_prompt: &Value) {
    let told = |count: &Value| count.as_u64().expect("it is told");
    let (cached, first) = (told(cached), told(first_prompt));
    assert!(first > 64 && cached + 32 > first, "{cached} of {first}");
}

fn run_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "command": {"type": "string", "pattern": "^[^\\u0000]+$"},
            "seconds": {"type": "integer", "exclusiveMinimum": 0, "maximum": 9_007_199_254_740_991_u64},
            "where": {"anyOf": [{"const": "here"}, {"type": "string", "format": "uri"}]},
        },
        "required": ["command"],
        "additionalProperties": false,
    })
}

/// Claude Code: blocks with marks for a cache, a billing line that is another one each time, a system message among the
/// others.
fn claude_code(server: &TestServer, turn: u32, said: &[Value]) -> RequestBuilder {
    let cached = json!({"type": "ephemeral"});
    let start = [
        json!({"role": "user", "content": [{"type": "text", "text": "What is 40 and 2?"}]}),
        json!({"role": "system", "content": "The folder is /tmp."}),
    ];
    let body = json!({
        "model": "scripted",
        "max_tokens": 32_000,
        "stream": true,
        "system": [
            {"type": "text", "text": format!("x-anthropic-billing-header: v=1; cch={turn:05x};")},
            {"type": "text", "text": "You work in a terminal.", "cache_control": cached},
        ],
        "messages": start.iter().chain(said).collect::<Vec<_>>(),
        "tools": [{"name": "Run", "description": "Runs a command.", "input_schema": run_schema()}],
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "metadata": {"user_id": "user_0_session_0"},
    });
    let request = server.post("/v1/messages?beta=true", &body).header("x-api-key", "any");
    request.header("anthropic-version", "2023-06-01").header("anthropic-beta", "one-2025-01-01,two")
}

#[tokio::test]
async fn claude_code_calls_a_tool_and_finds_its_prompt_cached() {
    let server = endpoint("Run").await;
    let hello = server.client.head(server.url("/")).send().await.unwrap();
    assert_eq!(hello.status(), 200);
    let first = events(claude_code(&server, 1, &[])).await;
    let blocks: Vec<&Value> = first.iter().filter_map(|event| event.get("content_block")).collect();
    assert_eq!((&blocks[0]["type"], &blocks[1]["name"]), (&json!("text"), &json!("Run")));
    let json = first.iter().filter_map(|event| event["delta"]["partial_json"].as_str());
    let input: Value = serde_json::from_str(&json.collect::<String>()).unwrap();
    let answer = json!({"role": "assistant", "content": [
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": blocks[1]["id"], "name": "Run", "input": input},
    ]});
    let result = json!({"role": "user", "content": [{
        "type": "tool_result", "tool_use_id": blocks[1]["id"], "content": "It printed 42", "is_error": false,
        "cache_control": {"type": "ephemeral"},
    }]});
    let second = events(claude_code(&server, 2, &[answer, result])).await;
    let text = second.iter().filter_map(|event| event["delta"]["text"].as_str());
    assert_eq!(text.collect::<String>(), "Done.");
    let usage = |events: &[Value]| events[0]["message"]["usage"].clone();
    let (first, second) = (usage(&first), usage(&second));
    assert_eq!(first["cache_read_input_tokens"], 0);
    is_found_again(&second["cache_read_input_tokens"], &first["input_tokens"]);
}

/// Codex: nothing stored, instructions as messages of a developer, tools in namespaces and without a name.
fn codex(server: &TestServer, said: &[Value]) -> RequestBuilder {
    let message = |role: &str, text: &str| json!({"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]});
    let start =
        [message("developer", "Work in small steps."), message("user", "What is 40 and 2?")];
    let function = |name: &str| {
        json!({"type": "function", "name": name, "description": "Runs a command.", "strict": false,
            "parameters": run_schema()})
    };
    let body = json!({
        "model": "scripted",
        "input": start.iter().chain(said).collect::<Vec<_>>(),
        "tools": [
            function("ask"),
            {"type": "namespace", "name": "shell", "description": "A shell.", "tools": [function("run")]},
            {"type": "web_search", "external_web_access": false},
        ],
        "tool_choice": "auto",
        "parallel_tool_calls": true,
        "reasoning": {"effort": "medium", "summary": "auto"},
        "store": false,
        "stream": true,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "00000000-0000-0000-0000-000000000000",
        "client_metadata": {"session": "1"},
    });
    server.post("/v1/responses", &body).bearer_auth("any").header("session_id", "1")
}

#[tokio::test]
async fn codex_calls_a_tool_in_a_namespace_and_finds_its_prompt_cached() {
    let server = endpoint("shell__run").await;
    let first = events(codex(&server, &[])).await;
    let done = |events: &[Value]| events.last().unwrap()["response"].clone();
    let first = done(&first);
    let output = first["output"].as_array().unwrap();
    let call = &output[1];
    assert_eq!((&call["name"], &call["namespace"]), (&json!("run"), &json!("shell")), "{first}");
    let result = json!({"type": "function_call_output", "call_id": call["call_id"], "output": "It printed 42"});
    let said: Vec<Value> = output.iter().cloned().chain([result]).collect();
    let second = done(&events(codex(&server, &said)).await);
    assert_eq!(second["output"][0]["content"][0]["text"], "Done.", "{second}");
    let cached =
        |response: &Value| response["usage"]["input_tokens_details"]["cached_tokens"].clone();
    assert_eq!(cached(&first), 0);
    is_found_again(&cached(&second), &first["usage"]["input_tokens"]);
}

/// opencode and Open WebUI: chats whose answers are streamed with their usage.
fn chat(server: &TestServer, said: &[Value], more: &Value) -> RequestBuilder {
    let parameters = run_schema();
    let start = [
        json!({"role": "system", "content": "You work in a terminal."}),
        json!({"role": "user", "content": "What is 40 and 2?"}),
    ];
    let mut body = json!({
        "model": "scripted",
        "messages": start.iter().chain(said).collect::<Vec<_>>(),
        "tools": [{"type": "function", "function": {"name": "run", "description": "", "parameters": parameters}}],
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    let more = more.as_object().expect("more fields are an object").clone();
    body.as_object_mut().expect("the body is an object").extend(more);
    server.post("/v1/chat/completions", &body).bearer_auth("any")
}

/// Both turns of a chat with `more` fields.
async fn chat_turns(more: &Value) {
    let server = endpoint("run").await;
    let first = events(chat(&server, &[], more)).await;
    let deltas = || first.iter().map(|chunk| &chunk["choices"][0]["delta"]);
    let calls = || deltas().filter_map(|delta| delta["tool_calls"].get(0));
    let id = &calls().next().expect("a tool is called")["id"];
    let arguments: String =
        calls().filter_map(|call| call["function"]["arguments"].as_str()).collect();
    let function = json!({"name": "run", "arguments": arguments});
    let text: String = deltas().filter_map(|delta| delta["content"].as_str()).collect();
    let answer = json!({"role": "assistant", "content": text,
        "tool_calls": [{"id": id, "type": "function", "function": function, "index": 0}]});
    let result = json!({"role": "tool", "tool_call_id": id, "content": "It printed 42"});
    let second = events(chat(&server, &[answer, result], more)).await;
    let said = second.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str());
    assert_eq!(said.collect::<String>(), "Done.");
    let usage = |chunks: &[Value]| chunks.last().expect("there are chunks")["usage"].clone();
    let cached = &usage(&second)["prompt_tokens_details"]["cached_tokens"];
    is_found_again(cached, &usage(&first)["prompt_tokens"]);
}

#[tokio::test]
async fn opencode_calls_a_tool_and_finds_its_prompt_cached() {
    chat_turns(&json!({"tool_choice": "auto", "max_tokens": 32_000})).await;
}

#[tokio::test]
async fn open_webui_calls_a_tool_and_asks_for_a_title_beside_it() {
    chat_turns(&json!({})).await;
    let server = endpoint("run").await;
    let task = json!({"model": "scripted", "stream": false, "max_tokens": 1000,
        "messages": [{"role": "user", "content": "Give a title to: It printed 42"}]});
    let request = server.post("/v1/chat/completions", &task).bearer_auth("any");
    let request =
        request.header("X-OpenWebUI-User-Name", "User").header("X-OpenWebUI-Chat-Id", "1");
    let answer: Value = request.send().await.unwrap().json().await.unwrap();
    assert_eq!(answer["choices"][0]["message"]["content"], "Done.", "{answer}");
}
