//! Log probabilities of tokens: they agree with the text that was sent.

use serde_json::{Value, json};

use crate::server::{ask, server_that_says};

/// The tokens of a chat choice's log probabilities.
fn tokens(choice: &Value) -> Vec<&str> {
    let content = choice["logprobs"]["content"].as_array();
    let tokens = content.into_iter().flatten();
    tokens.map(|token| token["token"].as_str().expect("a token has a text")).collect()
}

#[tokio::test]
async fn each_token_of_an_answer_is_told_with_the_likeliest_beside_it() {
    let server = server_that_says("Hey").await;
    let body = ask("Hi", json!({"logprobs": true, "top_logprobs": 2}));
    let answer = server.chat_ok(&body).await;
    let choice = &answer["choices"][0];
    assert_eq!(tokens(choice), ["H", "e", "y"]);
    let first = &choice["logprobs"]["content"][0];
    assert_eq!(first["bytes"], json!([72]));
    // The script makes its token by 50 more likely than all others.
    assert!(first["logprob"].as_f64().unwrap().abs() < 1e-6, "{first}");
    let top = first["top_logprobs"].as_array().unwrap();
    assert_eq!(top.len(), 2);
    assert_eq!(top[0]["token"], "H");
    assert!((top[1]["logprob"].as_f64().unwrap() + 50.0).abs() < 1e-3, "{first}");
    let plain = server.chat_ok(&ask("Hi", json!({}))).await;
    assert_eq!(plain["choices"][0]["logprobs"], Value::Null);
}

#[tokio::test]
async fn tokens_of_a_stop_text_are_not_told() {
    let server = server_that_says("ABCDEFGHIJK").await;
    let body = ask("Hi", json!({"logprobs": true, "stop": "DEFG"}));
    let answer = server.chat_ok(&body).await;
    assert_eq!(answer["choices"][0]["message"]["content"], "ABC");
    assert_eq!(tokens(&answer["choices"][0]), ["A", "B", "C"]);
    let nothing = server.chat_ok(&ask("Hi", json!({"logprobs": true, "stop": "A"}))).await;
    assert_eq!(nothing["choices"][0]["logprobs"]["content"], json!([]));
}

#[tokio::test]
async fn tokens_come_with_their_text_also_when_it_was_held_back() {
    let server = server_that_says("ABCDEFGHIJK").await;
    let body = ask("Hi", json!({"logprobs": true, "stream": true, "stop": "DEFGX"}));
    let chunks = server.chat_stream(&body).await;
    let mut longest = 0;
    for chunk in &chunks {
        let choice = &chunk["choices"][0];
        let text = choice["delta"]["content"].as_str().unwrap_or_default();
        assert_eq!(tokens(choice).concat(), text, "{chunk}");
        longest = longest.max(text.len());
    }
    assert_eq!(longest, "DEFGH".len(), "held back and then sent at once");
}

#[tokio::test]
async fn parts_of_a_character_are_told_as_bytes_at_its_place() {
    let server = server_that_says("a\u{1F600}b").await;
    let body = json!({"prompt": "x", "logprobs": 1});
    let response = server.post("/v1/completions", &body).send().await.unwrap();
    let answer: Value = response.json().await.unwrap();
    let logprobs = &answer["choices"][0]["logprobs"];
    let parts = ["a", "bytes:\\xf0", "bytes:\\x9f", "bytes:\\x98", "bytes:\\x80", "b"];
    assert_eq!(logprobs["tokens"], json!(parts));
    assert_eq!(logprobs["text_offset"], json!([0, 1, 1, 1, 1, 2]));
    assert_eq!(logprobs["top_logprobs"].as_array().unwrap().len(), 6);
}
