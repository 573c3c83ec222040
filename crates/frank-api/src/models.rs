//! The bodies of `/v1/models`.

use serde_json::{Value, json};

/// What a client can know about a served model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelCard {
    /// Name or alias under which it is served.
    pub id: String,
    /// When it was loaded, in seconds since 1970.
    pub created: u64,
    /// Tokens of one request, prompt and answer.
    pub context_length: u64,
}

/// What an agent that reads `models[]` tells the model when its user gave no instructions.
const AGENT_INSTRUCTIONS: &str = "You are a coding agent in a user's terminal. Work with the tools you are given, \
     read before you change, and say shortly what you did.";

/// Bytes of one tool result that such an agent should send.
const AGENT_TOOL_BYTES: u64 = 10_000;

/// One model, as `GET /v1/models/{id}` answers.
#[must_use]
pub fn model_body(card: &ModelCard) -> Value {
    json!({
        "id": card.id,
        "object": "model",
        "created": card.created,
        "owned_by": "frank",
        "context_length": card.context_length,
        "max_model_len": card.context_length,
    })
}

/// The list of models. With `catalogue` it also has `models[]`, for clients that ask with `client_version`.
#[must_use]
pub fn models_body(cards: &[ModelCard], catalogue: bool) -> Value {
    let mut body =
        json!({"object": "list", "data": cards.iter().map(model_body).collect::<Vec<_>>()});
    if catalogue {
        body["models"] = cards.iter().map(catalogue_entry).collect();
    }
    body
}

/// The form that Codex reads: every field that it requires, with what this endpoint offers.
fn catalogue_entry(card: &ModelCard) -> Value {
    json!({
        "slug": card.id,
        "display_name": card.id,
        "description": null,
        "supported_reasoning_levels": [],
        "shell_type": "shell_command",
        "visibility": "list",
        "supported_in_api": true,
        "priority": 0,
        "upgrade": null,
        "base_instructions": AGENT_INSTRUCTIONS,
        "supports_reasoning_summaries": false,
        "support_verbosity": false,
        "default_verbosity": null,
        "apply_patch_tool_type": null,
        "truncation_policy": {"mode": "bytes", "limit": AGENT_TOOL_BYTES},
        "supports_parallel_tool_calls": false,
        "context_window": card.context_length,
        "experimental_supported_tools": [],
        "input_modalities": ["text"],
    })
}
