//! Schemas of what is no dialect: models, tokens, health, and the error of OpenAI's form.

use super::schema::{
    Fields, any_object, any_of, boolean, count, integer, list, named, nullable, object, only,
    request, text, word,
};
use serde_json::{Value, json};

/// Every schema, with its name.
pub(super) fn schemas() -> Fields {
    vec![
        ("OpenAiError", error()),
        ("ModelsError", any_of(&[named("OpenAiError"), named("AnthropicError")])),
        ("Model", model()),
        ("AnthropicModel", anthropic_model()),
        ("ModelList", any_of(&[models(), anthropic_models()])),
        ("ModelCard", any_of(&[named("Model"), named("AnthropicModel")])),
        ("TokenizeRequest", tokenize_request()),
        ("TokenizeReply", object(vec![("tokens", list(&count()))], vec![])),
        ("DetokenizeRequest", detokenize_request()),
        ("DetokenizeReply", object(vec![("content", text())], vec![])),
        ("Health", object(vec![("status", only("ok"))], vec![])),
        ("Trouble", trouble()),
    ]
}

fn error() -> Value {
    let kinds = word(&[
        "invalid_request_error",
        "authentication_error",
        "permission_error",
        "rate_limit_error",
        "server_error",
    ]);
    let error = object(
        vec![
            ("message", text()),
            ("type", kinds),
            ("param", nullable(text())),
            ("code", nullable(text())),
        ],
        vec![],
    );
    object(vec![("error", error)], vec![])
}

fn model() -> Value {
    object(
        vec![
            ("id", text()),
            ("object", only("model")),
            ("created", count()),
            ("owned_by", text()),
            ("context_length", count()),
            ("max_model_len", count()),
        ],
        vec![],
    )
}

/// `models` is there for clients that ask with `client_version`.
fn models() -> Value {
    object(
        vec![("object", only("list")), ("data", list(&named("Model")))],
        vec![("models", list(&any_object()))],
    )
}

fn anthropic_model() -> Value {
    object(
        vec![
            ("type", only("model")),
            ("id", text()),
            ("display_name", text()),
            ("created_at", json!({"type": "string", "format": "date-time"})),
            ("lifecycle", text()),
            ("max_input_tokens", count()),
            ("max_tokens", count()),
        ],
        vec![],
    )
}

fn anthropic_models() -> Value {
    object(
        vec![
            ("data", list(&named("AnthropicModel"))),
            ("has_more", boolean()),
            ("first_id", nullable(text())),
            ("last_id", nullable(text())),
        ],
        vec![],
    )
}

fn tokenize_request() -> Value {
    request(
        vec![("content", text())],
        vec![
            ("add_special", boolean()),
            ("parse_special", boolean()),
            ("with_pieces", only(false)),
        ],
    )
}

fn detokenize_request() -> Value {
    request(vec![("tokens", list(&integer(0, i64::from(u32::MAX))))], vec![])
}

fn trouble() -> Value {
    let statuses = word(&["stopping", "loading", "stuck", "failing", "stopped"]);
    object(vec![("status", statuses), ("reason", text())], vec![])
}
