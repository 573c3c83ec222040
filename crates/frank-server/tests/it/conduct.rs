//! How the endpoint treats requests whatever they ask: their names, the places of their keys, clients that stop reading.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use frank_server::{ApiKeys, ServerOptions};
use serde_json::{Value, json};

use crate::server::{Setup, TestServer, ask, prompt_text};

fn keys(text: &str) -> ApiKeys {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    ApiKeys::from_file(file.path()).expect("keys")
}

async fn with_options(options: ServerOptions) -> TestServer {
    Setup { options, ..Setup::default() }.start().await
}

#[tokio::test]
async fn every_reply_names_its_request_as_the_client_did_or_anew() {
    let server = with_options(ServerOptions::default()).await;
    let named = async |given: Option<&str>| {
        let request = given
            .into_iter()
            .fold(server.get("/v1/models"), |request, id| request.header("x-request-id", id));
        let response = request.send().await.unwrap();
        let headers = response.headers();
        assert_eq!(headers["x-request-id"], headers["request-id"]);
        headers["x-request-id"].to_str().unwrap().to_owned()
    };
    assert_eq!(named(Some("turn-7.a:b")).await, "turn-7.a:b");
    assert!(named(Some("a b")).await.starts_with("req_"), "no space in a log's field");
    assert!(named(Some(&"a".repeat(200))).await.starts_with("req_"));
    assert_ne!(named(None).await, named(None).await);
}

#[tokio::test]
async fn a_key_has_as_many_requests_at_once_as_it_may_and_others_are_not_held_up() {
    let api_keys = keys("laptop small-key 1\nother big-key\n");
    let options = ServerOptions { api_keys, ..ServerOptions::default() };
    let mut server = Setup { held: true, options, ..Setup::default() }.start().await;
    let post = |key: &'static str| {
        server.post("/v1/chat/completions", &ask("Hi", json!({}))).header("x-api-key", key).send()
    };
    let first = tokio::spawn(post("small-key"));
    server.wait_for("a request", |stats| stats.running + stats.waiting == 1).await;
    let second = post("small-key").await.unwrap();
    assert_eq!(second.status(), 429);
    assert_eq!(second.headers()["retry-after"], "1");
    let error: Value = second.json().await.unwrap();
    assert_eq!(error["error"]["code"], "rate_limit_exceeded");
    let other = tokio::spawn(post("big-key"));
    server.wait_for("the other key's", |stats| stats.running + stats.waiting == 2).await;
    let again = post("small-key");
    server.controls.release();
    assert_eq!(first.await.unwrap().unwrap().status(), 200);
    assert_eq!(other.await.unwrap().unwrap().status(), 200);
    assert_eq!(again.await.unwrap().status(), 200, "its place is free again");
}

#[tokio::test]
async fn what_was_left_out_of_a_request_is_told_in_a_header() {
    let server = with_options(ServerOptions::default()).await;
    let tools = json!([{"type": "web_search"}, {"type": "caf\u{e9}\n"}]);
    let response = server.chat(&ask("Hi", json!({"tools": tools}))).await;
    assert_eq!(response.status(), 200);
    let told: Vec<&str> = response
        .headers()
        .get_all("x-frank-warning")
        .iter()
        .map(|one| one.to_str().unwrap())
        .collect();
    assert!(told[0].contains("web_search") && told[0].contains("caf"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_stops_reading_loses_its_connection() {
    const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let options =
        ServerOptions { write_timeout: Duration::from_millis(300), ..ServerOptions::default() };
    let server = with_options(options).await;
    let mut stream = TcpStream::connect(server.address).expect("a connection");
    stream.set_write_timeout(Some(Duration::from_secs(1))).expect("a time");
    // More replies than the buffers between hold, and none is read: the server can write no more.
    let n_sent = (0..100_000).take_while(|_| stream.write_all(REQUEST).is_ok()).count();
    tokio::time::sleep(Duration::from_secs(1)).await;
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
    let mut replies = Vec::new();
    let end = stream.read_to_end(&mut replies).map_err(|error| error.kind());
    assert_ne!(end, Err(ErrorKind::WouldBlock), "the connection is still open");
    let text = String::from_utf8_lossy(&replies);
    let n_answered = text.matches("HTTP/1.1 200").count();
    assert!(n_answered < n_sent, "{n_answered} of {n_sent}");
    assert_eq!(server.get("/health").send().await.unwrap().status(), 200, "others are answered");
}

#[tokio::test]
async fn a_template_that_refuses_instructions_in_the_middle_gets_them_in_their_place() {
    let template = "{% for m in messages %}{% if m.role == 'system' and not loop.first %}\
        {{ raise_exception('System message must be first') }}{% endif %}\
        {{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}{{ '<|im_start|>assistant\n' }}";
    let server = Setup { template: Some(template.to_owned()), ..Setup::default() }.start().await;
    let messages = json!([
        {"role": "system", "content": "one"},
        {"role": "user", "content": "two"},
        {"role": "system", "content": "three"},
    ]);
    let reply = server.chat_ok(&json!({"messages": messages})).await;
    assert_eq!(reply["choices"][0]["message"]["content"], "Hello.");
    assert!(prompt_text(&server, 0).contains("two\n\nthree"));
}

#[tokio::test]
async fn a_billing_line_that_changes_with_every_turn_is_not_in_the_prompt() {
    let server = with_options(ServerOptions::default()).await;
    let body = |line: &str| {
        let system = format!("x-anthropic-billing-header: v={line};\nBe short.");
        json!({"model": "scripted", "max_tokens": 4, "system": [{"type": "text", "text": system}],
            "messages": [{"role": "user", "content": "Hi"}]})
    };
    for line in ["1", "22222"] {
        let response = server.post("/v1/messages", &body(line)).send().await.unwrap();
        assert_eq!(response.status(), 200);
    }
    let count = async |line: &str| -> Value {
        server
            .post("/v1/messages/count_tokens", &body(line))
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap()
    };
    assert_eq!(count("1").await, count("22222").await);
    let prompts = server.controls.prompts();
    assert_eq!(prompts[0], prompts[1]);
    assert_eq!(count("1").await["input_tokens"], prompts[0].len());
}

#[tokio::test]
async fn a_model_that_is_not_served_is_told_in_the_words_of_who_asks() {
    let server = with_options(ServerOptions::default()).await;
    let error = async |request: reqwest::RequestBuilder| -> Value {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 404);
        response.json().await.unwrap()
    };
    let openai = error(server.get("/v1/models/none")).await;
    assert_eq!(openai["error"]["code"], "model_not_found");
    let other = server.get("/v1/models/none").header("anthropic-version", "2023-06-01");
    let other = error(other).await;
    assert_eq!(
        (&other["type"], &other["error"]["type"]),
        (&json!("error"), &json!("not_found_error"))
    );
}

#[tokio::test]
async fn a_reply_that_comes_before_the_body_was_read_says_that_the_connection_ends() {
    let server = with_options(ServerOptions::default()).await;
    let response = server.post("/v1/none", &json!({"a": "b"})).send().await.unwrap();
    assert_eq!(response.status(), 404);
    assert_eq!(response.headers()["connection"], "close");
    let without_body = server.get("/v1/none").send().await.unwrap();
    assert!(without_body.headers().get("connection").is_none());
}
