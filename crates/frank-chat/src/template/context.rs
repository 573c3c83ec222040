//! What a template sees of a conversation: the values of `transformers`, with every text guarded. Never renders.

use minijinja::context;
use minijinja::value::Value;
use serde_json::Value as Json;

use super::error::TemplateError;
use crate::conversation::{Conversation, Message, Tool, ToolCall};
use crate::guard::ControlTexts;

/// Variables and functions that every template has; no client sets them.
const RESERVED: [&str; 11] = [
    "messages",
    "tools",
    "bos_token",
    "eos_token",
    "add_generation_prompt",
    "documents",
    "strftime_now",
    "raise_exception",
    "namespace",
    "range",
    "dict",
];

/// Makes template values of texts that strangers wrote.
pub(super) struct Guarding<'a> {
    pub(super) controls: ControlTexts<'a>,
    pub(super) guard: char,
}

impl Guarding<'_> {
    /// `messages`, and `tools` as a list or none.
    ///
    /// # Errors
    /// [`TemplateError::UnguardableControl`] for a text with a control token that no guard can part.
    pub(super) fn context(&self, conversation: &Conversation) -> Result<Value, TemplateError> {
        if let Some(text) = conversation.texts().find_map(|text| self.controls.unguardable(text)) {
            return Err(TemplateError::UnguardableControl { text: text.to_owned() });
        }
        let messages: Vec<Value> =
            conversation.messages.iter().map(|message| self.message(message)).collect();
        let tools: Vec<Value> = conversation.tools.iter().map(|tool| self.tool(tool)).collect();
        let tools = if tools.is_empty() { Value::from(()) } else { Value::from(tools) };
        Ok(context! { messages, tools, ..self.switches(conversation) })
    }

    /// What this conversation sets beside its messages. A switch that is not set has no name, so that templates take their
    /// own defaults.
    fn switches(&self, conversation: &Conversation) -> Value {
        let thinking = conversation.thinking.map(Value::from);
        let switches = of_pairs([
            ("enable_thinking", thinking.clone()),
            ("thinking", thinking),
            ("reasoning_effort", conversation.effort.as_deref().map(|effort| self.text(effort))),
        ]);
        let variables = conversation.variables.iter();
        let variables = variables.filter(|(name, _)| !RESERVED.contains(&name.as_str()));
        let variables =
            Value::from_pairs(variables.map(|(name, value)| (name.as_str(), self.json(value))));
        context! { ..switches, ..variables }
    }

    /// What is not there has no key. Reasoning has the name that most templates read and the older one.
    fn message(&self, message: &Message) -> Value {
        let text = |text: &Option<String>| text.as_deref().map(|text| self.text(text));
        let calls: Vec<Value> =
            message.tool_calls.iter().map(|call| self.tool_call(call)).collect();
        of_pairs([
            ("role", Some(Value::from(message.role.as_str()))),
            ("content", Some(self.text(&message.content))),
            ("name", text(&message.name)),
            ("thinking", text(&message.reasoning)),
            ("reasoning_content", text(&message.reasoning)),
            ("tool_calls", (!calls.is_empty()).then(|| Value::from(calls))),
            ("tool_call_id", text(&message.tool_call_id)),
        ])
    }

    fn tool_call(&self, call: &ToolCall) -> Value {
        let function = of_pairs([
            ("name", Some(self.text(&call.name))),
            ("arguments", Some(self.json(&call.arguments))),
        ]);
        of_pairs([
            ("id", call.id.as_deref().map(|id| self.text(id))),
            ("type", Some(Value::from("function"))),
            ("function", Some(function)),
        ])
    }

    fn tool(&self, tool: &Tool) -> Value {
        let function = of_pairs([
            ("name", Some(self.text(&tool.name))),
            ("description", tool.description.as_deref().map(|text| self.text(text))),
            ("parameters", tool.parameters.as_ref().map(|schema| self.json(schema))),
        ]);
        of_pairs([("type", Some(Value::from("function"))), ("function", Some(function))])
    }

    fn json(&self, value: &Json) -> Value {
        match value {
            Json::Null => Value::from(()),
            Json::Bool(bool) => Value::from(*bool),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(integer), _) => Value::from(integer),
                (None, Some(integer)) => Value::from(integer),
                (None, None) => Value::from(number.as_f64()),
            },
            Json::String(text) => self.text(text),
            Json::Array(items) => items.iter().map(|item| self.json(item)).collect(),
            Json::Object(map) => {
                Value::from_pairs(map.iter().map(|(key, value)| (self.text(key), self.json(value))))
            }
        }
    }

    fn text(&self, text: &str) -> Value {
        Value::from(self.controls.guarded(text, self.guard))
    }
}

fn of_pairs<const N: usize>(pairs: [(&'static str, Option<Value>); N]) -> Value {
    Value::from_pairs(pairs.into_iter().filter_map(|(key, value)| Some((key, value?))))
}
