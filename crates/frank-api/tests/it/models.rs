//! The bodies of `/v1/models`.

use frank_api::{ModelCard, anthropic_model_body, anthropic_models_body, models_body};
use serde_json::json;

#[test]
fn the_list_of_models_says_how_long_the_context_is() {
    let card = ModelCard { id: "smol".to_owned(), created: 1_700_000_000, context_length: 8192 };
    let body = models_body(std::slice::from_ref(&card), false);
    assert_eq!(body["object"], "list");
    assert_eq!(body["data"][0]["id"], "smol");
    assert_eq!(body["data"][0]["context_length"], 8192);
    assert!(body.get("models").is_none());
}

#[test]
fn clients_that_ask_with_their_version_also_get_a_catalogue() {
    let card = ModelCard { id: "smol".to_owned(), created: 1_700_000_000, context_length: 8192 };
    let body = models_body(&[card], true);
    assert_eq!(body["data"][0]["id"], "smol");
    assert_eq!(body["models"][0]["slug"], "smol");
    assert_eq!(body["models"][0]["context_window"], 8192);
    assert_eq!(body["models"][0]["visibility"], "list");
}

#[test]
fn clients_of_anthropic_get_a_page_that_is_the_last() {
    let card =
        |id: &str| ModelCard { id: id.to_owned(), created: 1_700_000_000, context_length: 8192 };
    let body = anthropic_models_body(&[card("smol"), card("alias")]);
    let first = json!({
        "type": "model", "id": "smol", "display_name": "smol", "created_at": "2023-11-14T22:13:20Z",
        "lifecycle": "active", "max_input_tokens": 8192, "max_tokens": 8192,
    });
    assert_eq!(body["data"], json!([first, anthropic_model_body(&card("alias"))]));
    assert_eq!((&body["first_id"], &body["last_id"]), (&json!("smol"), &json!("alias")));
    assert_eq!(body["has_more"], false);
    let none = anthropic_models_body(&[]);
    assert!(none["first_id"].is_null() && none["last_id"].is_null());
}
