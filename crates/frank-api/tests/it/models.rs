//! The bodies of `/v1/models`.

use frank_api::{ModelCard, models_body};

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
