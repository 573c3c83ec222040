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

/// The list of models as clients of Anthropic read it: those that ask with the header `anthropic-version`.
#[must_use]
pub fn anthropic_models_body(cards: &[ModelCard]) -> Value {
    json!({
        "data": cards.iter().map(anthropic_model_body).collect::<Vec<_>>(),
        "has_more": false,
        "first_id": cards.first().map(|card| &card.id),
        "last_id": cards.last().map(|card| &card.id),
    })
}

/// One model, as `GET /v1/models/{id}` answers such clients.
#[must_use]
pub fn anthropic_model_body(card: &ModelCard) -> Value {
    json!({
        "type": "model",
        "id": card.id,
        "display_name": card.id,
        "created_at": rfc3339(card.created),
        "lifecycle": "active",
        "max_input_tokens": card.context_length,
        "max_tokens": card.context_length,
    })
}

/// Seconds since 1970 as a date and time of day in UTC.
fn rfc3339(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date_of(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month and day of the month, so many days after 1 January 1970. Counted in cycles of 400 years from 1 March of
/// the year 0, so that a leap day is the last of its year.
fn date_of(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (cycle, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // From March on, five months have 153 days.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, is_next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (400 * cycle + year + is_next_year, month, day)
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn seconds_become_dates() {
        let check = |seconds: u64, expected: &str| assert_eq!(rfc3339(seconds), expected);
        check(0, "1970-01-01T00:00:00Z");
        check(951_782_399, "2000-02-28T23:59:59Z");
        check(951_782_400, "2000-02-29T00:00:00Z");
        check(951_868_800, "2000-03-01T00:00:00Z");
        check(1_700_000_000, "2023-11-14T22:13:20Z");
        check(4_107_542_399, "2100-02-28T23:59:59Z");
        check(4_107_542_400, "2100-03-01T00:00:00Z");
        check(1_735_689_599, "2024-12-31T23:59:59Z");
    }
}
