//! A model that cannot read what it needs: the envelopes, the health, and the answers after it.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::script::{UNREAD, says};
use crate::server::{Setup, TestServer, ask, chunks_of};

const REASON: &str = "a step failed: cannot read expert 7 of layer 2: cannot read 512 bytes at offset 4096 of \
                      model.gguf: Input/output error (os error 5)";

/// A server that says `a` and then cannot read.
async fn failing() -> TestServer {
    let answer = vec![says("a")[0], UNREAD];
    let server = Setup { answer, ..Setup::default() }.start().await;
    server.controls.reads_fail.store(true, Ordering::Relaxed);
    server
}

async fn health(server: &TestServer) -> (u16, Value) {
    let response = server.get("/health").send().await.expect("the server answers");
    (response.status().as_u16(), response.json().await.expect("it says how it is"))
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_a_500_that_names_expert_layer_and_file() {
    let server = failing().await;
    for (path, body) in [
        ("/v1/chat/completions", ask("Hi", json!({}))),
        ("/v1/completions", json!({"prompt": "Once"})),
    ] {
        let response = server.post(path, &body).send().await.unwrap();
        assert_eq!(response.status(), 500);
        let body: Value = response.json().await.unwrap();
        assert_eq!(body["error"]["type"], "server_error");
        assert_eq!(body["error"]["message"], REASON);
    }
}

#[tokio::test]
async fn a_stream_that_has_begun_ends_with_the_error() {
    let server = failing().await;
    for (path, body) in [
        ("/v1/chat/completions", ask("Hi", json!({"stream": true}))),
        ("/v1/completions", json!({"prompt": "Once", "stream": true})),
    ] {
        let response = server.post(path, &body).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let text = response.text().await.unwrap();
        let chunks = chunks_of(&text);
        let (last, others) = chunks.split_last().unwrap();
        assert_eq!(last["error"]["message"], REASON, "{text}");
        assert!(others.iter().any(|chunk| chunk.to_string().contains(r#""a""#)), "{text}");
    }
}

#[tokio::test]
async fn health_is_503_while_reads_fail_and_200_again_after_a_step_that_went_well() {
    let server = failing().await;
    assert_eq!(health(&server).await, (200, json!({"status": "ok"})));
    assert_eq!(server.chat(&ask("Hi", json!({}))).await.status(), 500);
    let expected = json!({"status": "failing", "reason": REASON});
    assert_eq!(health(&server).await, (503, expected.clone()));
    server.controls.reads_fail.store(false, Ordering::Relaxed);
    assert_eq!(health(&server).await, (503, expected));
    // It still takes requests, or it would never find out.
    let answer = server.chat_ok(&ask("Hi", json!({}))).await;
    assert_eq!(answer["choices"][0]["message"]["content"], "a");
    assert_eq!(health(&server).await.0, 200);
    let stats = server.engine.stats();
    assert_eq!((stats.running, stats.waiting, stats.kv_blocks_used), (0, 0, 0));
}
