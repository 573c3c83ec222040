//! Reads what was said: items become messages. Thoughts, text and calls of one turn of the model become one message.

use std::collections::HashMap;

use frank_chat::{Message, Role, ToolCall};
use serde_json::{Value, json};

use super::items::unsealed;
use super::tools::{OfferedTools, joined};
use crate::dialects::openai::tools::items;
use crate::error::ApiError;
use crate::fields::{Fields, wrong_type};
use crate::json::Budget;

/// What clients know about an item and a model need not.
const BOOKKEEPING: &[&str] = &[
    "id",
    "status",
    "phase",
    "caller",
    "created_by",
    "environment",
    "encrypted_content",
    "max_output_length",
    "internal_chat_message_metadata_passthrough",
    // What a library made of the arguments, which stand beside it.
    "parsed_arguments",
];

/// Most kinds of items that a warning lists.
const KINDS_MAX: usize = 8;

/// Most characters of a kind that a warning quotes.
const KIND_CHARS_MAX: usize = 40;

/// Reads `input`. There may be none where the conversation goes on after a stored response.
pub(super) fn read(
    fields: &mut Fields,
    goes_on: bool,
    tools: &mut OfferedTools,
    warnings: &mut Vec<String>,
) -> Result<Vec<Message>, ApiError> {
    let input = if goes_on { fields.take("input") } else { Some(fields.required("input")?) };
    let mut history = History::new(tools);
    match input {
        None => {}
        Some(Value::String(text)) => history.messages.push(Message::new(Role::User, text)),
        Some(Value::Array(items)) => {
            for (i, item) in items.into_iter().enumerate() {
                history.add(Fields::of(item, format!("input[{i}]"))?)?;
            }
        }
        Some(other) => {
            return Err(wrong_type("input".to_owned(), "a string or a list of items", &other));
        }
    }
    history.end_turn();
    warnings.extend(history.warnings());
    // Some clients ask whether anybody is there with nothing but the question.
    if history.messages.is_empty() && !goes_on {
        history.messages.push(Message::new(Role::User, ""));
    }
    Ok(history.messages)
}

/// What was said so far.
struct History<'a> {
    messages: Vec<Message>,
    /// The turn of the model that is being put together.
    turn: Option<Message>,
    /// The names of the calls, by their ids.
    names: HashMap<String, String>,
    tools: &'a mut OfferedTools,
    budget: Budget,
    /// Kinds of items that were left out.
    skipped: Vec<String>,
    /// Whether a tool gave something else than text.
    has_notes: bool,
}

impl<'a> History<'a> {
    fn new(tools: &'a mut OfferedTools) -> Self {
        Self {
            messages: Vec::new(),
            turn: None,
            names: HashMap::new(),
            tools,
            budget: Budget::default(),
            skipped: Vec::new(),
            has_notes: false,
        }
    }

    fn add(&mut self, mut fields: Fields) -> Result<(), ApiError> {
        let kind = match fields.string("type")? {
            Some(kind) => kind,
            // The short form of a message has no type.
            None => "message".to_owned(),
        };
        match kind.as_str() {
            "message" => self.add_message(fields),
            "reasoning" => self.add_thoughts(fields),
            "function_call" => self.add_call(fields),
            "custom_tool_call" => self.add_custom_call(fields),
            "local_shell_call" | "shell_call" | "apply_patch_call" => {
                self.add_hosted_call(&kind, fields)
            }
            "function_call_output"
            | "custom_tool_call_output"
            | "local_shell_call_output"
            | "shell_call_output"
            | "apply_patch_call_output" => self.add_result(fields),
            "additional_tools" => self.add_tools(fields),
            "item_reference" => Err(not_stored(&fields)),
            other => {
                self.skip(other);
                Ok(())
            }
        }
    }

    fn add_message(&mut self, mut fields: Fields) -> Result<(), ApiError> {
        let role = role(&mut fields)?;
        let path = fields.path("content");
        let content = match fields.required("content")? {
            Value::String(text) => text,
            Value::Array(parts) => joined_parts(parts, &path, |fields| text_part(fields, role))?,
            other => return Err(wrong_type(path, "a string or a list of parts", &other)),
        };
        fields.ignore(BOOKKEEPING);
        fields.finish()?;
        if role == Role::Assistant {
            join(&mut self.turn().content, &content);
        } else {
            self.end_turn();
            self.messages.push(Message::new(role, content));
        }
        Ok(())
    }

    /// What the model thought: as it was told, as it was sealed, or else its summary.
    fn add_thoughts(&mut self, mut fields: Fields) -> Result<(), ApiError> {
        let content = thoughts(&mut fields, "content")?;
        let summary = thoughts(&mut fields, "summary")?;
        let sealed = fields.string("encrypted_content")?;
        let sealed = sealed.as_deref().and_then(unsealed).map(str::to_owned);
        fields.ignore(BOOKKEEPING);
        fields.finish()?;
        if let Some(text) = content.or(sealed).or(summary) {
            join(self.turn().reasoning.get_or_insert_default(), &text);
        }
        Ok(())
    }

    fn add_call(&mut self, mut fields: Fields) -> Result<(), ApiError> {
        let path = fields.path("arguments");
        let arguments = match fields.take("arguments") {
            None => json!({}),
            Some(Value::String(text)) => self.budget.arguments(text, &path)?,
            Some(object @ Value::Object(_)) => object,
            Some(other) => return Err(wrong_type(path, "a string of JSON", &other)),
        };
        let name = called(&mut fields)?;
        self.push_call(fields, name, arguments)
    }

    /// A call whose arguments are a text.
    fn add_custom_call(&mut self, mut fields: Fields) -> Result<(), ApiError> {
        let input = fields.string("input")?.unwrap_or_default();
        let name = called(&mut fields)?;
        self.push_call(fields, name, json!({"input": input}))
    }

    /// A call of a tool that a vendor's models know by themselves: `local_shell_call` calls `local_shell`.
    fn add_hosted_call(&mut self, kind: &str, mut fields: Fields) -> Result<(), ApiError> {
        let what = fields.take("action").or(fields.take("operation"));
        let arguments = what.filter(Value::is_object).unwrap_or_else(|| json!({}));
        let name = kind.strip_suffix("_call").unwrap_or(kind).to_owned();
        self.push_call(fields, name, arguments)
    }

    fn push_call(
        &mut self,
        mut fields: Fields,
        name: String,
        arguments: Value,
    ) -> Result<(), ApiError> {
        let id = fields.string("call_id")?;
        fields.ignore(BOOKKEEPING);
        fields.finish()?;
        if let Some(id) = &id {
            self.names.insert(id.clone(), name.clone());
        }
        self.turn().tool_calls.push(ToolCall { id, name, arguments });
        Ok(())
    }

    fn add_result(&mut self, mut fields: Fields) -> Result<(), ApiError> {
        let output = fields.take("output");
        let content = self.result(output, &fields.path("output"))?;
        let id = fields.string("call_id")?;
        let own_name = fields.string("name")?;
        let namespace = fields.string("namespace")?;
        fields.ignore(BOOKKEEPING);
        fields.finish()?;
        let own_name = own_name.map(|name| joined(namespace.as_deref(), &name));
        let name = own_name.or_else(|| self.names.get(id.as_deref()?).cloned());
        self.end_turn();
        self.messages.push(Message { name, tool_call_id: id, ..Message::new(Role::Tool, content) });
        Ok(())
    }

    /// What a tool gave, as text. Images and files become a note, since the call did happen.
    fn result(&mut self, output: Option<Value>, path: &str) -> Result<String, ApiError> {
        match output {
            None => Ok(String::new()),
            Some(Value::String(text)) => Ok(text),
            Some(Value::Array(parts)) => {
                let texts = parts.into_iter().enumerate().map(|(i, part)| {
                    result_part(part, &format!("{path}[{i}]"), &mut self.has_notes)
                });
                Ok(texts.collect::<Result<Vec<_>, _>>()?.join("\n"))
            }
            Some(object @ Value::Object(_)) => Ok(object.to_string()),
            Some(other) => Err(wrong_type(path.to_owned(), "a string or a list of parts", &other)),
        }
    }

    /// Tools that are offered from here on.
    fn add_tools(&mut self, mut fields: Fields) -> Result<(), ApiError> {
        for (item, path) in items(&mut fields, "tools")? {
            self.tools.add(Fields::of(item, path)?)?;
        }
        fields.string("role")?;
        fields.ignore(BOOKKEEPING);
        fields.finish()
    }

    fn turn(&mut self) -> &mut Message {
        self.turn.get_or_insert_with(|| Message::new(Role::Assistant, ""))
    }

    /// Ends the turn of the model. One in which it only thought was cut off, and is nothing to go on from.
    fn end_turn(&mut self) {
        let Some(turn) = self.turn.take() else { return };
        let is_thought_alone =
            turn.reasoning.is_some() && turn.content.is_empty() && turn.tool_calls.is_empty();
        if !is_thought_alone {
            self.messages.push(turn);
        }
    }

    fn skip(&mut self, kind: &str) {
        let quoted: String = kind.chars().take(KIND_CHARS_MAX).collect();
        let quoted = format!("\"{}\"", quoted.escape_default());
        if self.skipped.len() < KINDS_MAX && !self.skipped.contains(&quoted) {
            self.skipped.push(quoted);
        }
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.skipped.is_empty() {
            let kinds = self.skipped.join(", ");
            warnings.push(format!("items of type {kinds} were left out of input"));
        }
        if self.has_notes {
            let note = "what tools gave beside text became notes: this model reads only text";
            warnings.push(note.to_owned());
        }
        warnings
    }
}

fn not_stored(fields: &Fields) -> ApiError {
    let path = fields.path("type");
    let message = format!(
        "{path}: item_reference is not supported, since items are not stored by themselves: send the item, or \
         previous_response_id"
    );
    ApiError::invalid(path, message).with_code("unsupported_parameter")
}

fn role(fields: &mut Fields) -> Result<Role, ApiError> {
    match fields.required_string("role")?.as_str() {
        "system" | "developer" => Ok(Role::System),
        "user" => Ok(Role::User),
        "assistant" => Ok(Role::Assistant),
        other => {
            let path = fields.path("role");
            let message =
                format!("{path} must be user, assistant, system or developer, not {other:?}");
            Err(ApiError::invalid(path, message))
        }
    }
}

/// The name of a called tool, as the model knows it.
fn called(fields: &mut Fields) -> Result<String, ApiError> {
    let name = fields.required_string("name")?;
    let namespace = fields.string("namespace")?;
    Ok(joined(namespace.as_deref(), &name))
}

/// Adds a further text of the same turn.
fn join(text: &mut String, more: &str) {
    if !text.is_empty() && !more.is_empty() {
        text.push('\n');
    }
    text.push_str(more);
}

/// The texts of parts, joined by line breaks.
fn joined_parts(
    parts: Vec<Value>,
    path: &str,
    mut read: impl FnMut(Fields) -> Result<String, ApiError>,
) -> Result<String, ApiError> {
    let numbered = parts.into_iter().enumerate();
    let texts = numbered.map(|(i, part)| match part {
        Value::String(text) => Ok(text),
        other => read(Fields::of(other, format!("{path}[{i}]"))?),
    });
    Ok(texts.collect::<Result<Vec<_>, _>>()?.join("\n"))
}

fn text_part(mut fields: Fields, role: Role) -> Result<String, ApiError> {
    let kind = fields.required_string("type")?;
    let text = match kind.as_str() {
        "input_text" | "output_text" | "text" => fields.required_string("text")?,
        "refusal" if role == Role::Assistant => fields.required_string("refusal")?,
        other => {
            let path = fields.path("type");
            let message = format!(
                "{path} must be input_text, output_text or text, not {other:?}: this model reads only text"
            );
            return Err(ApiError::invalid(path, message).with_code("unsupported_parameter"));
        }
    };
    fields.ignore(&["annotations", "logprobs", "prompt_cache_breakpoint", "cache_control"]);
    // What a library made of the text.
    fields.ignore(&["parsed"]);
    fields.finish()?;
    Ok(text)
}

/// A part of what a tool gave. What is neither text nor something to look at is told as it was sent.
fn result_part(part: Value, path: &str, has_notes: &mut bool) -> Result<String, ApiError> {
    let kind = part["type"].as_str().unwrap_or_default();
    let note = match kind {
        "input_text" | "output_text" | "text" => {
            return Fields::of(part, path.to_owned())?.required_string("text");
        }
        "input_image" | "output_image" | "image" | "image_url" => "image",
        "input_file" | "input_audio" | "file" | "audio" => "file",
        _ => return Ok(part.as_str().map_or_else(|| part.to_string(), str::to_owned)),
    };
    *has_notes = true;
    Ok(format!("[{note} left out: this model reads only text]"))
}

/// The texts of thoughts; none where they are empty.
fn thoughts(fields: &mut Fields, name: &str) -> Result<Option<String>, ApiError> {
    let path = fields.path(name);
    let text = match fields.take(name) {
        None => return Ok(None),
        Some(Value::String(text)) => text,
        Some(Value::Array(parts)) => joined_parts(parts, &path, |mut part| {
            part.ignore(&["type"]);
            let text = part.required_string("text")?;
            part.finish()?;
            Ok(text)
        })?,
        Some(other) => return Err(wrong_type(path, "a list of texts", &other)),
    };
    Ok(Some(text).filter(|text| !text.is_empty()))
}
