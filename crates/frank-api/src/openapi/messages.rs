//! Schemas of Messages.

use crate::dialects::messages::HINTS;
use serde_json::{Value, json};

use super::schema::{
    Fields, any_object, any_of, anything, boolean, count, empty_list, integer, integer_from,
    json_schema, list, list_from, list_of, named, nothing, nullable, number, object, only, request,
    text, text_of, word,
};

/// Every schema of the dialect, with its name.
pub(super) fn schemas() -> Fields {
    vec![
        ("MessagesRequest", messages_request(true)),
        ("CountRequest", messages_request(false)),
        ("MessagesTurn", turn()),
        ("MessagesPart", result_part()),
        ("MessagesReply", reply(usage())),
        ("MessagesEvent", event()),
        ("CountReply", object(vec![("input_tokens", count())], vec![])),
        ("AnthropicError", error()),
    ]
}

/// A count needs no bound of an answer that it does not give.
fn messages_request(is_answered: bool) -> Value {
    let mut required = vec![("messages", list_from(&named("MessagesTurn"), 1))];
    let mut optional = settings();
    let max_tokens = ("max_tokens", integer_from(1));
    if is_answered {
        required.push(max_tokens)
    } else {
        optional.push(max_tokens)
    }
    request(required, optional)
}

fn settings() -> Fields {
    let mut fields = vec![
        ("model", text()),
        ("system", content(&[text_block()])),
        ("temperature", number(0.0, 1.0)),
        ("top_p", number(0.0, 1.0)),
        ("top_k", integer(0, i64::from(u32::MAX))),
        ("stop_sequences", list_of(&text_of(1, 4096), 0, 16)),
        ("stream", boolean()),
        ("tools", list(&any_of(&[tool(), other_tool()]))),
        ("tool_choice", tool_choice()),
        ("thinking", thinking()),
        ("output_config", output_config()),
        ("output_format", format()),
        ("mcp_servers", empty_list()),
        ("container", nothing()),
        ("compaction", nothing()),
        ("thread", nothing()),
    ];
    fields.extend(HINTS.into_iter().map(|name| (name, anything())));
    fields
}

fn tool() -> Value {
    let ignored = [
        "cache_control",
        "eager_input_streaming",
        "allowed_callers",
        "defer_loading",
        "input_examples",
    ];
    let mut optional =
        vec![("type", only("custom")), ("description", text()), ("strict", boolean())];
    optional.extend(ignored.into_iter().map(|name| (name, anything())));
    request(vec![("name", text()), ("input_schema", any_object())], optional)
}

/// A tool that is left out, with a warning in the header of the reply.
fn other_tool() -> Value {
    any_of(&[
        json!({"type": "object", "properties": {"type": {"type": "string", "not": {"const": "custom"}}}, "required": ["type"]}),
        json!({"type": "object", "properties": {"name": {"enum": ["", null]}, "type": {"enum": ["custom", null]}}}),
    ])
}

fn tool_choice() -> Value {
    let alone = || vec![("disable_parallel_tool_use", boolean())];
    any_of(&[
        request(vec![("type", word(&["auto", "any", "none"]))], alone()),
        request(vec![("type", only("tool")), ("name", text())], alone()),
    ])
}

fn thinking() -> Value {
    let shared = || {
        let display = word(&["summarized", "updates", "omitted"]);
        vec![("display", display), ("block_binding", anything())]
    };
    let budget = ("budget_tokens", integer_from(1));
    let others = word(&["adaptive", "between_tools", "disabled"]);
    any_of(&[
        request(vec![("type", only("enabled")), budget], shared()),
        request(vec![("type", others)], shared()),
    ])
}

fn output_config() -> Value {
    request(
        vec![],
        vec![
            ("effort", word(&["low", "medium", "high", "xhigh", "max"])),
            ("format", format()),
            ("task_budget", anything()),
        ],
    )
}

fn format() -> Value {
    request(
        vec![("type", only("json_schema")), ("schema", json_schema())],
        vec![("name", anything()), ("description", anything()), ("strict", anything())],
    )
}

/// A message may hold the blocks of its role.
fn turn() -> Value {
    let user = [text_block(), search_result(), tool_result()];
    let thought = request(
        vec![("type", only("thinking")), ("thinking", text())],
        vec![("signature", text()), ("cache_control", anything())],
    );
    let sealed = request(vec![("type", only("redacted_thinking"))], vec![("data", anything())]);
    let assistant = [text_block(), tool_use(), thought, sealed];
    any_of(&[
        request(vec![("role", only("user")), ("content", content(&user))], vec![]),
        request(vec![("role", only("assistant")), ("content", content(&assistant))], vec![]),
        system_turn(true),
        system_turn(false),
    ])
}

/// Instructions within the conversation, which may have settings in place of a text.
fn system_turn(has_text: bool) -> Value {
    let content = ("content", content(&[text_block()]));
    let settings = ("output_config", json!({"not": nothing()}));
    let clear_at = ("clear_at", word(&["never", "next_user_message"]));
    let role = ("role", only("system"));
    if has_text {
        request(vec![role, content], vec![clear_at, ("output_config", anything())])
    } else {
        request(vec![role, settings], vec![clear_at, content])
    }
}

/// A text, or a list of blocks.
fn content(blocks: &[Value]) -> Value {
    any_of(&[text(), list(&any_of(blocks))])
}

fn text_block() -> Value {
    request(
        vec![("type", only("text")), ("text", text())],
        vec![("cache_control", anything()), ("citations", anything())],
    )
}

fn search_result() -> Value {
    request(
        vec![
            ("type", only("search_result")),
            ("title", text()),
            ("source", text()),
            ("content", list(&named("MessagesPart"))),
        ],
        vec![("cache_control", anything()), ("citations", anything())],
    )
}

/// A part of what a tool gave or a search found. What is no text is told in words.
fn result_part() -> Value {
    let reference = request(
        vec![("type", only("tool_reference")), ("tool_name", text())],
        vec![("cache_control", anything())],
    );
    let read = ["text", "search_result", "tool_reference"];
    let other = json!({
        "type": "object",
        "required": ["type"],
        "properties": {"type": {"type": "string", "not": {"enum": read}}},
    });
    any_of(&[text_block(), search_result(), reference, other])
}

fn tool_use() -> Value {
    request(
        vec![("type", only("tool_use")), ("id", text()), ("name", text()), ("input", any_object())],
        vec![("cache_control", anything()), ("caller", anything()), ("toolset_name", anything())],
    )
}

fn tool_result() -> Value {
    request(
        vec![("type", only("tool_result")), ("tool_use_id", text())],
        vec![
            ("content", any_of(&[text(), list(&named("MessagesPart"))])),
            ("is_error", boolean()),
            ("cache_control", anything()),
            ("toolset_name", anything()),
        ],
    )
}

fn reply(usage: Value) -> Value {
    let thought = object(
        vec![("type", only("thinking")), ("thinking", text()), ("signature", text())],
        vec![],
    );
    let said = object(vec![("type", only("text")), ("text", text())], vec![]);
    let called = object(
        vec![("type", only("tool_use")), ("id", text()), ("name", text()), ("input", any_object())],
        vec![],
    );
    let reasons = word(&["end_turn", "max_tokens", "stop_sequence", "tool_use"]);
    object(
        vec![
            ("id", text()),
            ("type", only("message")),
            ("role", only("assistant")),
            ("model", text()),
            ("content", list(&any_of(&[thought, said, called]))),
            ("stop_reason", nullable(reasons)),
            ("stop_sequence", nullable(text())),
            ("usage", usage),
        ],
        vec![],
    )
}

fn usage() -> Value {
    object(
        vec![
            ("input_tokens", count()),
            ("cache_creation_input_tokens", count()),
            ("cache_read_input_tokens", count()),
            ("output_tokens", count()),
            ("output_tokens_details", object(vec![("thinking_tokens", count())], vec![])),
        ],
        vec![],
    )
}

/// The data of a frame, whose name is its type.
fn event() -> Value {
    let at = || ("index", count());
    let kind = |kind: &str| ("type", only(kind));
    let end = object(vec![("stop_reason", text()), ("stop_sequence", nullable(text()))], vec![]);
    any_of(&[
        object(vec![kind("message_start"), ("message", named("MessagesReply"))], vec![]),
        object(vec![kind("content_block_start"), at(), ("content_block", any_object())], vec![]),
        object(vec![kind("content_block_delta"), at(), ("delta", delta())], vec![]),
        object(vec![kind("content_block_stop"), at()], vec![]),
        object(vec![kind("message_delta"), ("delta", end), ("usage", usage())], vec![]),
        object(vec![kind("message_stop")], vec![]),
        object(vec![kind("ping")], vec![]),
        named("AnthropicError"),
    ])
}

fn delta() -> Value {
    let one = |kind: &str, field| object(vec![("type", only(kind)), (field, text())], vec![]);
    any_of(&[
        one("text_delta", "text"),
        one("thinking_delta", "thinking"),
        one("signature_delta", "signature"),
        one("input_json_delta", "partial_json"),
    ])
}

fn error() -> Value {
    let kinds = word(&[
        "invalid_request_error",
        "authentication_error",
        "permission_error",
        "not_found_error",
        "timeout_error",
        "request_too_large",
        "rate_limit_error",
        "api_error",
        "overloaded_error",
    ]);
    let error = object(vec![("type", kinds), ("message", text())], vec![("details", anything())]);
    object(vec![("type", only("error")), ("error", error)], vec![])
}
