//! Makes one conversation of `system` and `messages`, in which no two messages of one writer follow each other. Never
//! reads what is inside of a block.

use std::collections::HashMap;

use frank_chat::{Message, Role, without_billing_lines};
use serde_json::Value;

use super::blocks::{self, Block, CallResult};
use crate::error::ApiError;
use crate::fields::Fields;

/// What was said.
pub(super) struct Prompt {
    /// At least one.
    pub(super) messages: Vec<Message>,
    /// A sentence about what was not taken as it came.
    pub(super) warning: Option<String>,
}

/// Reads `system` and `messages`.
pub(super) fn read(fields: &mut Fields) -> Result<Prompt, ApiError> {
    let mut turns = Turns::default();
    if let Some(system) = fields.take("system") {
        turns.system(&instructions(system, "system")?);
    }
    let items = fields.required_list("messages")?;
    let last_user = items.iter().rposition(|item| item["role"] == "user");
    for (i, item) in items.into_iter().enumerate() {
        let is_before_user = last_user.is_some_and(|last| i < last);
        turns.add(Fields::of(item, format!("messages[{i}]"))?, is_before_user)?;
    }
    let prompt = turns.finish();
    if prompt.messages.is_empty() {
        return Err(ApiError::invalid("messages", "messages must hold at least one message"));
    }
    Ok(prompt)
}

/// Text for the model alone, a string or text blocks.
fn instructions(content: Value, path: &str) -> Result<String, ApiError> {
    let blocks = blocks::content(content, path, Role::System)?;
    let texts = blocks.iter().filter_map(|block| match block {
        Block::Text(text) => Some(without_billing_lines(text)).filter(|text| !text.is_empty()),
        Block::Thinking(_) | Block::Call(_) | Block::Result(_) | Block::Sealed => None,
    });
    Ok(texts.collect::<Vec<_>>().join("\n"))
}

/// The conversation so far.
#[derive(Default)]
struct Turns {
    messages: Vec<Message>,
    /// What the user said after the last of `messages`.
    user: Option<UserTurn>,
    /// Names of the tools that were called, by the ids of the calls.
    called: HashMap<String, String>,
    /// Results without calls.
    n_lost: usize,
}

#[derive(Default)]
struct UserTurn {
    results: Vec<Message>,
    texts: Vec<String>,
}

impl Turns {
    /// Adds a message. `is_before_user` says whether the user speaks after it.
    fn add(&mut self, mut fields: Fields, is_before_user: bool) -> Result<(), ApiError> {
        let role = role(&mut fields)?;
        let path = fields.path("content");
        if role == Role::System {
            let is_over = is_cleared(&mut fields)? && is_before_user;
            let content = system_content(&mut fields)?;
            fields.finish()?;
            let text = instructions(content, &path)?;
            if !is_over {
                self.system(&text);
            }
            return Ok(());
        }
        let blocks = blocks::content(fields.required("content")?, &path, role)?;
        fields.finish()?;
        match role {
            Role::Assistant => self.assistant(blocks),
            Role::User | Role::System | Role::Tool => self.user(blocks),
        }
        Ok(())
    }

    /// Instructions that follow others belong to them: many templates take one system message, as the first.
    fn system(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.end_user_turn();
        match self.messages.last_mut() {
            Some(last) if last.role == Role::System => last.content.extend(["\n\n", text]),
            _ => self.messages.push(Message::new(Role::System, text)),
        }
    }

    fn user(&mut self, blocks: Vec<Block>) {
        let mut turn = self.user.take().unwrap_or_default();
        for block in blocks {
            match block {
                Block::Text(text) => turn.texts.push(text),
                Block::Result(result) => self.result(&mut turn, result),
                Block::Thinking(_) | Block::Call(_) | Block::Sealed => {}
            }
        }
        self.user = Some(turn);
    }

    /// A result whose call was cut off the conversation is no message that templates know: it becomes text.
    fn result(&mut self, turn: &mut UserTurn, CallResult { call_id, text }: CallResult) {
        let Some(name) = self.called.get(&call_id) else {
            self.n_lost += 1;
            turn.texts.push(format!("[result of an earlier tool call]\n{text}"));
            return;
        };
        turn.results.push(Message {
            name: Some(name.clone()),
            tool_call_id: Some(call_id),
            ..Message::new(Role::Tool, text)
        });
    }

    /// Results come first: they answer what the assistant just called.
    fn end_user_turn(&mut self) {
        let Some(UserTurn { results, mut texts }) = self.user.take() else { return };
        texts.retain(|text| !text.is_empty());
        let says_nothing = texts.is_empty() && !results.is_empty();
        self.messages.extend(results);
        if !says_nothing {
            self.messages.push(Message::new(Role::User, texts.join("\n")));
        }
    }

    fn assistant(&mut self, blocks: Vec<Block>) {
        self.end_user_turn();
        let mut message = match self.messages.pop_if(|last| last.role == Role::Assistant) {
            Some(last) => last,
            None => Message::new(Role::Assistant, ""),
        };
        for block in blocks {
            match block {
                Block::Text(text) => add_line(&mut message.content, &text),
                Block::Thinking(text) if text.is_empty() => {}
                Block::Thinking(text) => {
                    add_line(message.reasoning.get_or_insert_default(), &text);
                }
                Block::Call(call) => {
                    if let Some(id) = &call.id {
                        self.called.insert(id.clone(), call.name.clone());
                    }
                    message.tool_calls.push(call);
                }
                Block::Result(_) | Block::Sealed => {}
            }
        }
        self.messages.push(message);
    }

    fn finish(mut self) -> Prompt {
        self.end_user_turn();
        let warning = (self.n_lost > 0).then(|| {
            format!("tool results without their calls were taken as text: {}", self.n_lost)
        });
        Prompt { messages: self.messages, warning }
    }
}

fn role(fields: &mut Fields) -> Result<Role, ApiError> {
    match fields.required_string("role")?.as_str() {
        "user" => Ok(Role::User),
        "assistant" => Ok(Role::Assistant),
        "system" => Ok(Role::System),
        other => {
            let path = fields.path("role");
            let message = format!("{path} must be user, assistant or system, not {other:?}");
            Err(ApiError::invalid(path, message))
        }
    }
}

/// Whether a system message is for the turn alone in which it stands.
fn is_cleared(fields: &mut Fields) -> Result<bool, ApiError> {
    match fields.string("clear_at")?.as_deref() {
        None | Some("never") => Ok(false),
        Some("next_user_message") => Ok(true),
        Some(other) => {
            let path = fields.path("clear_at");
            let message = format!("{path} must be next_user_message or never, not {other:?}");
            Err(ApiError::invalid(path, message))
        }
    }
}

/// A system message may have settings for its turn in place of a text. They are hints.
fn system_content(fields: &mut Fields) -> Result<Value, ApiError> {
    match fields.take("output_config") {
        Some(_) => Ok(fields.take("content").unwrap_or_else(|| Value::from(""))),
        None => fields.required("content"),
    }
}

/// Adds to a text, in a new line where there is one already.
fn add_line(text: &mut String, more: &str) {
    if !text.is_empty() && !more.is_empty() {
        text.push('\n');
    }
    text.push_str(more);
}
