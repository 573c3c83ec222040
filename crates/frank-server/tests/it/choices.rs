//! Several answers to one request.

use serde_json::{Value, json};

use crate::script::{EITHER, says};
use crate::server::{Setup, TestServer, ask};

/// A server whose answers begin with `a` or `b`, each as likely as the other.
async fn either() -> TestServer {
    let answer = [vec![EITHER], says(" is it")].concat();
    Setup { answer, n_queue: 16, ..Setup::default() }.start().await
}

fn texts(answer: &Value) -> Vec<&str> {
    let choices = answer["choices"].as_array().expect("an answer has choices");
    choices.iter().map(|choice| choice["message"]["content"].as_str().expect("a text")).collect()
}

/// Eight answers by one seed, which are not all the same.
fn eight(extra: Value) -> Value {
    let mut body = ask("Hi", json!({"n": 8, "temperature": 1, "seed": 7}));
    let Value::Object(extra) = extra else { panic!("extra fields are an object") };
    body.as_object_mut().expect("the body is an object").extend(extra);
    body
}

#[tokio::test]
async fn each_choice_is_drawn_for_itself_and_counted_together() {
    let server = either().await;
    let answer = server.chat_ok(&eight(json!({}))).await;
    let texts = texts(&answer);
    assert_eq!(texts.len(), 8);
    assert!(texts.contains(&"a is it") && texts.contains(&"b is it"), "{texts:?}");
    let choices = answer["choices"].as_array().unwrap();
    assert!(choices.iter().enumerate().all(|(i, choice)| choice["index"] == i));
    assert!(choices.iter().all(|choice| choice["finish_reason"] == "stop"));
    assert_eq!(answer["usage"]["completion_tokens"], 8 * "a is it".len());
    let n_prompt = answer["usage"]["prompt_tokens"].as_u64().unwrap();
    assert_eq!(answer["usage"]["total_tokens"], n_prompt + 8 * 7);
}

#[tokio::test]
async fn a_seed_gives_the_same_choices_again_and_its_first_one_alone() {
    let server = either().await;
    let first = server.chat_ok(&eight(json!({}))).await;
    let again = server.chat_ok(&eight(json!({}))).await;
    assert_eq!(texts(&first), texts(&again));
    for seed in 0..4 {
        let many = server.chat_ok(&eight(json!({"seed": seed}))).await;
        let alone = server.chat_ok(&eight(json!({"seed": seed, "n": 1}))).await;
        assert_eq!(texts(&many)[0], texts(&alone)[0]);
    }
}

#[tokio::test]
async fn a_stop_text_ends_its_choice_and_no_other() {
    let server = either().await;
    let answer = server.chat_ok(&eight(json!({"stop": "a "}))).await;
    let texts = texts(&answer);
    assert!(texts.iter().all(|text| ["", "b is it"].contains(text)), "{texts:?}");
    assert!(texts.contains(&"") && texts.contains(&"b is it"), "{texts:?}");
    server.wait_for("an idle engine", |stats| stats.running + stats.waiting == 0).await;
}

#[tokio::test]
async fn streamed_choices_say_whose_text_it_is_and_end_once_each() {
    let server = either().await;
    let options = json!({"stream": true, "stream_options": {"include_usage": true}});
    let chunks = server.chat_stream(&eight(options)).await;
    let (last, chunks) = chunks.split_last().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"]["completion_tokens"], 8 * "a is it".len());
    let whole = server.chat_ok(&eight(json!({}))).await;
    for (index, expected) in texts(&whole).into_iter().enumerate() {
        let of_choice = chunks.iter().map(|chunk| &chunk["choices"][0]);
        let mine: Vec<&Value> = of_choice.filter(|choice| choice["index"] == index).collect();
        assert_eq!(mine[0]["delta"]["role"], "assistant");
        let text: String = mine.iter().filter_map(|c| c["delta"]["content"].as_str()).collect();
        assert_eq!(text, expected);
        let ends: Vec<_> = mine.iter().filter(|c| !c["finish_reason"].is_null()).collect();
        assert_eq!(ends.len(), 1);
        assert_eq!(mine.last().unwrap()["finish_reason"], "stop");
    }
}

#[tokio::test]
async fn completions_have_choices_too() {
    let server = either().await;
    let body =
        json!({"prompt": "x", "n": 3, "best_of": 3, "max_tokens": 2, "temperature": 1, "seed": 1});
    let response = server.post("/v1/completions", &body).send().await.unwrap();
    let answer: Value = response.json().await.unwrap();
    let choices = answer["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 3);
    assert!(choices.iter().all(|choice| choice["finish_reason"] == "length"));
    assert_eq!(answer["usage"]["completion_tokens"], 6);
}

#[tokio::test]
async fn more_choices_than_can_ever_wait_are_refused_by_name() {
    let server = Setup { n_parallel: 2, n_queue: 3, ..Setup::default() }.start().await;
    let response = server.chat(&ask("Hi", json!({"n": 6}))).await;
    assert_eq!(response.status(), 400);
    let error: Value = response.json().await.unwrap();
    assert_eq!(error["error"]["param"], "n");
    let answer = server.chat_ok(&ask("Hi", json!({"n": 5}))).await;
    assert_eq!(texts(&answer), ["Hello."; 5]);
}
