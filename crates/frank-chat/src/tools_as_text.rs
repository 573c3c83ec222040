//! Tools for models whose template knows none: explained in a system message, called and answered in plain text.

use serde_json::{Map, Value};

use crate::conversation::{Conversation, Message, Role, Tool, ToolCall};
use crate::formats::generic::TAGS;

/// A conversation for a template that knows no tools: a system message says what they are and how they are called, and
/// calls and results of earlier turns become text.
#[must_use]
pub fn with_tools_as_text(conversation: &Conversation) -> Conversation {
    let mut messages: Vec<Message> = Vec::with_capacity(conversation.messages.len() + 1);
    let mut follows_result = false;
    for message in &conversation.messages {
        let text = as_text(message, &conversation.messages);
        match messages.last_mut() {
            // Templates want users and assistants to take turns, so results and what is said next are one message.
            Some(last) if follows_result && text.role == Role::User => {
                last.content.push_str("\n\n");
                last.content.push_str(&text.content);
            }
            _ => messages.push(text),
        }
        follows_result = message.role == Role::Tool || follows_result && message.role == Role::User;
    }
    if !conversation.tools.is_empty() {
        add_to_system(&mut messages, &explanation(&conversation.tools));
    }
    Conversation { messages, tools: Vec::new(), ..conversation.clone() }
}

fn as_text(message: &Message, all: &[Message]) -> Message {
    match message.role {
        Role::Tool => Message::new(Role::User, result_text(message, all)),
        _ if message.tool_calls.is_empty() => message.clone(),
        _ => {
            let said = message.content.as_str();
            let calls = message.tool_calls.iter().map(call_text);
            let parts =
                std::iter::once(said.to_owned()).filter(|text| !text.is_empty()).chain(calls);
            let content = parts.collect::<Vec<_>>().join("\n");
            Message { content, tool_calls: Vec::new(), ..message.clone() }
        }
    }
}

fn call_text(call: &ToolCall) -> String {
    let (name, arguments) = (Value::from(call.name.as_str()), &call.arguments);
    format!("{}\n{{\"name\": {name}, \"arguments\": {arguments}}}\n{}", TAGS.0, TAGS.1)
}

fn result_text(result: &Message, all: &[Message]) -> String {
    let calls = all.iter().flat_map(|message| &message.tool_calls);
    let call = calls.into_iter().find(|call| call.id.is_some() && call.id == result.tool_call_id);
    let name = result.name.as_deref().or(call.map(|call| call.name.as_str()));
    let opening = match name {
        Some(name) => format!("<tool_result name={}>", Value::from(name)),
        None => "<tool_result>".to_owned(),
    };
    format!("{opening}\n{}\n</tool_result>", result.content)
}

fn add_to_system(messages: &mut Vec<Message>, text: &str) {
    match messages.first_mut() {
        Some(first) if first.role == Role::System && first.content.trim().is_empty() => {
            text.clone_into(&mut first.content);
        }
        Some(first) if first.role == Role::System => {
            first.content.push_str("\n\n");
            first.content.push_str(text);
        }
        _ => messages.insert(0, Message::new(Role::System, text)),
    }
}

fn explanation(tools: &[Tool]) -> String {
    let (opening, closing) = TAGS;
    let listed: Vec<String> = tools.iter().map(describe).collect();
    format!(
        "# Tools\n\nThese tools are at hand, one on each line as JSON with the schema of its arguments:\n\n{}\n\n\
         To call one, write its name and its arguments like this and stop there:\n\n\
         {opening}\n{{\"name\": \"the name\", \"arguments\": {{\"an argument\": \"its value\"}}}}\n{closing}\n\n\
         Write one such block for each call. Results come back between <tool_result> and </tool_result>. \
         Where no tool helps, answer in plain words.",
        listed.join("\n")
    )
}

fn describe(tool: &Tool) -> String {
    let mut about = Map::new();
    about.insert("name".to_owned(), Value::from(tool.name.as_str()));
    if let Some(description) = &tool.description {
        about.insert("description".to_owned(), Value::from(description.as_str()));
    }
    if let Some(parameters) = &tool.parameters {
        about.insert("parameters".to_owned(), parameters.clone());
    }
    Value::Object(about).to_string()
}
