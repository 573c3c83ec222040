//! Reads the messages of a chat: who wrote them, what they say, the tools that were called and what came of it.

use std::collections::HashMap;

use frank_chat::{Message, Role, ToolCall};
use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::fields::{Fields, wrong_type};
use crate::json::Budget;

/// Reads `messages`.
pub(super) fn read(fields: &mut Fields) -> Result<Vec<Message>, ApiError> {
    let items = fields.required_list("messages")?;
    if items.is_empty() {
        return Err(ApiError::invalid("messages", "messages must hold at least one message"));
    }
    let mut budget = Budget::default();
    let numbered = items.into_iter().enumerate();
    let messages = numbered.map(|(i, item)| message(item, format!("messages[{i}]"), &mut budget));
    let mut messages = messages.collect::<Result<Vec<_>, _>>()?;
    name_results(&mut messages);
    Ok(messages)
}

fn message(item: Value, path: String, budget: &mut Budget) -> Result<Message, ApiError> {
    let mut fields = Fields::of(item, path)?;
    let role = role(&mut fields)?;
    let empty_list = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
    fields.refuse_unless("annotations", " or send an empty list", empty_list)?;
    fields.refuse_unless("refusal", " or send an empty text", |value| value == "")?;
    let message = Message {
        name: fields.string("name")?,
        reasoning: reasoning(&mut fields)?,
        tool_calls: tool_calls(&mut fields, role, budget)?,
        tool_call_id: if role == Role::Tool { fields.string("tool_call_id")? } else { None },
        ..Message::new(role, content(&mut fields, role)?)
    };
    fields.finish()?;
    Ok(message)
}

/// What the model thought, under either of the names in use.
fn reasoning(fields: &mut Fields) -> Result<Option<String>, ApiError> {
    let (one, other) = (fields.string("reasoning_content")?, fields.string("reasoning")?);
    let is_said = |text: &String| !text.is_empty();
    Ok(one.filter(is_said).or(other.filter(is_said)))
}

fn role(fields: &mut Fields) -> Result<Role, ApiError> {
    match fields.required_string("role")?.as_str() {
        "system" | "developer" => Ok(Role::System),
        "user" => Ok(Role::User),
        "assistant" => Ok(Role::Assistant),
        // The second is the older name, of the time when an answer could call once.
        "tool" | "function" => Ok(Role::Tool),
        other => {
            let path = fields.path("role");
            let message =
                format!("{path} must be system, developer, user, assistant or tool, not {other:?}");
            Err(ApiError::invalid(path, message))
        }
    }
}

/// A text, or a list of text parts. Parts are joined by line breaks. An answer of the model may have none, and neither
/// does every tool have something to say.
fn content(fields: &mut Fields, role: Role) -> Result<String, ApiError> {
    let path = fields.path("content");
    let content = match role {
        Role::Assistant | Role::Tool => fields.take("content").unwrap_or_else(|| Value::from("")),
        Role::System | Role::User => fields.required("content")?,
    };
    match content {
        Value::String(text) => Ok(text),
        Value::Array(parts) => {
            let texts = parts
                .into_iter()
                .enumerate()
                .map(|(i, part)| text_part(part, format!("{path}[{i}]")));
            Ok(texts.collect::<Result<Vec<_>, _>>()?.join("\n"))
        }
        other => Err(wrong_type(path, "a string or a list of text parts", &other)),
    }
}

fn text_part(part: Value, path: String) -> Result<String, ApiError> {
    let mut fields = Fields::of(part, path)?;
    let kind = fields.string("type")?.unwrap_or_default();
    if kind != "text" {
        let path = fields.path("type");
        let message = format!("{path} must be \"text\", not {kind:?}: this model reads only text");
        return Err(ApiError::invalid(path, message).with_code("unsupported_parameter"));
    }
    let text = fields.required_string("text")?;
    // Where a vendor's cache should end a prefix.
    fields.ignore(&["cache_control"]);
    fields.finish()?;
    Ok(text)
}

/// Calls of an answer: `tool_calls`, or the one of the older `function_call`. Other messages have none.
fn tool_calls(
    fields: &mut Fields,
    role: Role,
    budget: &mut Budget,
) -> Result<Vec<ToolCall>, ApiError> {
    if role != Role::Assistant {
        let empty_list = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
        fields.refuse_unless("tool_calls", ": only an assistant calls tools", empty_list)?;
        return Ok(Vec::new());
    }
    let path = fields.path("tool_calls");
    let items = match fields.take("tool_calls") {
        None => Vec::new(),
        Some(Value::Array(items)) => items,
        Some(other) => return Err(wrong_type(path, "a list", &other)),
    };
    let numbered = items.into_iter().enumerate();
    let calls = numbered.map(|(i, item)| tool_call(item, format!("{path}[{i}]"), budget));
    let mut calls = calls.collect::<Result<Vec<_>, _>>()?;
    if let Some(call) = fields.take("function_call") {
        calls.push(function(call, fields.path("function_call"), None, budget)?);
    }
    Ok(calls)
}

fn tool_call(item: Value, path: String, budget: &mut Budget) -> Result<ToolCall, ApiError> {
    let mut fields = Fields::of(item, path)?;
    let kind = fields.string("type")?.unwrap_or_else(|| "function".to_owned());
    if kind != "function" {
        let path = fields.path("type");
        let message = format!("{path} must be function, not {kind:?}");
        return Err(ApiError::invalid(path, message).with_code("unsupported_parameter"));
    }
    let id = fields.string("id")?;
    let function = function(fields.required("function")?, fields.path("function"), id, budget)?;
    // Clients send back what they put together of a stream, and the place in it.
    fields.ignore(&["index", "cache_control"]);
    fields.finish()?;
    Ok(function)
}

fn function(
    value: Value,
    path: String,
    id: Option<String>,
    budget: &mut Budget,
) -> Result<ToolCall, ApiError> {
    let mut fields = Fields::of(value, path)?;
    let name = fields.required_string("name")?;
    let path = fields.path("arguments");
    let arguments = match fields.take("arguments") {
        None => Value::Object(Map::new()),
        Some(Value::String(text)) => budget.arguments(text, &path)?,
        Some(object @ Value::Object(_)) => object,
        Some(other) => return Err(wrong_type(path, "a string of JSON", &other)),
    };
    fields.finish()?;
    Ok(ToolCall { id, name, arguments })
}

/// Gives results of tools the names that their calls had, where they have none of their own.
fn name_results(messages: &mut [Message]) {
    let mut names: HashMap<String, String> = HashMap::new();
    for message in messages {
        for call in &message.tool_calls {
            if let Some(id) = &call.id {
                names.insert(id.clone(), call.name.clone());
            }
        }
        if message.name.is_none() && message.role == Role::Tool {
            let id = message.tool_call_id.as_deref();
            message.name = id.and_then(|id| names.get(id)).cloned();
        }
    }
}
