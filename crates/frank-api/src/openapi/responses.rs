//! Schemas of Responses.

use serde_json::{Value, json};

use super::chat::{short_timings, token_logprob};
use super::schema::{
    Fields, any_object, any_of, anything, boolean, count, empty_list, integer, integer_from,
    json_schema, list, named, nothing, nullable, object, only, request, text, word,
};
use super::shared;

/// Every schema of the dialect, with its name.
pub(super) fn schemas() -> Fields {
    vec![
        ("ResponsesRequest", responses_request()),
        ("ResponsesInputItem", input_item()),
        ("ResponsesReply", reply()),
        ("ResponsesItem", item()),
        ("ResponsesEvent", event()),
        ("ResponsesDeleted", deleted()),
    ]
}

fn responses_request() -> Value {
    // Those of these names that the dialect reads by itself, or has another word for.
    let other = [
        "store",
        "n",
        "response_format",
        "user",
        "metadata",
        "service_tier",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
    ];
    let mut fields = shared::settings();
    fields.retain(|(name, _)| !other.contains(name));
    fields.extend(shared::thinking());
    fields.extend(own());
    let mut request = request(vec![], fields);
    request["anyOf"] = json!([{"required": ["input"]}, {"required": ["previous_response_id"]}]);
    request
}

fn own() -> Fields {
    vec![
        ("input", any_of(&[text(), list(&named("ResponsesInputItem"))])),
        ("instructions", text()),
        ("previous_response_id", text()),
        ("store", boolean()),
        ("max_output_tokens", integer_from(1)),
        ("top_logprobs", integer(0, 20)),
        ("tools", offered()),
        ("tool_choice", tool_choice()),
        ("parallel_tool_calls", boolean()),
        ("reasoning", reasoning()),
        ("text", form()),
        ("include", list(&text())),
        (
            "metadata",
            json!({"type": "object", "maxProperties": 16, "additionalProperties": text()}),
        ),
        ("user", text()),
        ("safety_identifier", text()),
        ("service_tier", text()),
        ("prompt_cache_key", text()),
        ("prompt_cache_retention", text()),
        ("client_metadata", any_object()),
        ("prompt_cache_options", any_object()),
        ("max_tool_calls", integer_from(1)),
        ("truncation", word(&["auto", "disabled"])),
        ("context_management", list(&anything())),
        ("background", only(false)),
        ("conversation", nothing()),
        ("prompt", nothing()),
        ("moderation", nothing()),
        ("response_format", nothing()),
        ("n", only(1)),
    ]
}

fn tool() -> Value {
    let mut fields = shared::function();
    fields.extend(
        ["output_schema", "defer_loading", "allowed_callers"].map(|name| (name, anything())),
    );
    request(vec![("type", only("function"))], fields)
}

fn namespace() -> Value {
    let tools = list(&any_of(&[tool(), any_object()]));
    request(
        vec![("type", only("namespace")), ("name", text())],
        vec![("description", text()), ("tools", tools)],
    )
}

fn tool_choice() -> Value {
    let one = |more: Fields| {
        let mut optional = vec![("namespace", text())];
        optional.extend(more);
        request(vec![("type", only("function")), ("name", text())], optional)
    };
    let described = ["description", "parameters", "strict"].map(|name| (name, anything()));
    let mut some = vec![("type", only("allowed_tools"))];
    some.extend(shared::allowed(&one(described.into())));
    any_of(&[word(&["auto", "none", "required"]), one(vec![]), request(some, vec![])])
}

fn reasoning() -> Value {
    let lengths = || word(&["auto", "concise", "detailed", "none"]);
    request(
        vec![],
        vec![
            ("effort", shared::effort()),
            ("summary", lengths()),
            ("generate_summary", lengths()),
            ("mode", word(&["standard", "pro"])),
            ("context", word(&["auto", "current_turn", "all_turns"])),
        ],
    )
}

/// `text`, which says what the answer looks like.
fn form() -> Value {
    let named = vec![("name", text()), ("description", text()), ("strict", boolean())];
    let format = any_of(&[
        request(vec![("type", word(&["text", "json_object"]))], vec![]),
        request(vec![("type", only("json_schema")), ("schema", json_schema())], named),
    ]);
    request(vec![], vec![("format", format), ("verbosity", word(&["low", "medium", "high"]))])
}

/// An item of the conversation, which has the fields of its type.
fn input_item() -> Value {
    let called = || vec![("namespace", text()), ("call_id", text())];
    let given = vec![("output", output()), ("name", text()), ("namespace", text())];
    let thoughts = || any_of(&[text(), list(&any_of(&[text(), thought()]))]);
    let arguments = any_of(&[text(), any_object()]);
    any_of(&[
        message(),
        item_of(&["reasoning"], vec![], vec![("content", thoughts()), ("summary", thoughts())]),
        item_of(
            &["function_call"],
            vec![("name", text())],
            called().into_iter().chain([("arguments", arguments)]).collect(),
        ),
        item_of(
            &["custom_tool_call"],
            vec![("name", text())],
            called().into_iter().chain([("input", text())]).collect(),
        ),
        item_of(HOSTED_CALLS, vec![], vec![("call_id", text()), ("action", anything())]),
        item_of(HOSTED_CALLS, vec![], vec![("call_id", text()), ("operation", anything())]),
        item_of(RESULTS, vec![], given.into_iter().chain([("call_id", text())]).collect()),
        item_of(&["additional_tools"], vec![], vec![("tools", offered()), ("role", text())]),
        other_item(),
    ])
}

/// Calls of tools that a vendor's models know by themselves.
const HOSTED_CALLS: &[&str] = &["local_shell_call", "shell_call", "apply_patch_call"];

/// What tools gave.
const RESULTS: &[&str] = &[
    "function_call_output",
    "custom_tool_call_output",
    "local_shell_call_output",
    "shell_call_output",
    "apply_patch_call_output",
];

/// Types of texts.
const TEXTS: &[&str] = &["input_text", "output_text", "text"];

/// An item of one of these types, with what clients know about it and a model need not.
fn item_of(kinds: &[&str], required: Fields, mut optional: Fields) -> Value {
    let ignored = [
        "id",
        "status",
        "phase",
        "caller",
        "created_by",
        "environment",
        "max_output_length",
        "internal_chat_message_metadata_passthrough",
        "parsed_arguments",
    ];
    optional.extend(ignored.map(|name| (name, anything())));
    let sealed = if kinds == ["reasoning"] { text() } else { anything() };
    optional.push(("encrypted_content", sealed));
    request([("type", word(kinds))].into_iter().chain(required).collect(), optional)
}

/// The short form of a message has no type.
fn message() -> Value {
    let marks = ["annotations", "logprobs", "prompt_cache_breakpoint", "cache_control", "parsed"];
    let part = |required: Fields| request(required, marks.map(|name| (name, anything())).into());
    let said = part(vec![("type", word(TEXTS)), ("text", text())]);
    let refused = part(vec![("type", only("refusal")), ("refusal", text())]);
    let of = |roles: &[&str], parts: &[Value]| {
        let content = any_of(&[text(), list(&any_of(parts))]);
        let mut item =
            item_of(&["message"], vec![("role", word(roles)), ("content", content)], vec![]);
        item["properties"]["type"] = nullable(word(&["message"]));
        item["required"] = json!(["role", "content"]);
        item
    };
    any_of(&[
        of(&["user", "system", "developer"], &[text(), said.clone()]),
        of(&["assistant"], &[text(), said, refused]),
    ])
}

fn thought() -> Value {
    request(vec![("text", text())], vec![("type", anything())])
}

/// What a tool gave: what is no text is told in words.
fn output() -> Value {
    let said = json!({
        "type": "object",
        "required": ["type", "text"],
        "properties": {"type": word(TEXTS), "text": text()},
    });
    let other = json!({"not": {
        "type": "object",
        "required": ["type"],
        "properties": {"type": word(TEXTS)},
    }});
    any_of(&[text(), list(&any_of(&[said, other])), any_object()])
}

/// An item that is left out, with a warning in the header of the reply.
fn other_item() -> Value {
    let known: Vec<&str> = [
        "message",
        "reasoning",
        "function_call",
        "custom_tool_call",
        "additional_tools",
        "item_reference",
    ]
    .into_iter()
    .chain(HOSTED_CALLS.iter().copied())
    .chain(RESULTS.iter().copied())
    .collect();
    json!({
        "type": "object",
        "required": ["type"],
        "properties": {"type": {"type": "string", "not": {"enum": known}}},
    })
}

/// The tools that the model may call.
fn offered() -> Value {
    shared::tools(&any_of(&[tool(), namespace()]))
}

fn reply() -> Value {
    let mut fields = repeated();
    fields.extend([
        ("id", text()),
        ("object", only("response")),
        ("created_at", count()),
        ("model", text()),
        ("status", word(&["in_progress", "completed", "incomplete", "failed"])),
        ("error", nullable(object(vec![("code", text()), ("message", text())], vec![]))),
        ("incomplete_details", nullable(object(vec![("reason", text())], vec![]))),
        ("output", list(&named("ResponsesItem"))),
        ("usage", nullable(usage())),
    ]);
    object(fields, vec![("timings", named("Timings")), ("user", text())])
}

/// What a response tells again of its request.
fn repeated() -> Fields {
    vec![
        ("background", boolean()),
        ("instructions", nullable(text())),
        ("max_output_tokens", nullable(integer_from(1))),
        ("max_tool_calls", nullable(integer_from(1))),
        ("metadata", any_object()),
        ("parallel_tool_calls", boolean()),
        ("previous_response_id", nullable(text())),
        ("prompt_cache_key", nullable(text())),
        ("prompt_cache_retention", nullable(text())),
        ("reasoning", any_object()),
        ("safety_identifier", nullable(text())),
        ("service_tier", text()),
        ("store", boolean()),
        ("temperature", json!({"type": ["number", "null"]})),
        ("text", any_object()),
        ("tool_choice", json!({"type": ["string", "object"]})),
        ("tools", list(&any_object())),
        ("top_logprobs", count()),
        ("top_p", json!({"type": ["number", "null"]})),
        ("truncation", text()),
    ]
}

fn usage() -> Value {
    let input = object(vec![("cached_tokens", count()), ("cache_write_tokens", count())], vec![]);
    object(
        vec![
            ("input_tokens", count()),
            ("input_tokens_details", input),
            ("output_tokens", count()),
            ("output_tokens_details", object(vec![("reasoning_tokens", count())], vec![])),
            ("total_tokens", count()),
            ("timings", short_timings()),
        ],
        vec![],
    )
}

fn item() -> Value {
    let begun = |kind: &str| {
        let statuses = word(&["in_progress", "completed", "incomplete"]);
        vec![("type", only(kind)), ("id", text()), ("status", statuses)]
    };
    let with = |kind: &str, more: Fields| begun(kind).into_iter().chain(more).collect::<Fields>();
    let thought = |kind: &str| list(&object(vec![("type", only(kind)), ("text", text())], vec![]));
    let reasoning =
        vec![("summary", thought("summary_text")), ("content", thought("reasoning_text"))];
    let message = vec![("role", only("assistant")), ("content", list(&output_text()))];
    let call = vec![("call_id", text()), ("name", text()), ("arguments", text())];
    any_of(&[
        object(with("reasoning", reasoning), vec![("encrypted_content", text())]),
        object(with("message", message), vec![]),
        object(with("function_call", call), vec![("namespace", text())]),
    ])
}

fn output_text() -> Value {
    object(
        vec![
            ("type", only("output_text")),
            ("text", text()),
            ("annotations", empty_list()),
            ("logprobs", list(&token_logprob())),
        ],
        vec![],
    )
}

/// The data of a frame, whose name is its type.
fn event() -> Value {
    let types = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.reasoning_text.delta",
        "response.reasoning_text.done",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
        "response.incomplete",
        "response.failed",
        "error",
    ];
    json!({
        "type": "object",
        "required": ["type", "sequence_number"],
        "properties": {
            "type": word(&types),
            "sequence_number": count(),
            "response": named("ResponsesReply"),
            "item": named("ResponsesItem"),
            "item_id": text(),
            "output_index": count(),
            "content_index": count(),
            "summary_index": count(),
            "delta": text(),
        },
    })
}

fn deleted() -> Value {
    object(vec![("id", text()), ("object", only("response")), ("deleted", only(true))], vec![])
}
