//! Two turns in the shape that a coding agent sends: its fields and schemas, our own words.

use frank_api::{ChatRequest, Delivery, ToolChoice};
use frank_chat::Role;
use serde_json::{Value, json};

use crate::messages::parse;

/// The tools of an agent, with what their schemas use.
fn tools() -> Value {
    json!([
        {
            "name": "Run",
            "description": "Runs a command.",
            "input_schema": {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "properties": {
                    "command": {"type": "string", "pattern": "^[^\\u0000]+$"},
                    "seconds": {"type": "number", "exclusiveMinimum": 0},
                    "where": {"anyOf": [{"const": "here"}, {"type": "string", "format": "uri"}]},
                },
                "required": ["command"],
                "additionalProperties": false,
            },
        },
        {
            "name": "Note",
            "description": "Keeps notes by their names.",
            "input_schema": {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "properties": {
                    "notes": {
                        "type": "object",
                        "propertyNames": {"type": "string", "pattern": "^[a-z]+$"},
                        "additionalProperties": {"type": "string"},
                    },
                },
                "required": ["notes"],
                "additionalProperties": false,
            },
        },
        {
            "name": "Stop",
            "description": "Ends the work.",
            "input_schema": {"type": "object", "properties": {}, "additionalProperties": false},
            "cache_control": {"type": "ephemeral", "ttl": "1h"},
        },
    ])
}

/// A request with `messages`, the `turn`th of its session.
fn request(turn: u32, messages: &Value) -> Value {
    let cached = json!({"type": "ephemeral", "ttl": "1h"});
    json!({
        "model": "test-model",
        "max_tokens": 32_000,
        "stream": true,
        "system": [
            {"type": "text", "text": format!("x-anthropic-billing-header: v=1; cch={turn:05x};")},
            {"type": "text", "text": "You work in a terminal.", "cache_control": cached},
            {"type": "text", "text": "Say shortly what you did.", "cache_control": cached},
        ],
        "messages": messages,
        "tools": tools(),
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "metadata": {"user_id": "user_0_session_0"},
    })
}

fn first_turn() -> Value {
    json!([
        {"role": "user", "content": [{"type": "text", "text": "Is it Monday?"}]},
        {"role": "system", "content": "The folder is /tmp."},
    ])
}

fn second_turn() -> Value {
    let answer = json!([
        {"type": "thinking", "thinking": "The clock knows.", "signature": "frank"},
        {"type": "text", "text": "I ask the clock."},
        {"type": "tool_use", "id": "toolu_1", "name": "Run", "input": {"command": "date"}},
    ]);
    let result = json!({
        "type": "tool_result", "tool_use_id": "toolu_1", "content": "Tue", "is_error": false,
        "cache_control": {"type": "ephemeral"},
    });
    let mut messages = first_turn();
    let list = messages.as_array_mut().expect("it is a list");
    list.push(json!({"role": "assistant", "content": answer}));
    list.push(json!({"role": "user", "content": [result]}));
    messages
}

fn accepted(turn: u32, messages: &Value) -> ChatRequest {
    let body = request(turn, messages);
    parse(&body).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn an_agent_is_understood_without_a_warning() {
    let request = accepted(1, &second_turn());
    let conversation = &request.conversation;
    let roles: Vec<Role> = conversation.messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::System, Role::User, Role::System, Role::Assistant, Role::Tool]);
    assert_eq!(
        conversation.messages[0].content,
        "You work in a terminal.\nSay shortly what you did."
    );
    let answer = &conversation.messages[3];
    assert_eq!(answer.reasoning.as_deref(), Some("The clock knows."));
    assert_eq!(answer.tool_calls[0].arguments, json!({"command": "date"}));
    assert_eq!(conversation.messages[4].name.as_deref(), Some("Run"));
    assert_eq!((conversation.thinking, conversation.effort.as_deref()), (None, Some("high")));
    let names: Vec<&str> = conversation.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["Run", "Note", "Stop"]);
    for (tool, sent) in conversation.tools.iter().zip(tools().as_array().expect("a list")) {
        assert_eq!(tool.parameters.as_ref(), Some(&sent["input_schema"]));
    }
    assert_eq!((request.tool_choice, request.parallel_tool_calls), (ToolChoice::Auto, true));
    assert_eq!(request.options.max_tokens, Some(32_000));
    assert_eq!(request.options.delivery, Delivery::Stream { usage: true });
    assert!(request.options.warnings.is_empty(), "{:?}", request.options.warnings);
}

#[test]
fn the_second_turn_begins_with_all_of_the_first() {
    let (first, second) = (accepted(1, &first_turn()), accepted(2, &second_turn()));
    let n = first.conversation.messages.len();
    assert_eq!(second.conversation.messages[..n], first.conversation.messages);
    assert_eq!(second.conversation.tools, first.conversation.tools);
}
