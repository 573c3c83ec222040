//! Prompts that begin like an earlier one: what clients are told, and who shares with whom.

use frank_server::{ApiKeys, ServerOptions};
use serde_json::{Value, json};

use crate::server::{Setup, TestServer, ask};

/// More than one page of text.
const LONG: &str =
    "A question that is long enough for more than one page of the cache, which holds 32 tokens.";

fn with_cache() -> Setup {
    Setup { prefix_cache: true, ..Setup::default() }
}

async fn cached_tokens(server: &TestServer, body: &Value, key: &str) -> u64 {
    let request = server.post("/v1/chat/completions", body).bearer_auth(key);
    let response = request.send().await.expect("the server answers");
    assert_eq!(response.status(), 200, "{body}");
    let answer: Value = response.json().await.expect("the answer is JSON");
    let usage = &answer["usage"];
    let cached = usage["prompt_tokens_details"]["cached_tokens"].as_u64().expect("it is told");
    assert_eq!(answer["timings"]["cache_n"], cached);
    let n_prompt = usage["prompt_tokens"].as_u64().expect("it is told");
    assert_eq!(answer["timings"]["prompt_n"], n_prompt - cached);
    cached
}

#[tokio::test]
async fn a_prompt_that_begins_like_an_earlier_one_says_what_was_not_computed_again() {
    let server = with_cache().start().await;
    assert_eq!(cached_tokens(&server, &ask(LONG, json!({})), "any").await, 0);
    let cached = cached_tokens(&server, &ask(LONG, json!({})), "any").await;
    assert!(cached >= 64, "{cached}");
    let prompts = server.controls.prompts();
    assert_eq!(prompts[0].len() - prompts[1].len(), usize::try_from(cached).unwrap());
    let metrics = server.get("/metrics").send().await.unwrap().text().await.unwrap();
    assert!(
        metrics.contains(&format!("frank_prefix_cache_hit_tokens_total {cached}\n")),
        "{metrics}"
    );
    assert!(!metrics.contains("frank_kv_blocks_cached 0\n"), "{metrics}");
    let stream = ask(LONG, json!({"stream": true, "stream_options": {"include_usage": true}}));
    let chunks = server.chat_stream(&stream).await;
    assert_eq!(chunks.last().unwrap()["usage"]["prompt_tokens_details"]["cached_tokens"], cached);
}

#[tokio::test]
async fn a_client_that_declines_the_cache_neither_reads_nor_fills_it() {
    let server = with_cache().start().await;
    let declined = ask(LONG, json!({"cache_prompt": false}));
    assert_eq!(cached_tokens(&server, &declined, "any").await, 0);
    assert_eq!(cached_tokens(&server, &ask(LONG, json!({})), "any").await, 0);
    assert_eq!(cached_tokens(&server, &declined, "any").await, 0);
    assert_ne!(cached_tokens(&server, &ask(LONG, json!({})), "any").await, 0);
}

#[tokio::test]
async fn keys_do_not_share_what_they_asked() {
    let folder = tempfile::tempdir().unwrap();
    let key_file = folder.path().join("keys");
    std::fs::write(&key_file, "one\ntwo\n").unwrap();
    let api_keys = ApiKeys::from_file(&key_file).unwrap();
    let options = ServerOptions { api_keys, ..ServerOptions::default() };
    let server = Setup { options, ..with_cache() }.start().await;
    let body = ask(LONG, json!({}));
    assert_eq!(cached_tokens(&server, &body, "one").await, 0);
    assert_eq!(cached_tokens(&server, &body, "two").await, 0, "the other key's prompt is not seen");
    assert_ne!(cached_tokens(&server, &body, "one").await, 0);
    assert_ne!(cached_tokens(&server, &body, "two").await, 0);
}

#[tokio::test]
async fn the_prompt_of_several_choices_is_computed_once() {
    let server = with_cache().start().await;
    let answer = server.chat_ok(&ask(LONG, json!({"n": 3}))).await;
    let n_prompt = answer["usage"]["prompt_tokens"].as_u64().unwrap();
    assert_eq!(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    let computed: Vec<usize> = server.controls.prompts().iter().map(Vec::len).collect();
    assert_eq!(computed[0] as u64, n_prompt);
    assert!(computed[1..].iter().all(|n| *n <= 32), "{computed:?} of {n_prompt}");
}
