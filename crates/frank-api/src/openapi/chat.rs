//! Schemas of Chat Completions and Completions.

use serde_json::{Value, json};

use super::schema::{
    Fields, any_object, any_of, anything, boolean, count, empty_list, integer, integer_from, list,
    list_from, list_of, named, nothing, nullable, object, only, request, text, word,
};
use super::shared;

/// Why an answer ended.
fn finish_reason() -> Value {
    word(&["stop", "length", "tool_calls"])
}

/// Every schema of the two dialects, with its name.
pub(super) fn schemas() -> Fields {
    vec![
        ("ChatRequest", chat_request()),
        ("ChatMessage", message()),
        (
            "ChatReply",
            reply(
                "chat.completion",
                &choice(message_of_answer(), finish_reason(), named("ChatLogprobs")),
            ),
        ),
        ("ChatChunk", chunk("chat.completion.chunk", &chat_delta())),
        ("ChatLogprobs", chat_logprobs()),
        ("CompletionRequest", completion_request()),
        ("CompletionReply", reply("text_completion", &text_choice(finish_reason()))),
        ("CompletionChunk", chunk("text_completion", &text_choice(nullable(finish_reason())))),
        ("CompletionLogprobs", completion_logprobs()),
        ("Usage", usage()),
        ("Timings", timings()),
    ]
}

fn chat_request() -> Value {
    let mut fields = shared::settings();
    fields.extend(shared::thinking());
    fields.extend([
        ("max_tokens", integer_from(1)),
        ("max_completion_tokens", integer_from(1)),
        ("logprobs", boolean()),
        ("top_logprobs", integer(0, 20)),
        ("n_probs", integer(0, 20)),
        ("reasoning", shared::reasoning()),
        ("tools", shared::tools(&tool())),
        ("tool_choice", tool_choice()),
        ("parallel_tool_calls", boolean()),
        ("functions", empty_list()),
        ("function_call", word(&["none", "auto"])),
        ("modalities", only(json!(["text"]))),
        ("audio", nothing()),
        ("prediction", nothing()),
        ("web_search_options", nothing()),
        ("verbosity", word(&["medium"])),
    ]);
    let messages = list_from(&named("ChatMessage"), 1);
    request(vec![("messages", messages)], fields)
}

fn tool() -> Value {
    let function = request(vec![], shared::function());
    request(
        vec![("function", function)],
        vec![("type", only("function")), ("cache_control", anything())],
    )
}

fn tool_choice() -> Value {
    let function = || request(vec![("name", text())], vec![]);
    let one = request(vec![("type", only("function")), ("function", function())], vec![]);
    let some = request(
        vec![
            ("type", only("allowed_tools")),
            ("allowed_tools", request(shared::allowed(&one), vec![])),
        ],
        vec![],
    );
    any_of(&[word(&["auto", "none", "required"]), one, some])
}

/// A message has the fields of its role.
fn message() -> Value {
    let content = || any_of(&[text(), list(&text_part())]);
    let shared = || {
        vec![
            ("name", text()),
            ("reasoning_content", text()),
            ("reasoning", text()),
            ("annotations", empty_list()),
            ("refusal", only("")),
        ]
    };
    let no_calls = || [("tool_calls", empty_list())];
    let asking = request(
        vec![("role", word(&["system", "developer", "user"])), ("content", content())],
        shared().into_iter().chain(no_calls()).collect(),
    );
    let calls =
        [("content", content()), ("tool_calls", list(&call())), ("function_call", called())];
    let answering =
        request(vec![("role", only("assistant"))], shared().into_iter().chain(calls).collect());
    let result = [("content", content()), ("tool_call_id", text())];
    let telling = request(
        vec![("role", word(&["tool", "function"]))],
        shared().into_iter().chain(no_calls()).chain(result).collect(),
    );
    any_of(&[asking, answering, telling])
}

fn text_part() -> Value {
    request(vec![("type", only("text")), ("text", text())], vec![("cache_control", anything())])
}

fn call() -> Value {
    request(
        vec![("function", called())],
        vec![
            ("id", text()),
            ("type", only("function")),
            ("index", anything()),
            ("cache_control", anything()),
        ],
    )
}

fn called() -> Value {
    request(vec![("name", text())], vec![("arguments", any_of(&[text(), any_object()]))])
}

fn completion_request() -> Value {
    let ids = || list(&integer(0, i64::from(u32::MAX)));
    let one = list_of(&any_of(&[text(), ids()]), 1, 1);
    let mut fields = shared::settings();
    fields.extend(shared::no_tools());
    fields.extend([
        ("max_tokens", integer_from(1)),
        ("logprobs", integer(0, 5)),
        ("n_probs", integer(0, 20)),
        ("echo", only(false)),
        ("best_of", integer(1, 128)),
        ("suffix", only("")),
        ("reasoning_effort", anything()),
        ("parallel_tool_calls", anything()),
    ]);
    request(vec![("prompt", any_of(&[text(), ids(), one]))], fields)
}

/// What whole replies and chunks have.
fn head(kind: &str, choice: &Value) -> Fields {
    vec![
        ("id", text()),
        ("object", only(kind)),
        ("created", count()),
        ("model", text()),
        ("system_fingerprint", text()),
        ("choices", list(choice)),
    ]
}

fn reply(kind: &str, choice: &Value) -> Value {
    let mut fields = head(kind, choice);
    fields.extend([("usage", named("Usage")), ("timings", named("Timings"))]);
    object(fields, vec![])
}

/// The last chunk has the timings, and the usage where it was asked for.
fn chunk(kind: &str, choice: &Value) -> Value {
    let more = vec![("usage", nullable(named("Usage"))), ("timings", named("Timings"))];
    object(head(kind, choice), more)
}

fn choice(message: Value, reason: Value, logprobs: Value) -> Value {
    object(
        vec![
            ("index", count()),
            ("message", message),
            ("logprobs", nullable(logprobs)),
            ("finish_reason", reason),
        ],
        vec![],
    )
}

fn message_of_answer() -> Value {
    let function = object(vec![("name", text()), ("arguments", text())], vec![]);
    let call =
        object(vec![("id", text()), ("type", only("function")), ("function", function)], vec![]);
    object(
        vec![("role", only("assistant")), ("content", nullable(text())), ("refusal", nothing())],
        vec![("reasoning_content", text()), ("tool_calls", list(&call))],
    )
}

fn chat_delta() -> Value {
    let function = object(vec![("arguments", text())], vec![("name", text())]);
    let call = object(
        vec![("index", count()), ("function", function)],
        vec![("id", text()), ("type", only("function"))],
    );
    let delta = object(
        vec![],
        vec![
            ("role", only("assistant")),
            ("content", text()),
            ("reasoning_content", text()),
            ("tool_calls", list(&call)),
        ],
    );
    object(
        vec![
            ("index", count()),
            ("delta", delta),
            ("logprobs", nullable(named("ChatLogprobs"))),
            ("finish_reason", nullable(finish_reason())),
        ],
        vec![],
    )
}

fn text_choice(reason: Value) -> Value {
    object(
        vec![
            ("index", count()),
            ("text", text()),
            ("logprobs", nullable(named("CompletionLogprobs"))),
            ("finish_reason", reason),
        ],
        vec![],
    )
}

fn logprob() -> Value {
    json!({"type": "number", "maximum": 0})
}

/// A token with its bytes.
pub(super) fn alternative() -> Fields {
    vec![("token", text()), ("logprob", logprob()), ("bytes", list(&integer(0, 255)))]
}

/// A token with those that were most likely at its place.
pub(super) fn token_logprob() -> Value {
    let mut fields = alternative();
    fields.push(("top_logprobs", list(&object(alternative(), vec![]))));
    object(fields, vec![])
}

fn chat_logprobs() -> Value {
    object(vec![("content", list(&token_logprob())), ("refusal", nothing())], vec![])
}

fn completion_logprobs() -> Value {
    let top = json!({"type": ["object", "null"], "additionalProperties": logprob()});
    object(
        vec![
            ("tokens", list(&text())),
            ("token_logprobs", list(&logprob())),
            ("top_logprobs", list(&top)),
            ("text_offset", list(&count())),
        ],
        vec![],
    )
}

fn milliseconds() -> Value {
    json!({"type": "number", "minimum": 0})
}

fn usage() -> Value {
    object(
        vec![
            ("prompt_tokens", count()),
            ("completion_tokens", count()),
            ("total_tokens", count()),
            ("prompt_tokens_details", object(vec![("cached_tokens", count())], vec![])),
            ("completion_tokens_details", object(vec![("reasoning_tokens", count())], vec![])),
            ("timings", short_timings()),
        ],
        vec![],
    )
}

/// Of how much of the prompt was computed, and how long it all took.
pub(super) fn short_timings() -> Value {
    object(
        vec![
            ("cached_prefix_tokens", count()),
            ("prefilled_tokens", count()),
            ("prefill_ms", milliseconds()),
            ("decode_ms", milliseconds()),
        ],
        vec![],
    )
}

fn timings() -> Value {
    object(
        vec![
            ("cache_n", count()),
            ("prompt_n", count()),
            ("prompt_ms", milliseconds()),
            ("prompt_per_token_ms", milliseconds()),
            ("prompt_per_second", milliseconds()),
            ("predicted_n", count()),
            ("predicted_ms", milliseconds()),
            ("predicted_per_token_ms", milliseconds()),
            ("predicted_per_second", milliseconds()),
        ],
        vec![],
    )
}
