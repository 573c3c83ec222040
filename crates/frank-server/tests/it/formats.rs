//! Answers that are kept to a form: JSON, a schema, a grammar.

use serde_json::{Value, json};

use crate::script::says;
use crate::server::{Setup, TestServer, ask};

/// A model that wants to go on after its JSON.
const WORDY: &str = r#"{"name": "Ada", "age": 36} is my answer"#;

async fn wordy() -> TestServer {
    Setup { answer: says(WORDY), ..Setup::default() }.start().await
}

fn text(answer: &Value) -> &str {
    answer["choices"][0]["message"]["content"].as_str().expect("an answer has a text")
}

fn person() -> Value {
    let properties = json!({"name": {"type": "string"}, "age": {"type": "integer"}});
    json!({"type": "object", "properties": properties, "required": ["name", "age"], "additionalProperties": false})
}

#[tokio::test]
async fn an_answer_ends_where_its_form_does() {
    let server = wordy().await;
    let wrapped = json!({"name": "person", "schema": person(), "strict": true});
    for extra in [
        json!({"response_format": {"type": "json_object"}}),
        json!({"response_format": {"type": "json_schema", "json_schema": wrapped}}),
        json!({"json_schema": person()}),
        json!({"grammar": r#"root ::= "{" [^}]+ "}""#}),
    ] {
        let answer = server.chat_ok(&ask("Who?", extra.clone())).await;
        assert_eq!(text(&answer), r#"{"name": "Ada", "age": 36}"#, "{extra}");
        assert_eq!(answer["choices"][0]["finish_reason"], "stop", "{extra}");
    }
    let free = server.chat_ok(&ask("Who?", json!({}))).await;
    assert_eq!(text(&free), WORDY);
}

#[tokio::test]
async fn a_model_that_wants_something_else_is_kept_to_its_form() {
    let server = wordy().await;
    let schema = json!({"enum": ["yes", "no"]});
    let answer = server.chat_ok(&ask("Well?", json!({"json_schema": schema}))).await;
    assert!([r#""yes""#, r#""no""#].contains(&text(&answer)), "{answer}");
    let body = ask("Well?", json!({"grammar": r#"root ::= "maybe""#, "n": 3}));
    let answer = server.chat_ok(&body).await;
    let choices = answer["choices"].as_array().unwrap();
    assert!(choices.iter().all(|choice| choice["message"]["content"] == "maybe"), "{answer}");
}

#[tokio::test]
async fn completions_are_kept_to_a_form_too() {
    let server = wordy().await;
    let body = json!({"prompt": "x", "json_schema": person()});
    let response = server.post("/v1/completions", &body).send().await.unwrap();
    let answer: Value = response.json().await.unwrap();
    assert_eq!(answer["choices"][0]["text"], r#"{"name": "Ada", "age": 36}"#);
}

#[tokio::test]
async fn a_form_that_cannot_be_kept_is_a_400_that_says_what() {
    let server = wordy().await;
    let refused = async |extra: Value, param: &str, says: &str| {
        let response = server.chat(&ask("Hi", extra.clone())).await;
        assert_eq!(response.status(), 400, "{extra}");
        let error: Value = response.json().await.unwrap();
        assert_eq!(error["error"]["param"], param, "{error}");
        let message = error["error"]["message"].as_str().unwrap();
        assert!(message.contains(says), "{message}");
    };
    refused(json!({"grammar": "root ::= other"}), "grammar", "other").await;
    refused(json!({"grammar": "no rules"}), "grammar", "line 1").await;
    let schema = json!({"type": "nonsense"});
    refused(json!({"json_schema": schema}), "json_schema", "type").await;
    let format = json!({"type": "json_schema", "json_schema": {"schema": schema}});
    let param = "response_format.json_schema.schema";
    refused(json!({"response_format": format}), param, "type").await;
    let mut deep = json!({"type": "string"});
    for _ in 0..100 {
        deep = json!({"items": deep});
    }
    refused(json!({"json_schema": deep}), "json_schema", "deeper").await;
    let answer = server.chat_ok(&ask("Who?", json!({"max_tokens": 4}))).await;
    assert_eq!(text(&answer), &WORDY[..4]);
}
