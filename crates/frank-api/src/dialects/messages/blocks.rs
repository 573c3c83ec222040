//! Reads the blocks that messages are made of. Knows nothing about the order of messages.

use frank_chat::{Role, ToolCall};
use serde_json::Value;

use super::seal;
use crate::error::ApiError;
use crate::fields::{Fields, wrong_type};

/// What a block says.
pub(super) enum Block {
    Text(String),
    /// What the model thought.
    Thinking(String),
    Call(ToolCall),
    Result(CallResult),
    /// What only the vendor can read.
    Sealed,
}

/// What a tool gave.
pub(super) struct CallResult {
    /// The call that it belongs to.
    pub(super) call_id: String,
    pub(super) text: String,
}

/// The content of a message at `path`: a text, or a list of blocks.
pub(super) fn content(content: Value, path: &str, role: Role) -> Result<Vec<Block>, ApiError> {
    match content {
        Value::String(text) => Ok(vec![Block::Text(text)]),
        Value::Array(blocks) => {
            let numbered = blocks.into_iter().enumerate();
            numbered.map(|(i, block)| read(block, format!("{path}[{i}]"), role)).collect()
        }
        other => Err(wrong_type(path.to_owned(), "a string or a list of blocks", &other)),
    }
}

fn read(block: Value, path: String, role: Role) -> Result<Block, ApiError> {
    let mut fields = Fields::of(block, path)?;
    let kind = fields.required_string("type")?;
    let block = match (kind.as_str(), role) {
        ("text", _) => Block::Text(text(&mut fields)?),
        ("search_result", Role::User) => Block::Text(search_result(&mut fields)?),
        ("tool_result", Role::User) => Block::Result(tool_result(&mut fields)?),
        ("tool_use", Role::Assistant) => Block::Call(tool_use(&mut fields)?),
        ("thinking", Role::Assistant) => Block::Thinking(thinking(&mut fields)?),
        ("redacted_thinking", Role::Assistant) => {
            fields.ignore(&["data"]);
            Block::Sealed
        }
        _ => return Err(refused(&fields, &kind, role)),
    };
    fields.finish()?;
    Ok(block)
}

fn refused(fields: &Fields, kind: &str, role: Role) -> ApiError {
    let path = fields.path("type");
    let message = match kind {
        "image" | "document" => {
            format!("{path} cannot be {kind:?}: this model reads only text")
        }
        "search_result" | "tool_result" => {
            format!(
                "{path} cannot be {kind:?} in a message of the {}, only in one of the user",
                role.as_str()
            )
        }
        "tool_use" | "thinking" | "redacted_thinking" => {
            format!(
                "{path} cannot be {kind:?} in a message of the {}, only in one of the assistant",
                role.as_str()
            )
        }
        _ => format!("{path} {kind:?} is not supported: leave the block out"),
    };
    ApiError::invalid(path, message).with_code("unsupported_parameter")
}

/// Where a vendor's cache should end a prefix, and where a text was taken from.
fn text(fields: &mut Fields) -> Result<String, ApiError> {
    fields.ignore(&["cache_control", "citations"]);
    fields.required_string("text")
}

/// A thought that the client did not want to see is in its signature. Those of others prove something to them.
fn thinking(fields: &mut Fields) -> Result<String, ApiError> {
    fields.ignore(&["cache_control"]);
    let signature = fields.string("signature")?;
    let text = fields.required_string("thinking")?;
    let hidden = signature.filter(|_| text.is_empty()).and_then(|one| seal::opened(&one));
    Ok(hidden.unwrap_or(text))
}

fn tool_use(fields: &mut Fields) -> Result<ToolCall, ApiError> {
    fields.ignore(&["cache_control", "caller", "toolset_name"]);
    let id = fields.required_string("id")?;
    let name = fields.required_string("name")?;
    match fields.required("input")? {
        input @ Value::Object(_) => Ok(ToolCall { id: Some(id), name, arguments: input }),
        other => Err(wrong_type(fields.path("input"), "an object", &other)),
    }
}

/// That a tool failed is told in words: templates know no other way.
fn tool_result(fields: &mut Fields) -> Result<CallResult, ApiError> {
    fields.ignore(&["cache_control", "toolset_name"]);
    let call_id = fields.required_string("tool_use_id")?;
    let path = fields.path("content");
    let text = match fields.take("content") {
        None => String::new(),
        Some(Value::String(text)) => text,
        Some(Value::Array(parts)) => {
            let numbered = parts.into_iter().enumerate();
            let texts = numbered.map(|(i, part)| result_part(part, format!("{path}[{i}]")));
            texts.collect::<Result<Vec<_>, _>>()?.join("\n")
        }
        Some(other) => return Err(wrong_type(path, "a string or a list of blocks", &other)),
    };
    let failed = fields.bool("is_error")?.unwrap_or(false);
    let text = if failed { format!("Error: {text}") } else { text };
    Ok(CallResult { call_id, text })
}

/// A block of what a tool gave. Clients cannot choose what their tools give, so what is no text is told in words.
fn result_part(part: Value, path: String) -> Result<String, ApiError> {
    let mut fields = Fields::of(part, path)?;
    let kind = fields.required_string("type")?;
    let text = match kind.as_str() {
        "text" => text(&mut fields)?,
        "search_result" => search_result(&mut fields)?,
        "document" => return Ok(document_text(&mut fields).unwrap_or_else(|| left_out(&kind))),
        "tool_reference" => {
            fields.ignore(&["cache_control"]);
            format!("[the tool {}]", fields.required_string("tool_name")?)
        }
        _ => return Ok(left_out(&kind)),
    };
    fields.finish()?;
    Ok(text)
}

fn left_out(kind: &str) -> String {
    format!("[{kind} left out: this model reads only text]")
}

/// The text of a document that is one.
fn document_text(fields: &mut Fields) -> Option<String> {
    let source = fields.take("source")?;
    let is_text = source["type"] == "text";
    source["data"].as_str().filter(|_| is_text).map(str::to_owned)
}

/// Title, source and texts of something that was found, a line each.
fn search_result(fields: &mut Fields) -> Result<String, ApiError> {
    fields.ignore(&["cache_control", "citations"]);
    let mut lines = vec![fields.required_string("title")?, fields.required_string("source")?];
    let path = fields.path("content");
    for (i, part) in fields.required_list("content")?.into_iter().enumerate() {
        lines.push(result_part(part, format!("{path}[{i}]"))?);
    }
    Ok(lines.join("\n"))
}
