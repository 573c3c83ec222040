//! Clients that leave: nothing is computed for them, and nobody else notices.

use frank_engine::{Request, SamplingParams};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::server::{Setup, TestServer, ask};

/// An answer of one endless token: a request that is not cancelled runs to the end of its context.
fn endless(n_parallel: usize) -> Setup {
    Setup { answer: vec![u32::from(b'x')], held: true, n_parallel, ..Setup::default() }
}

/// Sends a chat request on a connection of its own, which is closed when the value is dropped.
async fn send(server: &TestServer, content: &str, stream: bool) -> TcpStream {
    let body = ask(content, json!({"stream": stream})).to_string();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        server.address,
        body.len()
    );
    let mut connection = TcpStream::connect(server.address).await.expect("the server listens");
    connection.write_all(request.as_bytes()).await.expect("the server reads");
    connection
}

/// Reads from a stream until `text` was in it.
async fn read_until(connection: &mut TcpStream, text: &str) {
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(text) {
        let n_read = connection.read_buf(&mut seen).await.expect("the server writes");
        assert!(n_read > 0, "the stream ended before {text:?}");
    }
}

/// Requests that wait while one more was just submitted.
fn waiting_with_a_probe(server: &TestServer) -> usize {
    let request = Request {
        prompt: vec![1],
        max_tokens: 1,
        sampling: SamplingParams::greedy(),
        ..Request::default()
    };
    let probe = server.engine.submit(request).expect("the queue has room");
    let waiting = server.engine.stats().waiting;
    drop(probe);
    waiting
}

/// Steps after which an endless answer would not have ended yet. A server needs some requests' time to see that a
/// client has left.
const FEW_STEPS: usize = 150;

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_during_prefill_frees_its_place() {
    for stream in [true, false] {
        let server = endless(1).start().await;
        let connection = send(&server, "Hi", stream).await;
        server.wait_for("a request in its first step", |stats| stats.running == 1).await;
        drop(connection);
        let n_steps = server.steps_until_idle(FEW_STEPS).await;
        assert!(n_steps < FEW_STEPS, "still running after {n_steps} steps, stream: {stream}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_during_decode_frees_its_place() {
    let server = endless(1).start().await;
    let mut connection = send(&server, "Hi", true).await;
    server.controls.allow_step();
    read_until(&mut connection, r#""content":"x""#).await;
    drop(connection);
    let n_steps = server.steps_until_idle(FEW_STEPS).await;
    assert!(n_steps < FEW_STEPS, "still running after {n_steps} steps");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_computed_for_a_client_that_left_the_queue() {
    let mut server = Setup { answer: crate::script::says("ok"), ..endless(1) }.start().await;
    let mut first = send(&server, "first", false).await;
    server.wait_for("the first request in its first step", |stats| stats.running == 1).await;
    let second = send(&server, "second", false).await;
    server.wait_for("the second request in the queue", |stats| stats.waiting == 1).await;
    let mut third = send(&server, "third", false).await;
    server.wait_for("the third request in the queue", |stats| stats.waiting == 2).await;
    drop(second);
    // The engine looks its queue through when a request is submitted: the third and the probe are left.
    while waiting_with_a_probe(&server) != 2 {
        server.get("/health").send().await.unwrap();
    }
    server.controls.release();
    read_until(&mut first, r#""content":"ok""#).await;
    read_until(&mut third, r#""content":"ok""#).await;
    let prompts = server.controls.prompts();
    let holds = |text: &str| {
        let wanted: Vec<u32> = text.bytes().map(u32::from).collect();
        prompts.iter().any(|prompt| prompt.windows(wanted.len()).any(|window| window == wanted))
    };
    assert!(holds("first") && holds("third") && !holds("second"), "{prompts:?}");
}
