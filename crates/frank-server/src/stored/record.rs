//! The form of a stored answer in its file: JSON, with the messages of the conversation in frank's own words.

use frank_chat::{Message, Role, ToolCall};
use serde_json::{Value, json};

use super::Stored;

const ROLES: [Role; 4] = [Role::System, Role::User, Role::Assistant, Role::Tool];

/// The bytes of the file.
pub(super) fn written(answer: &Stored) -> Vec<u8> {
    let messages: Vec<Value> = answer.messages.iter().map(message).collect();
    json!({"body": answer.body, "messages": messages}).to_string().into_bytes()
}

/// The answer that was written; `None` for what is none.
pub(super) fn read(bytes: &[u8]) -> Option<Stored> {
    let mut record: Value = serde_json::from_slice(bytes).ok()?;
    let messages =
        record["messages"].as_array()?.iter().map(read_message).collect::<Option<_>>()?;
    Some(Stored { body: record["body"].take(), messages })
}

fn message(message: &Message) -> Value {
    let calls = message
        .tool_calls
        .iter()
        .map(|call| json!({"id": call.id, "name": call.name, "arguments": call.arguments}));
    json!({
        "role": message.role.as_str(),
        "content": message.content,
        "name": message.name,
        "reasoning": message.reasoning,
        "tool_calls": calls.collect::<Vec<_>>(),
        "tool_call_id": message.tool_call_id,
    })
}

fn read_message(value: &Value) -> Option<Message> {
    let text = |name: &str| value[name].as_str().map(str::to_owned);
    let role = ROLES.into_iter().find(|role| value["role"] == role.as_str())?;
    let call = |call: &Value| {
        Some(ToolCall {
            id: call["id"].as_str().map(str::to_owned),
            name: call["name"].as_str()?.to_owned(),
            arguments: call["arguments"].clone(),
        })
    };
    Some(Message {
        name: text("name"),
        reasoning: text("reasoning"),
        tool_calls: value["tool_calls"].as_array()?.iter().map(call).collect::<Option<_>>()?,
        tool_call_id: text("tool_call_id"),
        ..Message::new(role, text("content")?)
    })
}
