//! Loading, health, facts, keep-alive and the end.

use std::time::Duration;

use frank_server::{ModelSlot, ServerOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::server::{N_CTX, Setup, ask, chunks_of, server_that_says, text_of};

#[tokio::test]
async fn health_is_503_while_loading_and_200_when_a_token_can_be_made() {
    let slot = ModelSlot::loading();
    let (server, served) = Setup::default().start_loading(slot.clone()).await;
    let health = server.get("/health").send().await.unwrap();
    assert_eq!(health.status(), 503);
    assert_eq!(health.json::<Value>().await.unwrap()["status"], "loading");
    let early = server.chat(&ask("Hi", json!({}))).await;
    assert_eq!(early.status(), 503);
    assert_eq!(early.json::<Value>().await.unwrap()["error"]["code"], "loading");
    assert_eq!(server.get("/v1/models").send().await.unwrap().status(), 503);
    assert_eq!(server.get("/metrics").send().await.unwrap().status(), 200);
    slot.fill(served);
    assert_eq!(server.get("/health").send().await.unwrap().status(), 200);
    server.chat_ok(&ask("Hi", json!({}))).await;
}

#[tokio::test]
async fn health_is_503_when_the_engine_has_ended() {
    let server = server_that_says("Hello.").await;
    server.engine.shutdown();
    let health = server.get("/health").send().await.unwrap();
    assert_eq!(health.status(), 503);
    assert_eq!(health.json::<Value>().await.unwrap()["status"], "stopped");
    assert_eq!(server.chat(&ask("Hi", json!({}))).await.status(), 503);
}

#[tokio::test]
async fn models_say_names_and_context_length() {
    let server = server_that_says("x").await;
    let get =
        async |path: &str| server.get(path).send().await.unwrap().json::<Value>().await.unwrap();
    let list = get("/v1/models").await;
    let ids: Vec<_> =
        list["data"].as_array().unwrap().iter().map(|card| card["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["scripted", "alias"]);
    assert_eq!(list["data"][0]["context_length"], N_CTX);
    assert!(list.get("models").is_none());
    assert_eq!(get("/v1/models?client_version=1.2.3").await["models"][0]["slug"], "scripted");
    assert_eq!(get("/v1/models/alias").await["id"], "alias");
    assert_eq!(get("/v1/models/other").await["error"]["code"], "model_not_found");
}

#[tokio::test]
async fn the_page_is_static_and_allows_itself_nothing() {
    let server = server_that_says("x").await;
    let page = server.get("/").send().await.unwrap();
    assert_eq!(page.headers()["content-type"], "text/html; charset=utf-8");
    assert!(
        page.headers()["content-security-policy"]
            .to_str()
            .unwrap()
            .starts_with("default-src 'none'")
    );
    assert!(page.text().await.unwrap().contains("/v1/chat/completions"));
    let head = server.client.head(server.url("/")).send().await.unwrap();
    assert_eq!(head.status(), 200);
    assert!(head.text().await.unwrap().is_empty());
}

#[tokio::test]
async fn metrics_count_requests_tokens_and_waits() {
    let server = server_that_says("Hello.").await;
    server.chat_ok(&ask("Hi", json!({}))).await;
    server.get("/some/path/nobody/serves").send().await.unwrap();
    let response = server.get("/metrics").send().await.unwrap();
    assert_eq!(response.headers()["content-type"], frank_telemetry::CONTENT_TYPE);
    let text = response.text().await.unwrap();
    for line in [
        r#"frank_http_requests_total{route="/v1/chat/completions",status="200"} 1"#,
        r#"frank_http_requests_total{route="other",status="404"} 1"#,
        "frank_first_token_seconds_count 1",
        "frank_inter_token_seconds_count 5",
        "frank_kv_blocks 32",
        "frank_requests_running 0",
    ] {
        assert!(text.lines().any(|found| found == line), "no {line:?} in\n{text}");
    }
    assert!(text.contains(r#"frank_model_info{model="scripted","#));
}

#[tokio::test]
async fn a_client_that_never_ends_its_request_head_is_sent_away() {
    let options =
        ServerOptions { head_timeout: Duration::from_millis(50), ..ServerOptions::default() };
    let server = Setup { options, ..Setup::default() }.start().await;
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    slow.write_all(b"GET /health HTTP/1.1\r\nhost: ").await.unwrap();
    let mut reply = Vec::new();
    // Without the limit this read would wait for ever.
    drop(slow.read_to_end(&mut reply).await);
    assert!(!String::from_utf8_lossy(&reply).contains(" 200 "));
    assert_eq!(server.get("/health").send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_half_a_request() {
    let hour = Duration::from_secs(3600);
    let options = ServerOptions {
        head_timeout: hour,
        body_timeout: hour,
        drain_limit: hour,
        ..ServerOptions::default()
    };
    let mut server = Setup { options, ..Setup::default() }.start().await;
    let mut half_head = TcpStream::connect(server.address).await.unwrap();
    half_head.write_all(b"GET /health HTTP/1.1\r\nhost: ").await.unwrap();
    let mut half_body = TcpStream::connect(server.address).await.unwrap();
    let head = "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                content-length: 100\r\n\r\n{";
    half_body.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(server.get("/health").send().await.unwrap().status(), 200);
    server.shutdown.take().unwrap().send(()).unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(60), server.task).await;
    ended.expect("it ends long before the limits").unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_stream_is_kept_alive_by_comments() {
    let options =
        ServerOptions { keep_alive: Duration::from_millis(1), ..ServerOptions::default() };
    let mut server = Setup { held: true, options, ..Setup::default() }.start().await;
    let mut response = server.chat(&ask("Hi", json!({"stream": true}))).await;
    let mut text = String::new();
    while !text.contains(": keep-alive\n\n") {
        text.push_str(std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap());
    }
    server.controls.release();
    while let Some(chunk) = response.chunk().await.unwrap() {
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    assert_eq!(text_of(&chunks_of(text.strip_suffix("data: [DONE]\n\n").unwrap())), "Hello.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_lets_running_answers_end_and_takes_no_more() {
    let mut server = Setup { held: true, ..Setup::default() }.start().await;
    let mut response = server.chat(&ask("Hi", json!({"stream": true}))).await;
    server.wait_for("a running request", |stats| stats.running == 1).await;
    server.shutdown.take().unwrap().send(()).unwrap();
    // A new connection is refused once the listener is gone, and until then its request is.
    while let Ok(late) = server.get("/health").send().await {
        assert!(late.status() == 200 || late.status() == 503);
    }
    server.controls.release();
    let mut text = String::new();
    while let Some(chunk) = response.chunk().await.unwrap() {
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    assert_eq!(text_of(&chunks_of(text.strip_suffix("data: [DONE]\n\n").unwrap())), "Hello.");
    server.task.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_cuts_answers_off_after_its_limit() {
    let options =
        ServerOptions { drain_limit: Duration::from_millis(1), ..ServerOptions::default() };
    let mut server = Setup { held: true, options, ..Setup::default() }.start().await;
    let streamed = server.chat(&ask("Hi", json!({"stream": true}))).await;
    let whole = tokio::spawn(server.post("/v1/chat/completions", &ask("Hi", json!({}))).send());
    server.wait_for("both requests", |stats| stats.running + stats.waiting == 2).await;
    server.shutdown.take().unwrap().send(()).unwrap();
    let text = streamed.text().await.unwrap();
    assert_eq!(chunks_of(&text).last().unwrap()["error"]["code"], "shutting_down");
    let whole = whole.await.unwrap().unwrap();
    assert_eq!(whole.status(), 503);
    assert_eq!(whole.json::<Value>().await.unwrap()["error"]["code"], "shutting_down");
    server.task.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stream_on_the_wire_is_these_bytes() {
    let server = server_that_says("Hi").await;
    let body = json!({"prompt": "x", "stream": true}).to_string();
    let request = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut connection = TcpStream::connect(server.address).await.unwrap();
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut reply = String::new();
    connection.read_to_string(&mut reply).await.unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    for header in
        ["content-type: text/event-stream", "cache-control: no-cache", "x-accel-buffering: no"]
    {
        assert!(head.lines().any(|line| line == header), "no {header} in {head}");
    }
    // Chunks are the server's business; the frames in them are not.
    let frames: String = body.split("\r\n").skip(1).step_by(2).collect();
    let chunks = chunks_of(frames.strip_suffix("data: [DONE]\n\n").unwrap());
    let texts: Vec<_> =
        chunks.iter().map(|chunk| chunk["choices"][0]["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["H", "i", ""]);
}
