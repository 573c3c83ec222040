//! What was said so far, in the words that every chat protocol shares.

use serde_json::{Map, Value};

/// Who wrote a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Standing instructions (`developer` in some protocols).
    System,
    /// The person or program that asks.
    User,
    /// The model.
    Assistant,
    /// A tool that the model called.
    Tool,
}

impl Role {
    /// The word that templates compare with.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Who wrote it.
    pub role: Role,
    /// Its text; empty where there is none, for templates add to it and cannot add to nothing.
    pub content: String,
    /// The writer's name, where the client gave one.
    pub name: Option<String>,
    /// What the model thought before it answered.
    pub reasoning: Option<String>,
    /// Tools that the model called.
    pub tool_calls: Vec<ToolCall>,
    /// The call that this message is the result of.
    pub tool_call_id: Option<String>,
}

impl Message {
    /// A message of text alone.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
            name: None,
            reasoning: None,
            tool_calls: Vec::new(),
            tool_call_id: None,
        }
    }
}

/// A tool that the model called.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// Names the call, so that its result can be found.
    pub id: Option<String>,
    /// Name of the tool.
    pub name: String,
    /// What the tool was given: an object, for most templates.
    pub arguments: Value,
}

/// A tool that the model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Name of the tool.
    pub name: String,
    /// What it does, for the model to read.
    pub description: Option<String>,
    /// JSON schema of its arguments.
    pub parameters: Option<Value>,
    /// Whether the arguments must keep to the schema whatever it costs. Templates do not see it.
    pub strict: bool,
}

/// The messages that a model shall answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    /// In the order in which they were said.
    pub messages: Vec<Message>,
    /// Tools that the model may call.
    pub tools: Vec<Tool>,
    /// Seconds since 1970 (UTC) for templates that write the date; without it they find no clock.
    pub now: Option<u64>,
    /// Whether the model shall think before it answers, for templates that can switch it.
    pub thinking: Option<bool>,
    /// How much it shall think, in the words of templates that read it: `low`, `medium`, `high`.
    pub effort: Option<String>,
    /// Further variables for the template. None takes the place of one that every template has.
    pub variables: Map<String, Value>,
}

impl Conversation {
    /// The strings that a stranger wrote.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        let mut texts = Vec::new();
        for message in &self.messages {
            texts.push(message.content.as_str());
            texts.extend(message.name.as_deref());
            texts.extend(message.reasoning.as_deref());
            texts.extend(message.tool_call_id.as_deref());
            for call in &message.tool_calls {
                texts.extend(call.id.as_deref());
                texts.push(&call.name);
                add_texts(&call.arguments, &mut texts);
            }
        }
        for tool in &self.tools {
            texts.push(&tool.name);
            texts.extend(tool.description.as_deref());
            if let Some(parameters) = &tool.parameters {
                add_texts(parameters, &mut texts);
            }
        }
        texts.extend(self.effort.as_deref());
        for (name, value) in &self.variables {
            texts.push(name);
            add_texts(value, &mut texts);
        }
        texts.into_iter()
    }

    /// Bytes of all texts together.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        self.texts().map(str::len).sum()
    }
}

/// Adds the strings of a JSON value, keys included.
fn add_texts<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(items) => items.iter().for_each(|item| add_texts(item, texts)),
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            texts.push(key);
            add_texts(value, texts);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
