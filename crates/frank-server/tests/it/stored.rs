//! Stored answers: a conversation goes on after one, and only its own key sees it.

use std::io::Write;

use frank_server::{AnswerStore, ApiKeys, ServerOptions};
use serde_json::{Value, json};

use crate::server::{Setup, TestServer, prompt_text};

async fn server(folder: &std::path::Path, keys: &str) -> TestServer {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(keys.as_bytes()).expect("written");
    let options = ServerOptions {
        api_keys: ApiKeys::from_file(file.path()).expect("keys"),
        store: Some(AnswerStore::open(folder, 8).expect("a store")),
        ..ServerOptions::default()
    };
    Setup { options, ..Setup::default() }.start().await
}

async fn create(server: &TestServer, key: &str, body: Value) -> (u16, Value) {
    let response = server
        .post("/v1/responses", &body)
        .header("x-api-key", key)
        .send()
        .await
        .expect("the server answers");
    (response.status().as_u16(), response.json().await.expect("the answer is JSON"))
}

#[tokio::test]
async fn a_conversation_goes_on_after_a_stored_answer_even_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let first = server(folder.path(), "one\n").await;
    let (status, answer) =
        create(&first, "one", json!({"input": "My name is Ada.", "instructions": "Be short."}))
            .await;
    assert_eq!(status, 200, "{answer}");
    let second = server(folder.path(), "one\n").await;
    let body = json!({"input": "Who am I?", "previous_response_id": answer["id"]});
    let (status, answer) = create(&second, "one", body).await;
    assert_eq!(status, 200, "{answer}");
    let prompt = prompt_text(&second, 0);
    let place = |text: &str| prompt.find(text).unwrap_or_else(|| panic!("no {text:?} in {prompt}"));
    assert!(place("My name is Ada.") < place("Hello.") && place("Hello.") < place("Who am I?"));
    assert!(!prompt.contains("Be short."), "instructions hold for one answer");
}

#[tokio::test]
async fn a_stored_answer_is_read_and_deleted_by_its_own_key_only() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path(), "one\ntwo\n").await;
    let (_, answer) = create(&server, "one", json!({"input": "Hi"})).await;
    let path = format!("/v1/responses/{}", answer["id"].as_str().unwrap());
    let get = async |key: &str| {
        let response = server.get(&path).header("x-api-key", key).send().await.unwrap();
        (response.status().as_u16(), response.json::<Value>().await.unwrap())
    };
    assert_eq!(get("one").await, (200, answer.clone()));
    assert_eq!(get("two").await.0, 404);
    let delete = async |key: &str| {
        let request = server.client.delete(server.url(&path)).header("x-api-key", key);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!((delete("two").await, delete("one").await, delete("one").await), (404, 200, 404));
    let body = json!({"input": "Hi", "previous_response_id": answer["id"]});
    let (status, error) = create(&server, "one", body).await;
    assert_eq!(status, 400, "{error}");
    assert_eq!(error["error"]["code"], "previous_response_not_found", "{error}");
    assert_eq!(error["error"]["param"], "previous_response_id");
}

#[tokio::test]
async fn an_answer_that_shall_not_be_stored_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path(), "one\n").await;
    let (status, _) = create(&server, "one", json!({"input": "Hi", "store": false})).await;
    assert_eq!(status, 200);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_streamed_answer_is_stored_before_its_end_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path(), "one\n").await;
    let body = json!({"input": "Hi", "stream": true});
    let response =
        server.post("/v1/responses", &body).header("x-api-key", "one").send().await.unwrap();
    let text = response.text().await.unwrap();
    assert!(text.contains("response.completed"), "{text}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
